//! Steps that remember an earlier run of their flow.

use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::replay::{Limit, LimitTurn, Replay, ReplayHooks, Then};
use asyncsteps_core::sync::Mutex;
use asyncsteps_core::{Args, Arguments, BodyResult, Error, Flow, Retry, Time, Undo};

use crate::forms::support::{Log, ms, run};

/// What a test remembers of a step, and what it was told.
struct Kept {
    recall: RefCell<Replay>,
    attempts: Option<(u32, Time)>,
    time_left: Option<Duration>,
    /// When its body began.
    began: Option<Time>,
    log: Log,
}

impl Kept {
    fn new(recall: Replay, log: &Log) -> Self {
        let (recall, log) = (RefCell::new(recall), log.clone());
        Self { recall, attempts: None, time_left: None, began: None, log }
    }
}

impl ReplayHooks for Kept {
    fn recall(&self) -> Replay {
        mem::replace(&mut *self.recall.borrow_mut(), Replay::Nothing)
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        self.attempts
    }

    fn time_left(&self, limit: Limit, of: Duration, now: Time, turn: LimitTurn<'_>) -> Duration {
        if let LimitTurn::Passes(_) = turn {
            return self.began.map_or(Duration::ZERO, |began| (began + of).saturating_since(now));
        }
        self.log.add(format_args!("{limit:?} {of:?}"));
        self.time_left.unwrap_or(of)
    }

    fn fails(&self, attempt: Option<u32>, error: &Error, then: Then) {
        let code = error.code();
        self.log.add(match then {
            Then::Unwinds { undoes } => format!("fails {attempt:?} {code} {undoes}"),
            Then::Retries(next) => format!("retry {attempt:?} {code} {:?}", next.since_epoch()),
        });
    }
}

fn args(value: u32) -> Args {
    (value,).into_args()
}

