//! Events that flows emit.

use std::time::Duration;

use asyncsteps_journal::limits::EVENT_BYTES;
use asyncsteps_journal::record::Iteration;
use asyncsteps_journal::request::{Append, Disposition, Emit, EmittedPage, Resume};
use asyncsteps_journal::{Epoch, Error, Event, Journal, NotWritten, Record, Refused, Uid, Value};
use futures_util::future::join_all;

use super::world::*;

impl Owned<'_> {
    async fn emit(&self, step: &str, key: &str, text: &str) -> Result<(), NotWritten> {
        let (uid, epoch, value) = (self.uid, self.epoch, value(text));
        let (path, key) = (path(step), key.to_owned());
        let emit = Emit { uid, epoch, path, key, value, is_awaited: false };
        self.journal.emit(emit).await.unwrap()
    }
}

async fn page(journal: &dyn Journal, uid: Uid, after: u64, most: usize) -> EmittedPage {
    journal.emitted(uid, after, most).await.unwrap()
}

/// Numbers and values of the events from `after` on, and whether no other will follow.
async fn texts(journal: &dyn Journal, uid: Uid, after: u64) -> (Vec<(u64, String)>, bool) {
    let EmittedPage { events, is_last } = page(journal, uid, after, 100).await;
    let text = |value: &Value| value.decode().expect("a text");
    (events.iter().map(|event| (event.number, text(&event.value))).collect(), is_last)
}

fn numbered(texts: &[&str]) -> Vec<(u64, String)> {
    (1..).zip(texts.iter().map(|text| (*text).to_owned())).collect()
}

pub(super) async fn events_have_numbers_without_gaps_and_are_emitted_once(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    let other = Owned::start(journal, node).await;
    assert_eq!(texts(journal, flow.uid, 0).await, (vec![], false));
    for (step, key, text) in [
        ("pay", "", "a"),
        ("pay", "", "changed"),
        ("pay", "half \u{e4} '", "b"),
        ("ship", "", "c"),
        ("pay", "half \u{e4} '", "changed"),
        // a path and a key that are together as long as others
        ("shi", "p", "d"),
    ] {
        assert_eq!(flow.emit(step, key, text).await, Ok(()), "{step} {key}");
    }
    assert_eq!(other.emit("pay", "", "other").await, Ok(()));
    let all = numbered(&["a", "b", "c", "d"]);
    assert_eq!(texts(journal, flow.uid, 0).await, (all.clone(), false));
    assert_eq!(texts(journal, other.uid, 0).await, (numbered(&["other"]), false));
    let two = page(journal, flow.uid, 1, 2).await;
    assert_eq!(two.events.iter().map(|event| event.number).collect::<Vec<_>>(), [2, 3]);
    flow.write(vec![completed()]).await.unwrap();
    assert!(!page(journal, flow.uid, 0, 4).await.is_last, "there may be more");
    assert_eq!(texts(journal, flow.uid, 2).await, (all[2..].to_vec(), true));
    assert_eq!(texts(journal, flow.uid, u64::MAX >> 1).await, (vec![], true));
}

