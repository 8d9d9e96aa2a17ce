//! A panic in a callback fails its step with `InternalError` and goes no further.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use asyncsteps_core::{AsyncSteps, Error, Flow, Observer, StepEnd, StepRef, codes, run_to_end};

use crate::flows::support::{Log, code, end, wait};

/// The message of the panic that ended a flow.
fn panicked(flow: Flow) -> String {
    let error = run_to_end::<()>(flow).expect_err("a callback panicked");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    assert!(!error.is_deliberate());
    let info = error.info().expect("it says what happened");
    assert!(info.starts_with("panic in the step "), "{info}");
    assert_eq!(error.location().map(|place| place.file()), Some(file!()));
    error.panic_message().expect("it was a panic").to_owned()
}

#[test]
fn a_panic_in_a_body_is_an_error_with_its_payload() {
    let mut flow = Flow::new();
    flow.add(|_, ()| -> () { panic!("in the body") });
    assert_eq!(panicked(flow), "in the body");

    let mut flow = Flow::new();
    flow.add(|_, ()| -> () { std::panic::panic_any(7u8) }).on_error(|asi, error| {
        let payload = error.take_panic_payload().and_then(|payload| payload.downcast::<u8>().ok());
        assert!(asi.last_exception().is_some_and(|last| last.take_panic_payload().is_none()));
        asi.success(*payload.expect("the value of the panic"))
    });
    assert_eq!(run_to_end::<u8>(flow).expect("recovered"), 7);
}

#[test]
fn a_panic_beats_what_the_callback_did_before() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| -> () {
        asi.add(|_, ()| unreachable!("its parent failed"));
        let _ = asi.error("MyError", ());
        panic!("later")
    });
    assert_eq!(panicked(flow), "later");
    let mut flow = Flow::new();
    flow.add(|asi, ()| -> () {
        let _ = asi.success(1);
        panic!("after success")
    });
    assert_eq!(panicked(flow), "after success");
}

#[test]
fn a_panic_in_an_error_handler_goes_to_the_next_one() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.error("MyError", ()))
        .on_error(|_, _| -> () { panic!("in the handler") });
    assert_eq!(panicked(flow), "in the handler");
}

#[test]
fn a_panic_in_a_loop_body_ends_the_loop() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.repeat(3, |_, i| assert!(i < 1, "in iteration {i}"));
    });
    assert_eq!(panicked(flow), "in iteration 1");
}

/// A future that panics when it is polled.
struct Bomb;

impl Future for Bomb {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        panic!("in the future")
    }
}

#[test]
fn a_panic_in_a_future_fails_its_step() {
    let mut flow = Flow::new();
    flow.await_(Bomb);
    assert_eq!(panicked(flow), "in the future");
}

#[test]
fn a_panic_in_a_branch_cancels_its_siblings() {
    let log = Log::default();
    let cancelled = log.clone();
    let mut flow = Flow::new();
    flow.parallel(|p| {
        p.add(move |asi, ()| asi.set_cancel(move |_| cancelled.add("cancelled")));
        p.add(|_, ()| -> () { panic!("in the branch") });
    });
    assert_eq!(panicked(flow), "in the branch");
    assert_eq!(log.take(), "cancelled");
}

/// Logs failed cancel handlers.
struct Told(Log);

