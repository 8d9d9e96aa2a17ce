//! Steps that remember an earlier run of their flow.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps::memory::{Limit, Memory, Recall};
use asyncsteps::sync::Mutex;
use asyncsteps::{Args, Arguments, Error, Fallible, Flow, Retry, Time, Undo};

use crate::support::{Log, ms, run};

/// What a test remembers of a step, and what it was told.
struct Kept {
    recall: RefCell<Recall>,
    attempts: Option<(u32, Time)>,
    time_left: Option<Duration>,
    /// When its body began.
    began: Option<Time>,
    log: Log,
}

impl Kept {
    fn new(recall: Recall, log: &Log) -> Self {
        let (recall, log) = (RefCell::new(recall), log.clone());
        Self { recall, attempts: None, time_left: None, began: None, log }
    }
}

impl Memory for Kept {
    fn recall(&self) -> Recall {
        mem::replace(&mut *self.recall.borrow_mut(), Recall::Nothing)
    }

    fn attempts(&self) -> Option<(u32, Time)> {
        self.attempts
    }

    fn time_left(&self, limit: Limit, of: Duration, _: Time) -> Duration {
        self.log.add(format_args!("{limit:?} {of:?}"));
        self.time_left.unwrap_or(of)
    }

    fn left_at_limit(&self, _: Limit, of: Duration, now: Time) -> Duration {
        self.began.map_or(Duration::ZERO, |began| (began + of).saturating_since(now))
    }

    fn retries(&self, attempt: u32, error: &Error, next: Time) {
        self.log.add(format_args!("retry {attempt} {} {:?}", error.code(), next.since_epoch()));
    }

    fn fails(&self, attempt: Option<u32>, error: &Error, undoes: bool) {
        self.log.add(format_args!("fails {attempt:?} {} {undoes}", error.code()));
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
    .remembered(Rc::new(Kept::new(Recall::Done(args(7)), &log)));
    flow.run(async |seven: u32| -> Fallible<()> {
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
        let recall = Recall::Failed { error: Error::new("Before"), undoes, after: None };
        let mut flow = Flow::new();
        flow.run(async |()| -> Fallible<()> { unreachable!("it ended in an earlier run") })
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
    flow.run_with(async move |run: asyncsteps::RunContext, ()| {
        body.add(format_args!("try {}", run.attempt));
        if run.attempt < 4 { Err(Error::new("Again").into()) } else { Ok(()) }
    })
    .retry(Retry::attempts(9).backoff(ms(100)).factor(1).on_code("Again"))
    .remembered(Rc::new(Kept { attempts, ..Kept::new(Recall::Nothing, &log) }));
    let (result, took) = run::<()>(flow);
    result.expect("the fourth attempt succeeds");
    assert_eq!(took, 140);
    assert_eq!(log.take(), "try 3 fails Some(3) Again false retry 3 Again 140ms try 4");
}

#[test]
fn a_limit_is_what_is_left_of_it_and_a_step_that_must_not_run_waits_for_it() {
    let log = Log::default();
    let mut flow = Flow::new();
    let inner = log.clone();
    flow.add(move |asi, ()| {
        asi.run(async |()| -> Fallible<()> { unreachable!("it must not run") })
            .remembered(Rc::new(Kept::new(Recall::Never { undoes: false }, &inner)));
    })
    .timeout(ms(500))
    .remembered(Rc::new(Kept { time_left: Some(ms(20)), ..Kept::new(Recall::Nothing, &log) }));
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
        asi.run(async |()| -> Fallible<()> { Err(Error::new("Inside").into()) })
            .remembered(Rc::new(Kept::new(Recall::Nothing, &inner)));
    })
    .remembered(Rc::new(Kept::new(Recall::Nothing, &log)));
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
            asyncsteps::sleep(ms(1_000)).await;
            Ok(())
        });
        if is_tried {
            step.retry(Retry::attempts(1));
        }
        if is_shielded {
            step.shielded();
        }
        let began = Some(Time::ZERO + ms(25));
        let kept = Kept { began, ..Kept::new(Recall::Nothing, &log) };
        step.timeout(ms(10)).remembered(Rc::new(kept));
        let (result, took) = run::<()>(flow);
        let error = result.expect_err("it is over at last");
        let case = (is_shielded, is_tried);
        assert_eq!((error.code(), error.limit(), took), ("Timeout", Some(ms(10)), 35), "{case:?}");
    }
}