pub(super) async fn events_at_once_are_numbered_without_gaps(journal: &dyn Journal) {
    let flow = Owned::start(journal, node(journal).await).await;
    let keys = ["a", "b", "a", "c", "b", "d", "e", "a"];
    for emitted in join_all(keys.map(|key| flow.emit("pay", key, key))).await {
        assert_eq!(emitted, Ok(()));
    }
    let (mut events, _) = texts(journal, flow.uid, 0).await;
    assert_eq!(events.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    events.sort_by(|(_, one), (_, other)| one.cmp(other));
    assert_eq!(events.iter().map(|(_, text)| text.as_str()).collect::<String>(), "abcde");
}

pub(super) async fn events_are_of_the_owner(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    flow.emit("pay", "", "a").await.unwrap();
    flow.leave(Disposition::Release).await;
    let stale = |epoch| Err(NotWritten::Stale { epoch: Epoch::new(epoch) });
    assert_eq!(flow.emit("pay", "2", "b").await, stale(1));
    let (mut later, _, _) = take_over(journal).await;
    assert_eq!(flow.emit("pay", "2", "b").await, stale(2));
    assert_eq!(later.emit("pay", "", "c").await, Ok(()), "it was emitted");
    assert_eq!(later.emit("pay", "2", "d").await, Ok(()));
    later.write(vec![completed()]).await.unwrap();
    assert_eq!(later.emit("pay", "3", "e").await, stale(2));
    assert_eq!(texts(journal, flow.uid, 0).await, (numbered(&["a", "d"]), true));
    let nowhere = Owned { uid: uid(), ..later };
    let refused = NotWritten::Refused(Refused::NoFlow(nowhere.uid));
    assert_eq!(nowhere.emit("pay", "", "f").await, Err(refused.clone()));
    let unknown = journal.emitted(nowhere.uid, 0, 1).await.unwrap_err();
    assert!(matches!(unknown, Error::Refused(Refused::NoFlow(_))), "{unknown}");
}

pub(super) async fn events_are_bounded_and_what_is_refused_is_refused_alone(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    for refused in [
        flow.emit("pay", "", &"x".repeat(EVENT_BYTES + 1)).await,
        flow.emit("pay", "\0", "x").await,
    ] {
        assert!(matches!(refused, Err(NotWritten::Refused(_))), "{refused:?}");
    }
    for key in ["1", "2", "3", "4", "5"] {
        assert_eq!(flow.emit("pay", key, key).await, Ok(()));
    }
    let refused = flow.emit("pay", "6", "6").await;
    assert!(matches!(refused, Err(NotWritten::TooManyEvents { events: 5, .. })), "{refused:?}");
    assert_eq!(flow.emit("pay", "5", "5").await, Ok(()), "it is there");
    flow.write(vec![done("pay"), completed()]).await.unwrap();
    let large = Owned::start(journal, node).await;
    let text = "x".repeat(EVENT_BYTES / 2);
    assert_eq!(large.emit("pay", "1", &text).await, Ok(()));
    assert_eq!(large.emit("pay", "2", &text).await, Ok(()));
    let refused = large.emit("pay", "3", &text).await;
    assert!(matches!(refused, Err(NotWritten::TooManyEvents { events: 2, .. })), "{refused:?}");
    assert_eq!(large.emit("pay", "3", "small").await, Ok(()), "there is room for it");
    assert_eq!(page(journal, large.uid, 0, 9).await.events.len(), 3);
}

pub(super) async fn events_stay_until_their_flow_is_removed(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    let state = Iteration { index: 0, state: value("0") };
    flow.write(vec![done("pay")]).await.unwrap();
    flow.emit("pay", "", "a").await.unwrap();
    let records = journal.load(flow.uid).await.unwrap().records;
    let replaces = vec![records[1].id];
    let records = vec![Record::new(path("loop"), Event::Iteration(state))];
    flow.send(Append { replaces, ..flow.entry(records) }).await.unwrap();
    assert_eq!(texts(journal, flow.uid, 0).await, (numbered(&["a"]), false));
    let mut trimmed = Owned::start(journal, node).await;
    trimmed.emit("pay", "", "b").await.unwrap();
    for flow in [&mut flow, &mut trimmed] {
        flow.write(vec![completed()]).await.unwrap();
    }
    journal.remove(vec![flow.uid]).await.unwrap();
    assert_eq!(texts(journal, trimmed.uid, 0).await, (numbered(&["b"]), true));
    assert_eq!(journal.trim(Duration::ZERO).await.unwrap(), 1);
    for uid in [flow.uid, trimmed.uid] {
        let gone = journal.emitted(uid, 0, 9).await.unwrap_err();
        assert!(matches!(gone, Error::Refused(Refused::NoFlow(_))), "{gone}");
    }
}

pub(super) async fn a_flow_that_begins_anew_emits_again(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    flow.emit("pay", "", "a").await.unwrap();
    flow.leave(Disposition::Pause("it is stopped".to_owned())).await;
    flow.resume(Resume::Again).await;
    let (again, _, _) = take_over(journal).await;
    again.emit("pay", "", "b").await.unwrap();
    again.emit("pay", "", "c").await.unwrap();
    assert_eq!(texts(journal, flow.uid, 0).await, (numbered(&["a", "b"]), false));
}
