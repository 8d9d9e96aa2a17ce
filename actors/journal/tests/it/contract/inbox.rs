//! Signals, cancels and waits.

use std::time::Duration;

use asyncsteps_journal::limits::TEXT_BYTES;
use asyncsteps_journal::record::{Ending, Failure, Outcome, TakenSignal};
use asyncsteps_journal::request::{
    Append, Cancelled, CancelledBy, Condition, Disposition, FirstOwner, FlowState, News, Signal,
};
use asyncsteps_journal::{Error, Event, Journal, NotWritten, Record, Refused, Value};
use futures_util::future::join;

use super::LIMITS;
use super::world::*;

const FAR: Duration = Duration::from_secs(366 * 86_400);

pub(super) async fn the_first_of_cancel_and_end_wins(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    let cancelled = journal.cancel(flow.uid, "me".into(), None).await.unwrap();
    let Cancelled::Recorded(cancel) = &cancelled else { panic!("it has not ended") };
    let end = flow.write(vec![completed()]).await;
    assert_eq!(end, Err(NotWritten::Unseen { inbox: cancel.number }));
    assert_eq!(journal.inbox(flow.uid).await.unwrap().cancel.as_ref(), Some(cancel));
    let again = journal.cancel(flow.uid, "another".into(), None).await.unwrap();
    assert_eq!(again, cancelled, "the first one counts");
    flow.seen = cancel.number;
    flow.write(vec![done("refund"), ended(Ending::Cancelled)]).await.unwrap();

    let mut flow = Owned::start(journal, node).await;
    flow.write(vec![completed()]).await.unwrap();
    let late = journal.cancel(flow.uid, "me".into(), None).await.unwrap();
    assert_eq!(late, Cancelled::TooLate);
}

pub(super) async fn a_cancel_is_seen_at_the_next_append(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    assert_eq!(flow.write(vec![done("a")]).await.unwrap().inbox, 0);
    journal.cancel(flow.uid, "me".into(), None).await.unwrap();
    assert_eq!(flow.write(vec![done("b")]).await.unwrap().inbox, 1);
    let cancel = journal.load(flow.uid).await.unwrap().inbox.cancel.expect("it is kept");
    assert_eq!((cancel.number, &cancel.by), (1, &"me".into()));
}

pub(super) async fn of_a_cancel_and_a_record_the_first_wins(journal: &dyn Journal) {
    let node = node(journal).await;
    let path = |name: &str| Some(done(name).path);
    for _ in 0..8 {
        let mut flow = Owned::start(journal, node).await;
        let mut entry = flow.entry(vec![done("answers")]);
        entry.condition = Condition::AllSeen;
        let cancel = journal.cancel(flow.uid, "me".into(), path("answers"));
        let (written, cancelled) = join(append(journal, entry), cancel).await;
        let is_late = cancelled.unwrap() == Cancelled::TooLate;
        assert_eq!(written.is_ok(), is_late, "one of them wins");
        if is_late {
            flow.next += 1;
            let cancel = journal.status(flow.uid).await.unwrap().flow.cancel;
            assert_eq!(cancel, None, "it is not stored");
        }
        let cancel = journal.cancel(flow.uid, "me".into(), path("answer")).await.unwrap();
        assert!(matches!(cancel, Cancelled::Recorded(_)), "nothing is recorded there");
        let cancel = journal.cancel(flow.uid, "me".into(), None).await.unwrap();
        assert!(matches!(cancel, Cancelled::Recorded(_)), "it depends on nothing");
    }
    let mut flow = Owned::start(journal, node).await;
    flow.write(vec![intent("answers")]).await.unwrap();
    let cancel = journal.cancel(flow.uid, "me".into(), path("answers")).await.unwrap();
    assert!(matches!(cancel, Cancelled::Recorded(_)), "the step has only begun");
}

