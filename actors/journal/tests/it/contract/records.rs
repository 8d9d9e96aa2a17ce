//! Submits, appends, and what is read of them.

use std::time::Duration;

use asyncsteps_journal::limits::BATCH;
use asyncsteps_journal::record::{
    Cause, Effect, Ending, Failed, Iteration, Keys, Outcome, TakenSignal, Timer, Unwinding,
};
use asyncsteps_journal::request::{
    Append, CallerKey, Counts, Disposition, FirstOwner, FlowInfo, FlowState, Query, Submit,
    Submitted,
};
use asyncsteps_journal::{
    Epoch, Error, Event, Journal, NotWritten, Record, RecordId, Refused, Repeat, Timestamp,
};

use super::LIMITS;
use super::world::*;

pub(super) async fn a_submitted_flow_is_loaded(journal: &dyn Journal) {
    let submit = submit(FirstOwner::Any);
    let uid = submit.uid;
    assert_eq!(journal.submit(submit).await.unwrap(), Submitted::New);
    let loaded = journal.load(uid).await.unwrap();
    let [first] = &loaded.records[..] else { panic!("one record: {:?}", loaded.records) };
    assert_eq!(first.id, RecordId::FIRST);
    assert_eq!(first.record.event, Event::Started(started()));
    assert_eq!(first.record.path.as_str(), TEMPLATE);
    assert_eq!((loaded.flow.state, loaded.flow.version), (FlowState::New, 1));
    assert_eq!(loaded.next(), 1);
}

pub(super) async fn a_submit_is_repeated_once(journal: &dyn Journal) {
    let submit = submit(FirstOwner::Any);
    let uid = submit.uid;
    assert_eq!(journal.submit(submit.clone()).await.unwrap(), Submitted::New);
    assert_eq!(journal.submit(submit.clone()).await.unwrap(), Submitted::Known(uid));
    let mut other = submit;
    other.started.parameters = value("other");
    let error = journal.submit(other).await.unwrap_err();
    assert!(matches!(error, Error::Refused(Refused::KeyInUse { .. })), "{error}");
    assert_eq!(journal.list(Query { limit: 9, ..Query::default() }).await.unwrap().len(), 1);
}

pub(super) async fn a_key_gives_the_first_flow_and_refuses_other_parameters(journal: &dyn Journal) {
    let key = |scope: &str| CallerKey { scope: scope.to_owned(), key: "k".to_owned() };
    let with = |scope| Submit { key: Some(key(scope)), ..submit(FirstOwner::Any) };
    let first = with("user a");
    let uid = first.uid;
    assert_eq!(journal.find(key("user a")).await.unwrap(), None);
    assert_eq!(journal.submit(first).await.unwrap(), Submitted::New);
    assert_eq!(journal.find(key("user a")).await.unwrap(), Some(uid));
    assert_eq!(journal.find(key("user b")).await.unwrap(), None);
    assert_eq!(journal.submit(with("user a")).await.unwrap(), Submitted::Known(uid));
    assert_eq!(journal.submit(with("user b")).await.unwrap(), Submitted::New);
    let mut other = with("user a");
    other.started.parameters = value("other");
    let error = journal.submit(other).await.unwrap_err();
    let Error::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(*refused, Refused::KeyInUse { key: "k".to_owned(), uid });
    assert_eq!(error.repeat(), Repeat::Never);
}

