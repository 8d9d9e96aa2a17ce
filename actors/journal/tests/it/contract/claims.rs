//! Who owns a flow.

use std::collections::HashSet;
use std::time::Duration;

use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{
    Append, Claim, Claimed, Disposition, FirstOwner, FlowState, Program, Query, Submit,
};
use asyncsteps_journal::{Error, Incarnation, Journal, NotWritten, Refused, Timestamp, Uid};
use futures_util::future::{join, join_all};

use super::LIMITS;
use super::world::*;

pub(super) async fn two_claims_never_give_the_same_flow(journal: &dyn Journal) {
    join_all((0..30).map(|_| journal.submit(submit(FirstOwner::Any)))).await;
    let claims = (0..6).map(|_| async { claim(journal, node(journal).await, 7).await });
    let given: Vec<_> = join_all(claims).await.into_iter().flatten().collect();
    let different: HashSet<_> = given.iter().map(|claimed| claimed.uid).collect();
    assert_eq!(different.len(), given.len());
    let rest = claim(journal, node(journal).await, 30).await;
    assert_eq!(given.len() + rest.len(), 30, "none is lost");
}

pub(super) async fn a_claim_races_with_an_append(journal: &dyn Journal) {
    for round in 0..12 {
        let first = node(journal).await;
        let flow = Owned::start(journal, first).await;
        let next = node(journal).await;
        kill(journal, first).await;
        let write = append(journal, flow.entry(vec![done("a")]));
        let take = async {
            let claimed = claim(journal, next, 1).await;
            journal.load(claimed[0].uid).await.unwrap().records.len()
        };
        // both orders of the first poll
        let (written, loaded) = if round % 2 == 0 {
            join(write, take).await
        } else {
            let (loaded, written) = join(take, write).await;
            (written, loaded)
        };
        assert_eq!(written.is_ok(), loaded == 2, "{written:?}, and {loaded} records");
        assert_eq!(flow.steps().await.len(), loaded - 1, "nothing came after the load");
    }
}

pub(super) async fn a_claim_whose_answer_was_lost_is_repeated(journal: &dyn Journal) {
    join_all((0..4).map(|_| journal.submit(submit(FirstOwner::Any)))).await;
    let node = node(journal).await;
    let request = Claim {
        node,
        ticket: uid(),
        programs: vec![program(1, &[])],
        limit: 3,
        awaited: Vec::new(),
        suspects: 1,
    };
    let first = journal.claim(request.clone()).await.unwrap();
    assert_eq!(first.len(), 3);
    let again = journal.claim(request).await.unwrap();
    assert_eq!(again, first, "the same flows with the same epochs");
    assert_eq!(claim(journal, node, 9).await.len(), 1);
}

pub(super) async fn begun_flows_come_before_new_ones_and_oldest_first(journal: &dyn Journal) {
    let first = node(journal).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let new = submit(FirstOwner::Any);
        order.push(new.uid);
        journal.submit(new).await.unwrap();
    }
    let mut begun = Vec::new();
    for _ in 0..3 {
        begun.push(Owned::start(journal, first).await);
    }
    // released in another order than they were submitted
    for flow in begun.iter_mut().rev() {
        flow.leave(Disposition::Release).await;
    }
    let mut given = Vec::new();
    for _ in 0..3 {
        given.extend(claim(journal, first, 2).await.into_iter().map(|claimed| claimed.uid));
    }
    let expected = begun.iter().map(|flow| flow.uid).chain(order);
    assert!(given.iter().copied().eq(expected), "{given:?}");
}