pub(super) async fn a_cancel_says_who_or_what_it_was(journal: &dyn Journal) {
    let node = node(journal).await;
    let limit = |text: Option<&str>| {
        let (code, text) = ("Slow".to_owned(), text.map(str::to_owned));
        CancelledBy::Limit(Failure { code, text })
    };
    // a name that looks like an error is a name
    for by in [limit(None), limit(Some("")), limit(Some("two\nlines")), "\u{1}Slow".into()] {
        let flow = Owned::start(journal, node).await;
        journal.cancel(flow.uid, by.clone(), None).await.unwrap();
        let cancel = journal.status(flow.uid).await.unwrap().flow.cancel.expect("it is kept");
        assert_eq!(cancel.by, by);
        assert_eq!(journal.inbox(flow.uid).await.unwrap().cancel, Some(cancel));
    }
    let flow = Owned::start(journal, node).await;
    for by in [limit(Some(&"x".repeat(TEXT_BYTES + 1))), limit(Some("a\0b"))] {
        let refused = journal.cancel(flow.uid, by, None).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    assert_eq!(journal.status(flow.uid).await.unwrap().flow.cancel, None);
}

pub(super) async fn a_cancel_races_with_an_end(journal: &dyn Journal) {
    let node = node(journal).await;
    for _ in 0..8 {
        let flow = Owned::start(journal, node).await;
        let end = append(journal, flow.entry(vec![completed()]));
        let (end, cancelled) = join(end, journal.cancel(flow.uid, "me".into(), None)).await;
        let has_ended = cancelled.unwrap() == Cancelled::TooLate;
        assert_eq!(end.is_ok(), has_ended, "one of them wins");
    }
}

fn taken(number: u64) -> Record {
    let signal = TakenSignal { number, name: "paid".to_owned(), value: value("paid") };
    Record::new(path("wait"), Event::Signal(signal))
}

pub(super) async fn a_signal_before_its_wait_is_kept_until_it_is_taken(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    journal.signal(flow.uid, signal("paid")).await.unwrap();
    journal.signal(flow.uid, signal("sent")).await.unwrap();
    let inbox = journal.inbox(flow.uid).await.unwrap();
    let names: Vec<_> = inbox.signals.iter().map(|s| (s.number, s.name.as_str())).collect();
    assert_eq!((names, inbox.last), (vec![(1, "paid"), (2, "sent")], 2));
    assert_eq!(inbox.signals[0].value, value("paid"));
    flow.seen = 2;
    flow.send(Append { takes: vec![1], ..flow.entry(vec![taken(1)]) }).await.unwrap();
    let loaded = journal.load(flow.uid).await.unwrap();
    let left: Vec<_> = loaded.inbox.signals.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(left, ["sent"]);
    assert_eq!(loaded.records.last().unwrap().record, taken(1));
    flow.write(vec![completed()]).await.unwrap();
    let late = journal.signal(flow.uid, signal("late")).await.unwrap_err();
    assert!(matches!(late, Error::Refused(Refused::HasEnded(_))), "{late}");
}

pub(super) async fn a_repeated_signal_is_stored_once(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let sent = signal("paid");
    for _ in 0..2 {
        journal.signal(flow.uid, sent.clone()).await.unwrap();
        assert_eq!(journal.inbox(flow.uid).await.unwrap().last, 1);
    }
    flow.send(Append { takes: vec![1], ..flow.entry(vec![taken(1)]) }).await.unwrap();
    journal.signal(flow.uid, sent).await.unwrap();
    let inbox = journal.inbox(flow.uid).await.unwrap();
    assert_eq!((inbox.signals.len(), inbox.last), (0, 1), "it stays known after it was taken");
}

pub(super) async fn a_signal_and_a_timeout_are_decided_by_one_append(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let timeout = |flow: &Owned<'_>| {
        let outcome = Outcome { winner: None, ending: Ending::Failed(failure("Timeout")) };
        let record = Record::new(path("wait"), Event::Outcome(outcome));
        Append { condition: Condition::AllSeen, ..flow.entry(vec![record]) }
    };
    journal.signal(flow.uid, signal("paid")).await.unwrap();
    let entry = timeout(&flow);
    assert_eq!(flow.send(entry).await, Err(NotWritten::Unseen { inbox: 1 }));
    flow.seen = 1;
    let entry = timeout(&flow);
    flow.send(entry).await.unwrap();
    assert_eq!(flow.steps().await, ["wait"]);
}

pub(super) async fn signals_are_bounded(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    for _ in 0..LIMITS.signals {
        journal.signal(flow.uid, signal("paid")).await.unwrap();
    }
    let full = journal.signal(flow.uid, signal("paid")).await.unwrap_err();
    let Error::Refused(refused) = full else { panic!("{full}") };
    assert_eq!(refused, Refused::TooManySignals(LIMITS.signals));
    flow.send(Append { takes: vec![2], ..flow.entry(vec![taken(2)]) }).await.unwrap();
    journal.signal(flow.uid, signal("paid")).await.unwrap();
}

