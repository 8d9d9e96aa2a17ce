//! Flows that wait for an operator.

use asyncsteps_journal::record::{Effect, Ending, Failed, Iteration};
use asyncsteps_journal::request::{Append, Claim, Disposition, FlowState, Resume};
use asyncsteps_journal::{Error, Event, Journal, Path, Record, RecordId, Refused};
use futures_util::future::join_all;

use super::LIMITS;
use super::world::*;

pub(super) async fn a_paused_flow_waits_for_an_operator(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    assert_eq!(flow.refused(Resume::Continue).await, Refused::NotStopped(flow.uid));
    flow.write(vec![done("a")]).await.unwrap();
    flow.leave(Disposition::Pause("step `b` is gone".to_owned())).await;
    journal.signal(flow.uid, signal("s")).await.unwrap();
    assert_eq!(claim(journal, node, 9).await, [], "a signal does not let it go on");
    flow.resume(Resume::Continue).await;
    let (flow, ..) = take_over(journal).await;
    assert_eq!(flow.steps().await, ["a"]);
    assert_eq!(journal.status(flow.uid).await.unwrap().flow.reason, None);
}

pub(super) async fn a_step_is_done_again_without_its_records(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    flow.write(vec![done("a"), done("b"), done("c")]).await.unwrap();
    flow.leave(Disposition::Pause("changed".to_owned())).await;
    let gone = [0, 2, 3].map(|sequence| RecordId { epoch: flow.epoch, sequence });
    flow.resume(Resume::Without([gone.as_slice(), &[RecordId::FIRST]].concat())).await;
    let (mut flow, ..) = take_over(journal).await;
    assert_eq!(flow.steps().await, ["a"], "the first record stays");
    flow.next = 4;
    flow.write(vec![done("b")]).await.unwrap();
    assert_eq!(flow.steps().await, ["a", "b"]);
}

pub(super) async fn a_flow_begins_again_with_a_new_run(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let failed = Failed {
        failure: failure("Busy"),
        attempt: 1,
        millis: 1,
        effect: Effect::None,
        cause: None,
    };
    let failed = Record::new(path("c"), Event::Failed(failed));
    flow.write(vec![done("a"), intent("b"), intent("c"), failed]).await.unwrap();
    let item = Record { path: path("a").key("0"), ..done("a") };
    flow.write(vec![item, unwinding(), undone("b"), undone("a")]).await.unwrap();
    flow.leave(Disposition::Pause("changed".to_owned())).await;
    flow.resume(Resume::Again).await;
    let (flow, ..) = take_over(journal).await;
    assert_eq!(flow.steps().await, <[String; 0]>::default());
    let loaded = journal.load(flow.uid).await.unwrap();
    assert_eq!((loaded.flow.run, loaded.records[0].id), (1, RecordId::FIRST));
}

pub(super) async fn a_flow_does_not_begin_again_with_an_effect(journal: &dyn Journal) {
    let unknown = Failed {
        failure: failure("Busy"),
        attempt: 1,
        millis: 1,
        effect: Effect::Unknown,
        cause: None,
    };
    let state = Iteration { index: 0, state: value("state") };
    let effects = [
        vec![done("a")],
        vec![intent("a")],
        vec![Record::new(path("a"), Event::Failed(unknown))],
        vec![Record::new(path("a"), Event::Iteration(state))],
        vec![done("a"), undone("a"), done("a")],
        vec![done("a"), done("ab"), undone("ab")],
    ];
    let node = node(journal).await;
    for records in effects {
        let mut flow = Owned::start(journal, node).await;
        flow.write(records).await.unwrap();
        flow.leave(Disposition::Pause("changed".to_owned())).await;
        let again = flow.refused(Resume::Again).await;
        assert_eq!(again, Refused::NotUndone { uid: flow.uid, path: path("a") });
        let info = journal.status(flow.uid).await.unwrap().flow;
        assert_eq!((info.state, info.run), (FlowState::Paused, 0));
        assert!(!flow.steps().await.is_empty(), "its records stay");
    }
}

pub(super) async fn a_flow_that_undoes_does_not_go_back(journal: &dyn Journal) {
    let node = node(journal).await;
    // by its number: what is undone, the beginning of the undo, its end, and what came after it
    let records = [done("a"), unwinding(), undone("a"), done("b")];
    let last = [path("a").undo(), Path::template(TEMPLATE)];
    for (count, last) in [(4, &last[0]), (2, &last[1])] {
        let mut flow = Owned::start(journal, node).await;
        flow.write(records[..count].to_vec()).await.unwrap();
        flow.leave(Disposition::Pause("changed".to_owned())).await;
        let id = |sequence| RecordId { epoch: flow.epoch, sequence };
        for sequence in 1..=count.min(3) as u64 {
            let back = flow.refused(Resume::Without(vec![id(sequence), id(4)])).await;
            assert_eq!(back, Refused::HasUndone { uid: flow.uid, path: last.clone() });
        }
        assert_eq!(flow.steps().await.len(), count, "its records stay");
        flow.resume(Resume::Without(vec![id(4)])).await;
        assert_eq!(flow.steps().await.len(), count.min(3));
    }
}

pub(super) async fn a_flow_stays_on_its_version(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    flow.leave(Disposition::Pause("changed".to_owned())).await;
    flow.resume(Resume::OnItsVersion).await;
    let programs = vec![program(2, &[1])];
    let newer = Claim { node, ticket: uid(), programs, limit: 9, awaited: Vec::new(), suspects: 1 };
    assert_eq!(journal.claim(newer).await.unwrap(), []);
    assert_eq!(claim(journal, node, 9).await.len(), 1);
}