pub(super) async fn records_of_all_kinds_come_back_in_order(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let at = Timestamp::from_millis(1_700_000_000_000);
    let failed = Failed {
        failure: failure("Declined"),
        attempt: 2,
        millis: 1,
        effect: Effect::Unknown,
        cause: None,
    };
    let records = vec![
        intent("pay"),
        Record::new(path("pay"), Event::Failed(failed)),
        Record::new(path("wait"), Event::Timer(Timer { at, attempt: 3, ends: Some(at) })),
        Record::new(
            path("wait"),
            Event::Signal(TakenSignal { number: 1, name: "s".to_owned(), value: value("v") }),
        ),
        Record::new(path("each"), Event::Keys(Keys { keys: vec!["a/b".to_owned()] })),
        Record::new(path("loop"), Event::Iteration(Iteration { index: 0, state: value("s") })),
        Record::new(
            path("race").branch("ä #1"),
            Event::Outcome(Outcome { winner: Some(path("x")), ending: Ending::Cancelled }),
        ),
        Record::new(
            path("scope"),
            Event::Unwinding(Unwinding {
                failed: path("pay"),
                failure: failure("Declined"),
                cause: Some(Cause { code: "Broke".to_owned(), value: Some(value("v")) }),
            }),
        ),
        done("last"),
    ];
    let (first, second) = records.split_at(4);
    flow.write(first.to_vec()).await.unwrap();
    flow.write(second.to_vec()).await.unwrap();
    let loaded = journal.load(flow.uid).await.unwrap();
    let stored: Vec<_> =
        loaded.records.iter().skip(1).map(|stored| stored.record.clone()).collect();
    assert_eq!(stored, records);
    let numbers = loaded.records.iter().map(|stored| stored.id.sequence);
    assert!(numbers.eq(0..10), "{:?}", loaded.records);
    assert_eq!(loaded.next(), 10);
}

pub(super) async fn a_stale_epoch_cannot_append_and_the_batch_goes_on(journal: &dyn Journal) {
    let first = node(journal).await;
    let lost = Owned::start(journal, first).await;
    kill(journal, first).await;
    let (mut taken, ..) = take_over(journal).await;
    let mut own = Owned::start(journal, node(journal).await).await;
    let batch = vec![own.entry(vec![done("a")]), lost.entry(vec![done("stale")])];
    let answers = journal.append(batch).await.unwrap();
    assert!(answers[0].is_ok());
    assert_eq!(answers[1], Err(NotWritten::Stale { epoch: taken.epoch }));
    own.next += 1;
    taken.write(vec![done("b")]).await.unwrap();
    own.write(vec![done("c")]).await.unwrap();
    assert_eq!(taken.steps().await, ["b"]);
    assert_eq!(own.steps().await, ["a", "c"]);
}

pub(super) async fn a_lost_answer_is_repeated_once(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let entry = flow.entry(vec![done("a"), done("b")]);
    let first = flow.send(entry.clone()).await.unwrap();
    assert_eq!(append(journal, entry.clone()).await, Ok(first));
    flow.write(vec![done("c")]).await.unwrap();
    assert_eq!(append(journal, entry.clone()).await, Ok(first));
    // at once, and beside itself
    let again = journal.append(vec![entry.clone(), entry]).await.unwrap();
    assert_eq!(again, [Ok(first), Ok(first)]);
    assert_eq!(flow.steps().await, ["a", "b", "c"]);
}

pub(super) async fn a_repeat_of_what_a_later_owner_has_replaced_is_stale(journal: &dyn Journal) {
    let first = node(journal).await;
    let mut flow = Owned::start(journal, first).await;
    let entry = flow.entry(vec![done("a"), done("b")]);
    flow.send(entry.clone()).await.unwrap();
    kill(journal, first).await;
    let (mut taken, ..) = take_over(journal).await;
    let replaced = RecordId { epoch: entry.epoch, sequence: entry.first };
    let next = taken.entry(vec![done("c")]);
    taken.send(Append { replaces: vec![replaced], ..next }).await.unwrap();
    assert_eq!(append(journal, entry).await, Err(NotWritten::Stale { epoch: taken.epoch }));
}