pub(super) async fn bytes_of_signals_are_bounded(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let large = |bytes: usize| Signal {
        value: Value::encode(&"x".repeat(bytes)).expect("it is small enough"),
        ..signal("paid")
    };
    for bytes in [4_000, 4_000] {
        journal.signal(flow.uid, large(bytes)).await.unwrap();
    }
    let full = journal.signal(flow.uid, large(4_000)).await.unwrap_err();
    let Error::Refused(refused) = full else { panic!("{full}") };
    assert_eq!(refused, Refused::TooManySignalBytes(LIMITS.signal_bytes));
    // the name counts as well, and what is taken does not
    let long = Signal { name: "n".repeat(4_000), ..signal("") };
    assert!(journal.signal(flow.uid, long.clone()).await.is_err());
    journal.signal(flow.uid, large(1_000)).await.unwrap();
    flow.send(Append { takes: vec![1], ..flow.entry(vec![taken(1)]) }).await.unwrap();
    journal.signal(flow.uid, long).await.unwrap();
}

pub(super) async fn a_parked_flow_is_woken_by_time_and_by_signals(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut due = Owned::start(journal, node).await;
    let mut late = Owned::start(journal, node).await;
    let mut silent = Owned::start(journal, node).await;
    due.leave(Disposition::Park(Some(Duration::ZERO))).await;
    late.leave(Disposition::Park(Some(FAR))).await;
    silent.leave(Disposition::Park(None)).await;
    let given = |claimed: Vec<asyncsteps_journal::request::Claimed>| {
        claimed.into_iter().map(|claimed| claimed.uid).collect::<Vec<_>>()
    };
    assert_eq!(given(claim(journal, node, 9).await), [due.uid]);
    assert_eq!(late.state().await, FlowState::Parked);
    assert!(journal.status(late.uid).await.unwrap().flow.due.is_some());
    journal.signal(silent.uid, signal("s")).await.unwrap();
    assert_eq!(given(claim(journal, node, 9).await), [silent.uid]);
    journal.cancel(late.uid, "me".into(), None).await.unwrap();
    assert_eq!(given(claim(journal, node, 9).await), [late.uid]);
}

pub(super) async fn a_flow_that_was_refused_says_why_until_it_is_claimed(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    let reason = "the queue is full".to_owned();
    flow.leave(Disposition::Retry { within: Duration::ZERO, reason: reason.clone() }).await;
    let info = journal.status(flow.uid).await.unwrap().flow;
    assert_eq!(
        (info.state, info.reason, info.due.is_some()),
        (FlowState::Parked, Some(reason), true)
    );
    assert_eq!(claim(journal, node, 9).await.len(), 1);
    assert_eq!(journal.status(flow.uid).await.unwrap().flow.reason, None);
}

pub(super) async fn a_signal_that_races_with_parking_is_not_slept_over(journal: &dyn Journal) {
    let node = node(journal).await;
    for _ in 0..8 {
        let flow = Owned::start(journal, node).await;
        let park = Append { then: Disposition::Park(None), ..flow.entry(Vec::new()) };
        let sent = journal.signal(flow.uid, signal("s"));
        let (parked, sent) = join(append(journal, park), sent).await;
        parked.unwrap();
        sent.unwrap();
        let [claimed] = claim(journal, node, 9).await[..] else { panic!("it sleeps") };
        assert_eq!(claimed.uid, flow.uid);
    }
}

pub(super) async fn news_names_the_flows_with_something_unseen(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    Owned::start(journal, node).await;
    assert_eq!(journal.news(node).await.unwrap(), []);
    journal.signal(flow.uid, signal("s")).await.unwrap();
    assert_eq!(journal.news(node).await.unwrap(), [News { uid: flow.uid, inbox: 1 }]);
    flow.seen = 1;
    flow.write(vec![done("a")]).await.unwrap();
    assert_eq!(journal.news(node).await.unwrap(), []);
}

pub(super) async fn changes_tell_of_work(journal: &dyn Journal) {
    let mut changes = journal.changes();
    let node = node(journal).await;
    changes.mark_unchanged();
    journal.submit(submit(FirstOwner::Any)).await.unwrap();
    changes.changed().await.expect("the journal is there");
    let mut flow = Owned::start(journal, node).await;
    changes.mark_unchanged();
    journal.signal(flow.uid, signal("s")).await.unwrap();
    changes.changed().await.expect("the journal is there");
    changes.mark_unchanged();
    flow.leave(Disposition::Release).await;
    changes.changed().await.expect("the journal is there");
}