pub(super) async fn a_dead_letter_is_replayed(journal: &dyn Journal) {
    let mut owner = node(journal).await;
    let mut flow = Owned::start(journal, owner).await;
    flow.write(vec![intent("pay")]).await.unwrap();
    for _ in 0..LIMITS.claims {
        kill(journal, owner).await;
        (flow, owner, _) = take_over(journal).await;
    }
    kill(journal, owner).await;
    assert_eq!(claim(journal, node(journal).await, 9).await, []);
    assert_eq!(flow.state().await, FlowState::Dead);
    flow.resume(Resume::Continue).await;
    let (mut flow, _, deaths) = take_over(journal).await;
    assert_eq!(deaths, 0, "it is counted from the beginning");
    flow.write(vec![done("pay"), completed()]).await.unwrap();
    assert_eq!(flow.state().await, FlowState::Ended);
}

pub(super) async fn a_cancel_lets_a_paused_flow_undo(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    flow.write(vec![done("a")]).await.unwrap();
    flow.leave(Disposition::Pause("changed".to_owned())).await;
    journal.cancel(flow.uid, "operator".into(), None).await.unwrap();
    let (mut flow, ..) = take_over(journal).await;
    let cancel = journal.inbox(flow.uid).await.unwrap().cancel.expect("it is cancelled");
    flow.seen = cancel.number;
    flow.write(vec![ended(Ending::Cancelled)]).await.unwrap();
    let status = journal.status(flow.uid).await.unwrap();
    assert_eq!(status.ending, Some(Ending::Cancelled));
}

pub(super) async fn a_cancel_lets_a_cancelled_flow_go_on(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let first = journal.cancel(flow.uid, "first".into(), None).await.unwrap();
    flow.write(vec![done("a")]).await.unwrap();
    flow.leave(Disposition::Pause("the undo of `a` is gone".to_owned())).await;
    assert_eq!(journal.cancel(flow.uid, "second".into(), None).await.unwrap(), first);
    let status = journal.status(flow.uid).await.unwrap().flow;
    assert_eq!((status.state, status.reason), (FlowState::Ready, None));
    let (flow, ..) = take_over(journal).await;
    let again = journal.cancel(flow.uid, "third".into(), None).await.unwrap();
    assert_eq!((again, flow.state().await), (first, FlowState::Running));
}

pub(super) async fn of_orders_at_once_one_is_carried_out(journal: &dyn Journal) {
    let node = node(journal).await;
    for count in 2..8 {
        let mut flow = Owned::start(journal, node).await;
        flow.leave(Disposition::Pause("changed".to_owned())).await;
        let signals = (0..count).map(|number| signal(&number.to_string()));
        let orders: Vec<_> = signals.map(Resume::Signal).chain([Resume::Continue]).collect();
        let answers = join_all(orders.iter().map(|how| journal.resume(flow.uid, how.clone())));
        let mut acknowledged = Vec::new();
        for (how, answer) in orders.iter().zip(answers.await) {
            match answer {
                Ok(()) => acknowledged.push(how),
                Err(Error::Refused(refused)) => assert_eq!(refused, Refused::NotStopped(flow.uid)),
                Err(error) => panic!("{error}"),
            }
        }
        let [how] = *acknowledged else { panic!("{acknowledged:?}") };
        let stored = journal.inbox(flow.uid).await.unwrap().signals;
        let stored: Vec<_> = stored.into_iter().map(|stored| stored.name).collect();
        let name = if let Resume::Signal(signal) = how { Some(signal.name.clone()) } else { None };
        assert_eq!(stored, Vec::from_iter(name), "the others have changed nothing");
        assert_eq!(flow.state().await, FlowState::Ready);
    }
}

pub(super) async fn an_order_is_stored_once_however_many_signals_wait(journal: &dyn Journal) {
    let mut flow = Owned::start(journal, node(journal).await).await;
    let order = Resume::Signal(signal("order"));
    assert_eq!(flow.refused(order.clone()).await, Refused::NotStopped(flow.uid));
    assert_eq!(journal.inbox(flow.uid).await.unwrap().signals, [], "nothing of it is stored");
    flow.leave(Disposition::Pause("changed".to_owned())).await;
    for _ in 0..LIMITS.signals {
        journal.signal(flow.uid, signal("paid")).await.unwrap();
    }
    flow.resume(order.clone()).await;
    // its answer was lost: also while another node has the flow, and when it has taken the order
    flow.resume(order.clone()).await;
    let (mut flow, ..) = take_over(journal).await;
    let inbox = journal.inbox(flow.uid).await.unwrap();
    let last = inbox.signals.last().expect("it is stored").clone();
    assert_eq!((&*last.name, last.number), ("order", inbox.last));
    flow.resume(order.clone()).await;
    flow.seen = inbox.last;
    flow.send(Append { takes: vec![last.number], ..flow.entry(vec![done("a")]) }).await.unwrap();
    flow.resume(order).await;
    let again = journal.inbox(flow.uid).await.unwrap();
    assert_eq!((again.signals.len() as u64, again.last), (LIMITS.signals, inbox.last));
    let named = Resume::Signal(signal("\0"));
    assert_eq!(flow.refused(named).await, Refused::NulCharacter("name"));
}
