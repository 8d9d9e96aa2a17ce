//! What an observer is told: when time can have passed.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::Waker;

use asyncsteps_core::{Error, Flow, Observer, Progress, StepEnd, StepRef, Time};

/// Writes `<` for a step that begins and `>` for one that ends, with a space where time can have passed.
#[derive(Clone, Default)]
struct Moments(Rc<RefCell<(u32, String)>>);

impl Moments {
    fn write(&self, step: StepRef, what: char) {
        let (moment, text) = &mut *self.0.borrow_mut();
        if step.moment != *moment {
            text.push(' ');
        }
        *moment = step.moment;
        text.push(what);
    }
}

impl Observer for Moments {
    fn begin(&mut self, step: StepRef) {
        self.write(step, '<');
    }
    fn enter(&mut self, _: StepRef) {}
    fn leave(&mut self, _: StepRef) {}
    fn end(&mut self, step: StepRef, _: StepEnd<'_>) {
        self.write(step, '>');
    }
    fn cancel_failed(&mut self, _: StepRef, _: &Error) {}
    fn watches_callbacks(&self) -> bool {
        false
    }
}

/// The moments of a flow, which is cancelled if it waits after its first turn.
fn moments(mut flow: Flow) -> String {
    let moments = Moments::default();
    flow.observe(moments.clone());
    let mut execution = flow.execute();
    if matches!(execution.run(Time::ZERO, Waker::noop()), Progress::Waiting) {
        moments.0.borrow_mut().1.push('|');
        execution.cancel();
    }
    moments.0.take().1
}

#[test]
fn time_passes_in_callbacks_and_between_turns_only() {
    let mut flow = Flow::new();
    flow.add(|_, ()| {});
    flow.add(|asi, ()| {
        asi.add(|_, ()| {});
    });
    // the end of a step and the beginning of the next one are at one moment, as are ends inside each other
    assert_eq!(moments(flow), " < >< < >>");

    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.add(|asi, ()| asi.error("MyError", ()));
    })
    .on_error(|asi, _| asi.success(()));
    // the handler runs between the ends
    assert_eq!(moments(flow), " < < > >");

    let mut flow = Flow::new();
    flow.add(|asi, ()| asi.wait_only());
    assert_eq!(moments(flow), " <| >");
}