pub(super) async fn awaited_flows_come_first_and_functions_take_turns(journal: &dyn Journal) {
    let owner = node(journal).await;
    let running = Owned::start(journal, owner).await.uid;
    let mut stored = Vec::new();
    for template in [TEMPLATE, TEMPLATE, TEMPLATE, TEMPLATE, "demo.shop:refund", "demo.shop:refund"]
    {
        let new = submit(FirstOwner::Any);
        let started = Started { template: template.to_owned(), ..new.started };
        stored.push(new.uid);
        journal.submit(Submit { started, ..new }).await.unwrap();
    }
    let programs = vec![
        program(1, &[]),
        Program { template: "demo.shop:refund".to_owned(), ..program(1, &[]) },
    ];
    let claim = |limit, awaited: &[Uid]| {
        let (programs, awaited) = (programs.clone(), awaited.to_vec());
        journal.claim(Claim { node: owner, ticket: uid(), programs, limit, awaited, suspects: 1 })
    };
    let uids = |claimed: Vec<Claimed>| claimed.iter().map(|it| it.uid).collect::<Vec<_>>();
    // one that runs, one that is unknown, and the last one of the first function
    let awaited = claim(0, &[running, uid(), stored[3]]).await.unwrap();
    assert_eq!(uids(awaited), [stored[3]]);
    // which had its turn, as if it had been taken with the others
    let given = claim(3, &[stored[1]]).await.unwrap();
    assert_eq!(uids(given), [stored[1], stored[0], stored[4], stored[5]]);
    assert_eq!(uids(claim(9, &[]).await.unwrap()), [stored[2]]);
}

pub(super) async fn a_node_gets_flows_of_its_versions_only(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    flow.leave(Disposition::Release).await;
    let claim = |version, compatible: &[u32]| Claim {
        node,
        ticket: uid(),
        programs: vec![program(version, compatible)],
        limit: 9,
        awaited: Vec::new(),
        suspects: 1,
    };
    assert_eq!(journal.claim(claim(2, &[])).await.unwrap(), []);
    let given = journal.claim(claim(2, &[1])).await.unwrap();
    assert_eq!(given.len(), 1);
    flow = Owned::load(journal, given[0]).await;
    let newer = Append { version: 2, then: Disposition::Release, ..flow.entry(vec![done("a")]) };
    flow.send(newer).await.unwrap();
    assert_eq!(journal.claim(claim(1, &[])).await.unwrap(), [], "a newer one wrote to it");
    assert_eq!(journal.claim(claim(2, &[])).await.unwrap().len(), 1);
}

pub(super) async fn a_node_without_a_lease_gets_nothing(journal: &dyn Journal) {
    let lost = node(journal).await;
    kill(journal, lost).await;
    let refused = |error: Error, node: Incarnation| {
        let Error::Refused(refused) = error else { panic!("{error}") };
        assert_eq!(refused, Refused::NoLease(node));
    };
    let renewed = journal.renew(lost, Duration::from_secs(10)).await;
    refused(renewed.unwrap_err(), lost);
    for node in [lost, Incarnation::new(999_999)] {
        let request = Claim {
            node,
            ticket: uid(),
            programs: Vec::new(),
            limit: 1,
            awaited: Vec::new(),
            suspects: 1,
        };
        refused(journal.claim(request).await.unwrap_err(), node);
        let submitted = journal.submit(submit(FirstOwner::Node(node))).await;
        refused(submitted.unwrap_err(), node);
    }
}

pub(super) async fn a_dead_owner_loses_its_flows(journal: &dyn Journal) {
    let first = node(journal).await;
    let mut flow = Owned::start(journal, first).await;
    let other = node(journal).await;
    assert_eq!(claim(journal, other, 9).await, [], "its owner lives");
    kill(journal, first).await;
    let [claimed] = claim(journal, other, 9).await[..] else { panic!("one flow") };
    assert_eq!((claimed.uid, claimed.epoch > flow.epoch), (flow.uid, true));
    let answer = flow.write(vec![done("a")]).await;
    assert_eq!(answer, Err(NotWritten::Stale { epoch: claimed.epoch }));
}

pub(super) async fn a_released_flow_is_not_counted(journal: &dyn Journal) {
    let node = node(journal).await;
    let mut flow = Owned::start(journal, node).await;
    flow.write(vec![intent("pay")]).await.unwrap();
    for _ in 0..=LIMITS.claims {
        flow.leave(Disposition::Release).await;
        assert_eq!(flow.write(vec![done("pay")]).await.ok(), None, "it is of no owner");
        let [claimed] = claim(journal, node, 9).await[..] else { panic!("one flow") };
        assert_eq!(claimed.deaths, 0);
        flow = Owned::load(journal, claimed).await;
    }
}