pub(super) async fn a_repeat_after_the_end_or_a_takeover_is_still_answered(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let end = flow.entry(vec![completed()]);
    flow.send(end.clone()).await.unwrap();
    assert!(append(journal, end).await.is_ok(), "the end was written by this");
    let late = flow.entry(vec![done("late")]);
    assert!(matches!(append(journal, late).await, Err(NotWritten::Stale { .. })));

    let first = node(journal).await;
    let mut flow = Owned::start(journal, first).await;
    let entry = flow.entry(vec![done("a")]);
    flow.send(entry.clone()).await.unwrap();
    kill(journal, first).await;
    let (taken, ..) = take_over(journal).await;
    assert!(append(journal, entry).await.is_ok(), "it was written before the takeover");
    assert_eq!(taken.steps().await, ["a"]);
}

pub(super) async fn numbers_cannot_be_used_again(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    flow.write(vec![done("a"), done("b")]).await.unwrap();
    flow.next -= 1;
    let taken = flow.write(vec![done("x"), done("y")]).await;
    assert_eq!(taken, Err(NotWritten::NumbersTaken { first: 2 }));
    assert_eq!(flow.steps().await, ["a", "b"]);
}

pub(super) async fn an_iteration_replaces_its_records(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    // more in all than a flow may have at once
    for index in 0..LIMITS.records {
        let first = flow.next;
        flow.write(vec![intent("step"), done("step")]).await.unwrap();
        let iteration = Iteration { index, state: value("state") };
        let record = Record::new(path("loop"), Event::Iteration(iteration));
        let id = |sequence| RecordId { epoch: flow.epoch, sequence };
        // the one of the iteration before, too
        let oldest = first.saturating_sub(1).max(1);
        let replaces = (oldest..first + 2).map(id).collect();
        flow.send(Append { replaces, ..flow.entry(vec![record]) }).await.unwrap();
    }
    let loaded = journal.load(flow.uid).await.unwrap();
    let [_, last] = &loaded.records[..] else { panic!("{:?}", loaded.records) };
    assert!(matches!(&last.record.event, Event::Iteration(it) if it.index == LIMITS.records - 1));
}

pub(super) async fn live_records_are_bounded(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    for _ in 1..LIMITS.records {
        flow.write(vec![done("a")]).await.unwrap();
    }
    let more = flow.write(vec![done("a")]).await;
    assert_eq!(more, Err(NotWritten::TooManyRecords(LIMITS.records)));
    // it can end all the same
    flow.write(vec![ended(Ending::Failed(failure("InternalError")))]).await.unwrap();
    assert_eq!(flow.state().await, FlowState::Ended);
}

pub(super) async fn what_is_too_large_is_refused_alone(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    let other = Owned::start(journal, node).await;
    let long = "x".repeat(5000);
    let large = flow.entry(vec![done(&long)]);
    let answers = journal.append(vec![large, other.entry(vec![done("b")])]).await.unwrap();
    assert!(matches!(answers[0], Err(NotWritten::Refused(Refused::TooLarge { .. }))));
    assert!(answers[1].is_ok());
    flow.write(vec![done("a")]).await.unwrap();
    let mut nul = submit(FirstOwner::Any);
    nul.started.template = "a\0b".to_owned();
    let error = journal.submit(nul).await.unwrap_err();
    assert!(matches!(error, Error::Refused(Refused::NulCharacter("template"))), "{error}");
    let many = vec![flow.entry(Vec::new()); BATCH + 1];
    let error = journal.append(many).await.unwrap_err();
    assert!(matches!(error, Error::Refused(Refused::TooLarge { .. })), "{error}");
}

