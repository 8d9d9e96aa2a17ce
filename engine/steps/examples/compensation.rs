//! Compensation: when a later step fails, the effects of earlier steps are undone, the latest first.
//!
//! Each booking adds the bookings after it as a step, and the error handler of that step cancels the
//! booking. The handler adds steps, because cancelling may take time too. The last of them raises the
//! error again, so that the handlers around it cancel their bookings.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use asyncsteps::{AsyncSteps, Flow, StepResult, run_to_end};

/// The bookings and cancellations, in their order.
#[derive(Clone, Default)]
struct Journal(Rc<RefCell<Vec<String>>>);

impl Journal {
    fn write(&self, line: String) {
        self.0.borrow_mut().push(line);
    }
}

/// Books the first item and then the others; when those fail, it cancels the first one.
fn book(asi: &mut AsyncSteps, journal: Journal, mut bookings: VecDeque<&'static str>) {
    let Some(what) = bookings.pop_front() else { return };
    let (done, undone) = (journal.clone(), journal.clone());
    asi.add(move |asi, ()| {
        if what == "helicopter" {
            return asi.error("SoldOut", what);
        }
        done.write(format!("book {what}"));
        Ok(())
    });
    asi.add(move |asi, ()| book(asi, journal, bookings)).on_error(move |asi, error| {
        let error = error.clone();
        asi.add(move |_, ()| undone.write(format!("cancel {what}")));
        asi.add(move |_, ()| -> StepResult { Err(error.into()) });
    });
}

/// Books a trip; gives the code of the error if it failed, and the journal.
fn travel(bookings: &[&'static str]) -> (Option<String>, String) {
    let journal = Journal::default();
    let (writes, bookings) = (journal.clone(), bookings.iter().copied().collect());
    let mut flow = Flow::new();
    flow.add(move |asi, ()| book(asi, writes, bookings));
    let failed = run_to_end::<()>(flow).err().map(|error| error.code().to_owned());
    (failed, journal.0.borrow().join(", "))
}

fn main() {
    let (failed, journal) = travel(&["flight", "hotel", "car"]);
    assert_eq!((failed, &*journal), (None, "book flight, book hotel, book car"));

    let (failed, journal) = travel(&["flight", "hotel", "helicopter", "car"]);
    assert_eq!(failed.as_deref(), Some("SoldOut"));
    assert_eq!(journal, "book flight, book hotel, cancel hotel, cancel flight");
}