/// Lets a flow lose its owner after the owner wrote `records`.
async fn die<'a>(
    flow: &mut Owned<'a>,
    journal: &'a dyn Journal,
    owner: Incarnation,
    records: Vec<asyncsteps_journal::Record>,
) {
    flow.write(records).await.expect("it is of this owner");
    kill(journal, owner).await;
}

pub(super) async fn a_flow_that_kills_its_owners_becomes_a_dead_letter(journal: &dyn Journal) {
    let mut owner = node(journal).await;
    let mut flow = Owned::start(journal, owner).await;
    for deaths in 1..=LIMITS.claims {
        // an attempt that is over does not close the next one
        die(&mut flow, journal, owner, vec![done("other"), intent("pay")]).await;
        let count;
        (flow, owner, count) = take_over(journal).await;
        assert_eq!(count, 1, "death {deaths}: each time it got further before");
    }
    for deaths in 1..=LIMITS.claims {
        die(&mut flow, journal, owner, vec![intent("pay")]).await;
        let count;
        (flow, owner, count) = take_over(journal).await;
        assert_eq!(count, 1 + deaths);
        if count == LIMITS.claims {
            break;
        }
    }
    die(&mut flow, journal, owner, vec![intent("pay")]).await;
    assert_eq!(claim(journal, node(journal).await, 9).await, []);
    let status = journal.status(flow.uid).await.unwrap();
    assert_eq!(status.flow.state, FlowState::Dead);
    assert!(status.flow.reason.is_some_and(|reason| reason.contains("died")));
}

pub(super) async fn progress_resets_the_count(journal: &dyn Journal) {
    let mut owner = node(journal).await;
    let mut flow = Owned::start(journal, owner).await;
    for _ in 0..2 * LIMITS.claims {
        die(&mut flow, journal, owner, vec![intent("pay")]).await;
        (flow, owner, _) = take_over(journal).await;
        assert_eq!(journal.status(flow.uid).await.unwrap().flow.claims, 1);
        flow.write(vec![done("pay")]).await.unwrap();
        assert_eq!(journal.status(flow.uid).await.unwrap().flow.claims, 0);
    }
}

pub(super) async fn a_suspect_that_waits_has_no_reason(journal: &dyn Journal) {
    let mut owner = node(journal).await;
    let mut flow = Owned::start(journal, owner).await;
    let waits = [
        Disposition::Park(None),
        Disposition::Park(Some(Duration::from_secs(9))),
        Disposition::Release,
    ];
    for (deaths, wait) in (1..).zip(waits) {
        die(&mut flow, journal, owner, vec![intent("pay")]).await;
        let count;
        (flow, owner, count) = take_over(journal).await;
        let runs = journal.status(flow.uid).await.unwrap().flow;
        assert!(runs.reason.is_some_and(|reason| reason.contains("died")));
        flow.leave(wait.clone()).await;
        let waits = journal.status(flow.uid).await.unwrap().flow;
        assert_eq!((waits.reason, waits.claims, count), (None, deaths, deaths), "{wait:?}");
        journal.signal(flow.uid, signal("on")).await.unwrap();
        let [claimed] = claim(journal, owner, 9).await[..] else { panic!("one flow") };
        assert!(claimed.is_suspect, "it has not got further");
        flow = Owned::load(journal, claimed).await;
    }
}

pub(super) async fn deaths_without_an_open_effect_are_told_and_not_counted(journal: &dyn Journal) {
    let mut owner = node(journal).await;
    let mut flow = Owned::start(journal, owner).await;
    flow.write(vec![intent("pay"), done("pay")]).await.unwrap();
    for deaths in 1..=LIMITS.claims + 1 {
        die(&mut flow, journal, owner, Vec::new()).await;
        let count;
        (flow, owner, count) = take_over(journal).await;
        assert_eq!(count, deaths);
        assert_eq!(journal.status(flow.uid).await.unwrap().flow.claims, 0);
    }
}