#[test]
fn a_step_that_ended_gives_its_result_without_its_lock_and_is_undone() {
    let (log, lock) = (Log::default(), Mutex::default());
    let (body, undo) = (log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.run(async move |()| {
        body.add("body");
        Ok(1u32)
    })
    .locked(&lock)
    .undo(async move |outcome| {
        undo.add(format_args!("undo {outcome:?}"));
        Ok(())
    })
    .remembered(Rc::new(Kept::new(Replay::Done(args(7)), &log)));
    flow.run(async |seven: u32| -> BodyResult<()> {
        assert_eq!(seven, 7);
        Err(Error::new("Later").into())
    });
    let (result, _) = run::<()>(flow);
    assert_eq!(result.expect_err("the second step fails").code(), "Later");
    assert_eq!(log.take(), "undo Done(7)");
}

#[test]
fn a_step_that_failed_fails_again_and_its_handler_sees_it() {
    for (undoes, expected) in [(false, "handler"), (true, "undo Unknown handler")] {
        let log = Log::default();
        let (undo, handler) = (log.clone(), log.clone());
        let recall = Replay::Failed { error: Error::new("Before"), undoes };
        let mut flow = Flow::new();
        flow.run(async |()| -> BodyResult<()> { unreachable!("it ended in an earlier run") })
            .undo(async move |outcome: Undo<&()>| {
                undo.add(format_args!("undo {outcome:?}"));
                Ok(())
            })
            .on_error(move |asi, error| {
                assert_eq!(error.code(), "Before");
                handler.add("handler");
                asi.success(())
            })
            .remembered(Rc::new(Kept::new(recall, &log)));
        run::<()>(flow).0.expect("the handler recovers");
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn attempts_go_on_behind_those_of_an_earlier_run() {
    let log = Log::default();
    let body = log.clone();
    let attempts = Some((2, Time::ZERO + ms(40)));
    let mut flow = Flow::new();
    flow.run_with(async move |run: asyncsteps_core::RunContext, ()| {
        body.add(format_args!("try {}", run.attempt));
        if run.attempt < 4 { Err(Error::new("Again").into()) } else { Ok(()) }
    })
    .retry(Retry::attempts(9).backoff(ms(100)).factor(1).on_code("Again"))
    .remembered(Rc::new(Kept { attempts, ..Kept::new(Replay::Nothing, &log) }));
    let (result, took) = run::<()>(flow);
    result.expect("the fourth attempt succeeds");
    assert_eq!(took, 140);
    assert_eq!(log.take(), "try 3 fails Some(3) Again false retry Some(3) Again 140ms try 4");
}

#[test]
fn a_limit_is_what_is_left_of_it_and_a_step_that_must_not_run_waits_for_it() {
    let log = Log::default();
    let mut flow = Flow::new();
    let inner = log.clone();
    flow.add(move |asi, ()| {
        asi.run(async |()| -> BodyResult<()> { unreachable!("it must not run") })
            .remembered(Rc::new(Kept::new(Replay::Never { undoes: false }, &inner)));
    })
    .timeout(ms(500))
    .remembered(Rc::new(Kept { time_left: Some(ms(20)), ..Kept::new(Replay::Nothing, &log) }));
    let (result, took) = run::<()>(flow);
    let error = result.expect_err("the limit expires");
    // it shows the limit that was declared, not what was left of it
    assert_eq!((error.code(), error.limit()), ("Timeout", Some(ms(500))));
    assert_eq!(took, 20);
    assert_eq!(log.take(), "Attempt(1) 500ms fails None Timeout false");
}

#[test]
fn a_step_that_fails_says_so_before_what_is_inside_is_undone() {
    let log = Log::default();
    let (inner, undo) = (log.clone(), log.clone());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        asi.run(async |()| Ok(())).undo(async move |_| {
            undo.add("undo");
            Ok(())
        });
        asi.run(async |()| -> BodyResult<()> { Err(Error::new("Inside").into()) })
            .remembered(Rc::new(Kept::new(Replay::Nothing, &inner)));
    })
    .remembered(Rc::new(Kept::new(Replay::Nothing, &log)));
    let (result, _) = run::<()>(flow);
    assert_eq!(result.expect_err("the second step fails").code(), "Inside");
    assert_eq!(log.take(), "fails None Inside false fails None Inside true undo");
}

#[test]
fn the_limit_of_an_attempt_counts_from_the_beginning_of_its_body() {
    for (is_shielded, is_tried) in [(false, false), (false, true), (true, false)] {
        let log = Log::default();
        let mut flow = Flow::new();
        let mut step = flow.run(async |()| {
            asyncsteps_core::sleep(ms(1_000)).await;
            Ok(())
        });
        if is_tried {
            step.retry(Retry::attempts(1));
        }
        if is_shielded {
            step.shielded();
        }
        let began = Some(Time::ZERO + ms(25));
        let kept = Kept { began, ..Kept::new(Replay::Nothing, &log) };
        step.timeout(ms(10)).remembered(Rc::new(kept));
        let (result, took) = run::<()>(flow);
        let error = result.expect_err("it has ended at last");
        let case = (is_shielded, is_tried);
        assert_eq!((error.code(), error.limit(), took), ("Timeout", Some(ms(10)), 35), "{case:?}");
    }
}

/// Has limits go on until that has ended.
struct Extended {
    is_over: Cell<bool>,
    log: Log,
}

impl ReplayHooks for Extended {
    fn recall(&self) -> Replay {
        Replay::Nothing
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        None
    }

    fn time_left(&self, limit: Limit, of: Duration, _: Time, turn: LimitTurn<'_>) -> Duration {
        if let LimitTurn::Begins = turn {
            return of;
        }
        self.log.add(format_args!("{limit:?} {of:?}"));
        if self.is_over.get() { Duration::ZERO } else { ms(10) }
    }

    fn fails(&self, _: Option<u32>, error: &Error, _: Then) {
        self.log.add(format_args!("fails {}", error.code()));
    }
}

#[test]
fn a_limit_that_goes_on_says_what_it_was() {
    for limit in [Limit::Attempt(1), Limit::Overall] {
        let log = Log::default();
        let extended = Rc::new(Extended { is_over: Cell::new(false), log: log.clone() });
        let of_body = extended.clone();
        let mut flow = Flow::new();
        let mut step = flow.run(async move |()| {
            asyncsteps_core::sleep(ms(12)).await;
            of_body.is_over.set(true);
            asyncsteps_core::sleep(ms(100)).await;
            Ok(())
        });
        match limit {
            Limit::Attempt(_) => step.timeout(ms(5)),
            Limit::Overall => step.retry(Retry::attempts(2).within(ms(5))),
        }
        .remembered(extended);
        let (result, took) = run::<()>(flow);
        let error = result.expect_err("it has ended at last");
        assert_eq!((error.code(), error.limit(), took), ("Timeout", Some(ms(5)), 15));
        assert_eq!(log.take(), format!("{limit:?} 5ms {limit:?} 5ms fails Timeout"));
    }
}

#[test]
fn a_step_that_began_before_is_undone_also_if_it_does_not_begin_again() {
    let (log, lock) = (Log::default(), Mutex::default());
    let undo = log.clone();
    let mut flow = Flow::new();
    flow.run(async |()| -> BodyResult<()> { Err(Error::new("Again").into()) })
        .locked(&lock)
        .undo(async move |outcome| {
            undo.add(format_args!("undo {outcome:?}"));
            Ok(())
        })
        .remembered(Rc::new(Kept::new(Replay::Begun, &log)));
    let (result, _) = run::<()>(flow);
    assert_eq!(result.expect_err("it fails again").code(), "Again");
    assert_eq!(log.take(), "fails None Again true undo Unknown");
}