impl Observer for Told {
    fn begin(&mut self, _: StepRef) {}
    fn enter(&mut self, _: StepRef) {}
    fn leave(&mut self, _: StepRef) {}
    fn end(&mut self, _: StepRef, _: StepEnd<'_>) {}
    fn cancel_failed(&mut self, _: StepRef, error: &Error) {
        let info = error.info().unwrap_or("none");
        let rule = info.split(" in the step").next().unwrap_or(info);
        self.0.add(format_args!("{}({rule})", error.code()));
    }
}

#[test]
fn a_cancel_handler_that_fails_is_reported_and_does_not_stop_the_cancelling() {
    let log = Log::default();
    let mut flow = Flow::new();
    flow.observe(Told(log.clone()));
    let outer = log.clone();
    fn level(asi: &mut AsyncSteps, handlers: Vec<fn(&mut AsyncSteps)>, log: Log) {
        let mut rest = handlers;
        match rest.pop() {
            Some(handler) => {
                asi.set_cancel(handler);
                asi.add(move |asi, ()| level(asi, rest, log));
            }
            None => asi.set_cancel(move |_| log.add("innermost")),
        }
    }
    flow.add(move |asi, ()| {
        let last = outer.clone();
        asi.set_cancel(move |_| last.add("outermost"));
        let handlers: Vec<fn(&mut AsyncSteps)> = vec![
            |_| panic!("no"),
            |asi| drop(asi.error("Mine", "why")),
            |asi| drop(asi.success(1)),
            |asi| {
                asi.add(|_, ()| {});
            },
            |asi| drop(asi.break_loop(None)),
        ];
        asi.add(move |asi, ()| level(asi, handlers, outer));
    });
    let mut execution = flow.execute();
    wait(&mut execution, 0);
    execution.cancel();
    let unseen = execution.take_unreported_errors();
    let unseen: Vec<_> = unseen
        .iter()
        .map(|error| error.panic_message().or_else(|| error.info()).unwrap_or(""))
        .collect();
    assert_eq!(unseen.len(), 5, "{unseen:?}");
    assert_eq!(unseen[..2], ["no", "why"]);
    assert_eq!(
        log.take(),
        "innermost InternalError(panic) Mine(why) InternalError(success in a cancel handler,) \
         InternalError(adding a step in a cancel handler,) \
         InternalError(the end of a loop in a cancel handler,) outermost"
    );
}

#[test]
fn a_failing_cancel_handler_does_not_change_the_error() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_cancel(|_| -> () { panic!("in the cancel handler") });
        asi.error("MyError", ())
    });
    assert_eq!(code(flow), "MyError");
}

#[test]
fn a_flow_goes_on_after_a_panic_was_handled() {
    let mut flow = Flow::new();
    flow.add(|_, ()| -> () { panic!("handled") }).on_error(|asi, _| {
        asi.add(|asi, ()| asi.success("went on"));
    });
    assert_eq!(end::<String>(&mut flow.execute(), 0).expect("recovered"), "went on");
}

/// Panics when it is dropped.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in the destructor");
        }
    }
}

/// Panics when a step is cancelled.
struct Breaks;

impl Observer for Breaks {
    fn begin(&mut self, _: StepRef) {}
    fn enter(&mut self, _: StepRef) {}
    fn leave(&mut self, _: StepRef) {}
    fn end(&mut self, _: StepRef, end: StepEnd<'_>) {
        if let StepEnd::Cancelled = end {
            panic!("in the observer");
        }
    }
    fn cancel_failed(&mut self, _: StepRef, _: &Error) {}
}

#[test]
fn a_panic_while_a_flow_is_cancelled_keeps_its_undos_and_cancel_handlers() {
    for observed in [false, true] {
        let log = Log::default();
        let mut flow = Flow::new();
        if observed {
            flow.observe(Breaks);
        }
        flow.run(async |()| Ok(1)).undo(async |_| Ok(()));
        let cancels = log.clone();
        flow.add(move |asi, _: i32| {
            let outer = cancels.clone();
            asi.set_cancel(move |_| outer.add("outer"));
            asi.parallel(move |p| {
                for name in ["first", "second"] {
                    let cancels = cancels.clone();
                    p.add(move |asi, ()| {
                        asi.set_cancel(move |_| cancels.add(name));
                        asi.stack(Fragile);
                        asi.await_(async {
                            let _fragile = Fragile;
                            pending::<Result<(), Error>>().await
                        });
                    });
                }
            });
        });
        let mut execution = flow.execute();
        wait(&mut execution, 0);
        let cancelled = catch_unwind(AssertUnwindSafe(|| execution.cancel()));
        assert!(cancelled.is_err());
        assert_eq!((execution.is_valid(), &*log.take()), (false, "first second outer"));
        let launched = execution.take_launched();
        assert_eq!((launched.len(), launched[0].is_undo()), (1, true));
    }
}
