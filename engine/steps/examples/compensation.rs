//! Compensation: when a later step fails or the flow is cancelled, the effects of earlier steps are
//! undone, the latest first.
//!
//! Each booking says behind it how it is undone. A booking that was cut may have been made or not:
//! its undo is told so. A booking is cancelled once, however often its undo runs.

use std::cell::RefCell;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::tool::Manual;
use asyncsteps_core::{Error, Flow, Time, Undo};

/// The bookings and cancellations, in their order.
#[derive(Clone, Default)]
struct Journal(Rc<RefCell<Vec<String>>>);

impl Journal {
    fn write(&self, line: String) {
        self.0.borrow_mut().push(line);
    }

    async fn book(&self, what: &'static str) -> Result<usize, Error> {
        match what {
            "helicopter" => return Err(Error::with_info("SoldOut", what)),
            "balloon" => pending().await, // it never answers
            _ => self.write(format!("book {what}")),
        }
        Ok(self.0.borrow().len())
    }

    fn cancel(&self, what: &'static str, booking: Undo<&usize>) {
        let line = match booking {
            Undo::Done(number) => format!("cancel {what} {number}"),
            Undo::Unknown => format!("cancel {what}, if it was booked"),
        };
        if !self.0.borrow().contains(&line) {
            self.write(line);
        }
    }
}

/// Books a trip within ten seconds; returns the code of the error if it failed, and the journal, which is the same if
/// each undo runs twice.
fn travel(bookings: &[&'static str]) -> (Option<String>, String) {
    let mut twice = Flow::new();
    twice.undo_twice();
    let [once, twice] = [Flow::new(), twice].map(|flow| travel_in(flow, bookings));
    assert_eq!(once, twice);
    once
}

fn travel_in(mut flow: Flow, bookings: &[&'static str]) -> (Option<String>, String) {
    let (tool, journal) = (Manual::new(Time::ZERO), Journal::default());
    for &what in bookings {
        let (books, cancels) = (journal.clone(), journal.clone());
        flow.run(async move |_: asyncsteps_core::Args| Ok(books.book(what).await?))
            .named("book")
            .timeout(Duration::from_secs(10))
            .undo(async move |booking| {
                cancels.cancel(what, booking);
                Ok(())
            });
    }
    let ended = tool.complete(flow.promise::<usize, _>(&tool)).expect("it needs no other thread");
    let failed = ended.err().map(|error| error.code().to_owned());
    (failed, journal.0.borrow().join(", "))
}

fn main() {
    let (failed, journal) = travel(&["flight", "hotel", "car"]);
    assert_eq!((failed, &*journal), (None, "book flight, book hotel, book car"));

    let (failed, journal) = travel(&["flight", "hotel", "helicopter", "car"]);
    assert_eq!(failed.as_deref(), Some("SoldOut"));
    assert_eq!(journal, "book flight, book hotel, cancel hotel 2, cancel flight 1");

    let (failed, journal) = travel(&["flight", "balloon"]);
    assert_eq!(failed.as_deref(), Some("Timeout"));
    assert_eq!(journal, "book flight, cancel balloon, if it was booked, cancel flight 1");
}