pub(super) async fn an_ended_flow_tells_its_result_until_it_is_trimmed(journal: &dyn Journal) {
    let node = node(journal).await;
    let key = CallerKey { scope: "s".to_owned(), key: "k".to_owned() };
    let keyed = Submit { key: Some(key), ..submit(FirstOwner::Node(node)) };
    journal.submit(keyed.clone()).await.unwrap();
    let running = Owned::start(journal, node).await;
    let flow = Owned { uid: keyed.uid, ..running.clone() };
    assert_eq!(journal.status(flow.uid).await.unwrap().ending, None);
    append(journal, flow.entry(vec![completed()])).await.unwrap();
    let status = journal.status(flow.uid).await.unwrap();
    assert_eq!(status.ending, Some(Ending::Completed(value("paid"))));
    assert!(status.flow.ended.is_some());
    assert_eq!(journal.trim(Duration::from_secs(60)).await.unwrap(), 0);
    assert_eq!(journal.submit(keyed.clone()).await.unwrap(), Submitted::Known(keyed.uid));
    assert_eq!(journal.trim(Duration::ZERO).await.unwrap(), 1);
    assert!(matches!(
        journal.status(flow.uid).await.unwrap_err(),
        Error::Refused(Refused::NoFlow(_))
    ));
    assert_eq!(running.state().await, FlowState::Running);
    let again = Submit { uid: uid(), ..keyed };
    assert_eq!(journal.submit(again).await.unwrap(), Submitted::New, "the key is free");
}

pub(super) async fn flows_are_listed_in_pages(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut uids = Vec::new();
    for _ in 0..5 {
        uids.push(Owned::start(journal, node).await);
    }
    uids[2].leave(Disposition::Pause("changed".to_owned())).await;
    let mut other = submit(FirstOwner::Any);
    other.started.template = "other".to_owned();
    journal.submit(other).await.unwrap();
    let mut query = Query { template: Some(TEMPLATE.to_owned()), limit: 2, ..Query::default() };
    let mut listed = Vec::new();
    loop {
        let page = journal.list(query.clone()).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = last.number;
        listed.extend(page.into_iter().map(|flow| flow.uid));
    }
    assert!(listed.iter().eq(uids.iter().map(|flow| &flow.uid)));
    let all = journal.list(Query { limit: 9, ..Query::default() }).await.unwrap();
    let created: Vec<_> = all.iter().map(|flow| flow.created).collect();
    for from in created.iter().copied() {
        let later = Timestamp::from_millis(from.as_millis() + 1);
        for (from, before) in [(Some(from), None), (None, Some(from)), (Some(from), Some(later))] {
            let query = Query { from, before, limit: 9, ..Query::default() };
            let listed = journal.list(query).await.unwrap();
            let is_meant = |time: Timestamp| {
                from.is_none_or(|from| from <= time) && before.is_none_or(|before| time < before)
            };
            let meant = all.iter().filter(|flow| is_meant(flow.created));
            assert!(listed.iter().eq(meant), "{from:?} to {before:?}");
        }
    }
    let without = Query { template_without: Some(':'), limit: 9, ..Query::default() };
    let [without] = &journal.list(without).await.unwrap()[..] else { panic!("one has none") };
    assert_eq!(without.template, "other");
    let paused = Query { state: Some(FlowState::Paused), limit: 9, ..Query::default() };
    let [paused] = &journal.list(paused).await.unwrap()[..] else { panic!("one is paused") };
    assert_eq!((paused.uid, paused.reason.as_deref()), (uids[2].uid, Some("changed")));
}

