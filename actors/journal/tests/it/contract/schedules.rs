//! Schedules that are kept with the flows.

use asyncsteps_journal::limits::{BATCH, TEXT_BYTES};
use asyncsteps_journal::request::StoredSchedule;
use asyncsteps_journal::{Error, Journal, Refused};

use super::world::value;

fn schedule(name: &str, text: &str) -> StoredSchedule {
    StoredSchedule { name: name.to_owned(), value: value(text) }
}

/// The schedules that are kept, which can be read.
async fn kept(journal: &dyn Journal) -> Vec<StoredSchedule> {
    let read = journal.schedules().await.unwrap().into_iter();
    read.map(|read| StoredSchedule { name: read.name, value: read.value.unwrap() }).collect()
}

pub(super) async fn schedules_are_kept_by_name(journal: &dyn Journal) {
    assert_eq!(kept(journal).await, []);
    for (name, text) in [("b", "1"), ("a", "2"), ("\u{e4} '", "3"), ("b", "4"), ("b", "4")] {
        journal.put_schedule(schedule(name, text)).await.unwrap();
    }
    let [a, b, c] = [schedule("a", "2"), schedule("b", "4"), schedule("\u{e4} '", "3")];
    assert_eq!(kept(journal).await, [a, b.clone(), c.clone()]);
    assert!(journal.remove_schedule("a".to_owned()).await.unwrap());
    assert!(!journal.remove_schedule("a".to_owned()).await.unwrap(), "it is removed");
    assert_eq!(kept(journal).await, [b, c]);
}

pub(super) async fn schedules_are_bounded(journal: &dyn Journal) {
    for name in ["\0".to_owned(), "x".repeat(TEXT_BYTES + 1)] {
        let refused = journal.put_schedule(schedule(&name, "1")).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
    }
    for number in 0..BATCH {
        journal.put_schedule(schedule(&number.to_string(), "1")).await.unwrap();
    }
    journal.put_schedule(schedule("7", "2")).await.unwrap();
    let refused = journal.put_schedule(schedule("one more", "1")).await.unwrap_err();
    let limit = BATCH;
    let Error::Refused(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused, Refused::TooLarge { what: "list of schedules", limit });
    assert_eq!(journal.schedules().await.unwrap().len(), BATCH);
}