pub(super) async fn suspects_run_one_at_a_time(journal: &dyn Journal) {
    let first = node(journal).await;
    let mut flows = Vec::new();
    for _ in 0..3 {
        let mut flow = Owned::start(journal, first).await;
        flow.write(vec![intent("pay")]).await.unwrap();
        flows.push(flow.uid);
    }
    let innocent = Owned::start(journal, first).await;
    kill(journal, first).await;
    let next = node(journal).await;
    let given = claim(journal, next, 9).await;
    let uids: HashSet<_> = given.iter().map(|claimed| claimed.uid).collect();
    assert_eq!(uids, HashSet::from([flows[0], innocent.uid]), "the oldest, and what is no suspect");
    assert_eq!(claim(journal, next, 9).await, []);
    let other = node(journal).await;
    let [second] = claim(journal, other, 9).await[..] else { panic!("one for another node") };
    assert_eq!(second.uid, flows[1]);
    let suspect = given.into_iter().find(|claimed| claimed.uid == flows[0]).unwrap();
    Owned::load(journal, suspect).await.write(vec![done("pay")]).await.unwrap();
    let [third] = claim(journal, next, 9).await[..] else { panic!("the first got further") };
    assert_eq!(third.uid, flows[2]);
}

pub(super) async fn a_death_counts_for_a_suspect_that_was_the_only_one(journal: &dyn Journal) {
    const FLOWS: usize = 5;
    let mut owner = node(journal).await;
    for _ in 0..FLOWS {
        let mut flow = Owned::start(journal, owner).await;
        flow.write(vec![intent("pay")]).await.unwrap();
    }
    // however often owners die with several of them, none becomes a dead letter
    for _ in 0..2 * LIMITS.claims {
        kill(journal, owner).await;
        owner = node(journal).await;
        assert_eq!(claim_suspects(journal, owner, 9, 1).await.len(), 1);
        let given = claim_suspects(journal, owner, 9, FLOWS).await;
        assert_eq!(given.len(), FLOWS - 1, "as many as it asks for, with the one that it has");
        for claimed in given {
            assert!(claimed.is_suspect);
            assert_eq!(journal.status(claimed.uid).await.unwrap().flow.claims, 1);
        }
    }
    // it counts for one that runs alone
    for alone in 1..=LIMITS.claims {
        kill(journal, owner).await;
        owner = node(journal).await;
        let [suspect] = claim(journal, owner, 9).await[..] else { panic!("one suspect") };
        assert_eq!(journal.status(suspect.uid).await.unwrap().flow.claims, alone);
    }
    kill(journal, owner).await;
    claim(journal, node(journal).await, 9).await;
    let dead = Query { state: Some(FlowState::Dead), limit: 9, ..Query::default() };
    assert_eq!(journal.list(dead).await.unwrap().len(), 1);
}

/// The next owner after one that is dead, with this number of suspects, oldest first.
async fn next_owner(
    journal: &dyn Journal,
    dead: Incarnation,
    suspects: usize,
) -> (Incarnation, Vec<Owned<'_>>) {
    kill(journal, dead).await;
    let owner = node(journal).await;
    let mut flows = Vec::new();
    for claimed in claim_suspects(journal, owner, 9, suspects).await {
        flows.push(Owned::load(journal, claimed).await);
    }
    (owner, flows)
}

async fn claims_of(flow: &Owned<'_>) -> u32 {
    flow.journal.status(flow.uid).await.unwrap().flow.claims
}

pub(super) async fn a_death_counts_for_no_suspect_beside_another_open_effect(
    journal: &dyn Journal,
) {
    let mut owner = node(journal).await;
    Owned::start(journal, owner).await.write(vec![intent("pay")]).await.unwrap();
    for _ in 0..2 * LIMITS.claims {
        let mut suspects;
        (owner, suspects) = next_owner(journal, owner, 1).await;
        let [suspect] = &mut suspects[..] else { panic!("one suspect") };
        assert_eq!(claims_of(suspect).await, 1);
        suspect.write(vec![intent("pay")]).await.unwrap();
        let mut new = Owned::start(journal, owner).await;
        assert_eq!(claims_of(&new).await, 0);
        new.write(vec![intent("pay")]).await.unwrap();
    }
    kill(journal, owner).await;
    claim(journal, node(journal).await, 9).await;
    let flows = journal.list(Query { limit: 99, ..Query::default() }).await.unwrap();
    assert!(flows.iter().all(|flow| flow.claims == 1), "each is marked: {flows:?}");
}