pub(super) async fn a_list_says_whose_a_flow_is_and_how_it_ended(journal: &dyn Journal) {
    let node = node(journal).await;
    let ends = [
        (completed(), "success"),
        (ended(Ending::Failed(failure("Declined"))), "Declined"),
        (ended(Ending::Cancelled), "Cancelled"),
    ];
    for (number, (end, outcome)) in ends.into_iter().enumerate() {
        let mut given = submit(FirstOwner::Node(node));
        given.started.user = Some(format!(r#"{{"lid":"user {number}"}}"#));
        given.key = Some(CallerKey { scope: "any".to_owned(), key: format!("key {number}") });
        let uid = given.uid;
        journal.submit(given).await.unwrap();
        let flow = Owned { journal, uid, epoch: Epoch::new(1), next: 1, seen: 0 };
        let listed = async || {
            let query = Query { uid: Some(uid), limit: 9, ..Query::default() };
            journal.list(query).await.unwrap().pop().unwrap()
        };
        assert_eq!((listed().await.outcome, listed().await.reason), (None, None));
        assert!(append(journal, flow.entry(vec![end])).await.is_ok());
        let FlowInfo { outcome: found, user, key, reason, ended, .. } = listed().await;
        assert_eq!(found.as_deref(), Some(outcome));
        assert_eq!(user, Some(format!("user {number}")));
        assert_eq!(key, Some(format!("key {number}")));
        assert_eq!((reason, ended.is_some()), (None, true));
        assert_eq!(journal.status(uid).await.unwrap().flow.outcome.as_deref(), Some(outcome));
    }
}

pub(super) async fn a_list_says_until_when_a_flow_waits(journal: &dyn Journal) {
    let hour = Duration::from_secs(3_600);
    let later = submit(FirstOwner::AnyAfter(hour));
    let uid = later.uid;
    journal.submit(later).await.unwrap();
    let query = Query { uid: Some(uid), limit: 1, ..Query::default() };
    let [flow] = &journal.list(query).await.unwrap()[..] else { panic!("it is listed") };
    let due = flow.due.expect("it has a time").as_millis() - flow.created.as_millis();
    // the clock may go on between the two
    assert!((3_595_000..=3_605_000).contains(&due), "{due}");
}

pub(super) async fn open_flows_are_counted_by_state(journal: &dyn Journal) {
    let node = node(journal).await;
    assert_eq!(journal.count(vec![TEMPLATE.to_owned()]).await.unwrap().stored, 0);
    let mut other = submit(FirstOwner::Any);
    other.started.template = "other".to_owned();
    journal.submit(other).await.unwrap();
    let mut flows = Vec::new();
    for _ in 0..6 {
        flows.push(Owned::start(journal, node).await);
    }
    flows[0].leave(Disposition::Pause("changed".to_owned())).await;
    flows[2].leave(Disposition::Pause("changed".to_owned())).await;
    flows[3].leave(Disposition::Park(None)).await;
    assert!(append(journal, flows[4].entry(vec![completed()])).await.is_ok());
    let Counts { time, flows: mut counted, stored, .. } =
        journal.count(vec![TEMPLATE.to_owned()]).await.unwrap();
    counted.sort_by_key(|it| it.state);
    let found: Vec<_> = counted.iter().map(|it| (it.state, it.count, it.oldest)).collect();
    assert_eq!(
        found,
        [
            (FlowState::Running, 2, flows[1].uid),
            (FlowState::Parked, 1, flows[3].uid),
            (FlowState::Paused, 2, flows[0].uid),
        ],
        "neither ended ones nor those of another template"
    );
    assert!(counted.iter().all(|it| it.epoch == Epoch::new(1) && it.created <= time));
    assert_eq!(stored, 7, "all of them");
    let none = journal.count(Vec::new()).await.unwrap();
    assert_eq!((none.flows.len(), none.stored), (0, 7));
}

pub(super) async fn a_flow_that_is_not_there_is_named(journal: &dyn Journal) {
    let gone = Owned { uid: uid(), ..Owned::start(journal, node(journal).await).await };
    let expected = Refused::NoFlow(gone.uid);
    let answer = append(journal, gone.entry(vec![done("a")])).await;
    assert_eq!(answer, Err(NotWritten::Refused(expected.clone())));
    let refused = |error: Error| {
        let Error::Refused(refused) = error else { panic!("{error}") };
        refused
    };
    assert_eq!(refused(journal.load(gone.uid).await.unwrap_err()), expected);
    assert_eq!(refused(journal.inbox(gone.uid).await.unwrap_err()), expected);
    assert_eq!(refused(journal.status(gone.uid).await.unwrap_err()), expected);
    assert_eq!(refused(journal.signal(gone.uid, signal("s")).await.unwrap_err()), expected);
    assert_eq!(refused(journal.cancel(gone.uid, "me".into(), None).await.unwrap_err()), expected);
}