pub(super) async fn a_suspect_that_waits_does_not_count_beside_one_that_has_begun(
    journal: &dyn Journal,
) {
    let mut owner = node(journal).await;
    for _ in 0..2 {
        Owned::start(journal, owner).await.write(vec![intent("pay")]).await.unwrap();
    }
    for alone in 0..LIMITS.claims {
        let mut suspects;
        (owner, suspects) = next_owner(journal, owner, 2).await;
        let [waits, kills] = &mut suspects[..] else { panic!("two suspects") };
        assert_eq!((claims_of(waits).await, claims_of(kills).await), (1, 1 + alone));
        kills.write(vec![intent("pay")]).await.unwrap();
    }
    let (_, left) = next_owner(journal, owner, 2).await;
    let [waits] = &left[..] else { panic!("the other one is dead") };
    assert_eq!(claims_of(waits).await, 1);
    let dead = Query { state: Some(FlowState::Dead), limit: 9, ..Query::default() };
    assert_eq!(journal.list(dead).await.unwrap().len(), 1);
}

pub(super) async fn a_flow_that_kills_each_owner_beside_others_is_found(journal: &dyn Journal) {
    let mut owner = node(journal).await;
    let mut kills = Owned::start(journal, owner).await;
    let uid = kills.uid;
    for deaths in 1..=10 * LIMITS.claims {
        kills.write(vec![intent("pay")]).await.unwrap();
        Owned::start(journal, owner).await.write(vec![intent("pay")]).await.unwrap();
        let suspects;
        (owner, suspects) = next_owner(journal, owner, 1).await;
        kills = suspects.into_iter().next().expect("one suspect");
        assert_eq!(kills.uid, uid, "death {deaths}");
    }
    kills.write(vec![intent("pay")]).await.unwrap();
    Owned::start(journal, owner).await.write(vec![intent("pay")]).await.unwrap();
    let (_, suspects) = next_owner(journal, owner, 1).await;
    assert_ne!(suspects[0].uid, uid);
    let flow = journal.status(uid).await.unwrap().flow;
    assert_eq!(flow.state, FlowState::Dead);
    assert!(flow.reason.is_some_and(|reason| reason.contains("31 owners")));
}

pub(super) async fn a_delayed_start_waits_for_its_time(journal: &dyn Journal) {
    let node = node(journal).await;
    let late = submit(FirstOwner::AnyFrom(Timestamp::from_millis(u64::MAX >> 2)));
    let due = submit(FirstOwner::AnyFrom(Timestamp::from_millis(1)));
    let uids = (late.uid, due.uid);
    journal.submit(late).await.unwrap();
    journal.submit(due).await.unwrap();
    let year = Duration::from_secs(365 * 24 * 3600);
    journal.submit(submit(FirstOwner::AnyAfter(year))).await.unwrap();
    journal.signal(uids.0, signal("s")).await.unwrap();
    let [claimed] = claim(journal, node, 9).await[..] else { panic!("one is due") };
    assert_eq!(claimed.uid, uids.1);
    journal.cancel(uids.0, "me".into(), None).await.unwrap();
    let [claimed] = claim(journal, node, 9).await[..] else { panic!("a cancel does not wait") };
    assert_eq!(claimed.uid, uids.0);
    let after = submit(FirstOwner::AnyAfter(Duration::ZERO));
    let uid = after.uid;
    journal.submit(after).await.unwrap();
    let [claimed] = claim(journal, node, 9).await[..] else { panic!("the time has passed") };
    assert_eq!(claimed.uid, uid);
}
