//! Quotas of callers.

use asyncsteps_journal::request::{
    CallerGroup, CallerKey, CallerQuota, Disposition, FirstOwner, Submit, Submitted,
};
use asyncsteps_journal::{Error, Journal, Refused, Repeat};
use futures_util::future::join_all;

use super::world::*;

const MOST: u64 = 3;

/// A flow of a caller, which may have three that wait, and five together with others of its group.
fn of(caller: &str, owner: FirstOwner) -> Submit {
    let group = caller
        .split_once(' ')
        .map(|(prefix, _)| CallerGroup { prefix: format!("{prefix} "), most: MOST + 2 });
    let quota = Some(CallerQuota { caller: caller.to_owned(), most: MOST, group });
    Submit { quota, ..submit(owner) }
}

async fn store(journal: &dyn Journal, caller: &str) -> Result<Submitted, Refused> {
    store_as(journal, of(caller, FirstOwner::Any)).await
}

async fn store_as(journal: &dyn Journal, submit: Submit) -> Result<Submitted, Refused> {
    journal.submit(submit).await.map_err(|error| {
        assert_eq!(error.repeat(), Repeat::Never);
        let Error::Refused(refused) = error else { panic!("{error}") };
        refused
    })
}

fn too_many(caller: &str, most: u64) -> Result<Submitted, Refused> {
    Err(Refused::TooManyWaiting { caller: caller.to_owned(), most })
}

pub(super) async fn no_more_flows_of_a_caller_wait_than_its_quota(journal: &dyn Journal) {
    let key = CallerKey { scope: "s".to_owned(), key: "k".to_owned() };
    let first = Submit { key: Some(key), ..of("ann", FirstOwner::Any) };
    assert_eq!(store_as(journal, first.clone()).await, Ok(Submitted::New));
    for _ in 1..MOST {
        assert_eq!(store(journal, "ann").await, Ok(Submitted::New));
    }
    for _ in 0..2 {
        assert_eq!(store(journal, "ann").await, too_many("ann", MOST));
    }
    // what is stored already is neither counted nor refused, by its name as by its key
    assert_eq!(store_as(journal, first.clone()).await, Ok(Submitted::Known(first.uid)));
    let again = Submit { uid: uid(), ..first.clone() };
    assert_eq!(store_as(journal, again).await, Ok(Submitted::Known(first.uid)));
    for other in ["an", "anne", "ann\u{e4}"] {
        assert_eq!(store(journal, other).await, Ok(Submitted::New));
    }
    assert_eq!(journal.submit(submit(FirstOwner::Any)).await.unwrap(), Submitted::New);
    assert_eq!(store(journal, "ann").await, too_many("ann", MOST));
}

pub(super) async fn what_runs_or_has_ended_is_not_counted(journal: &dyn Journal) {
    let owner = FirstOwner::Node(node(journal).await);
    let mut flows = Vec::new();
    for _ in 0..=MOST {
        let running = of("ann", owner);
        let started = Owned::of(journal, running.uid);
        assert_eq!(store_as(journal, running).await, Ok(Submitted::New));
        flows.push(started);
    }
    let ways = [
        Disposition::Park(None),
        Disposition::Pause("changed".to_owned()),
        Disposition::Release,
        Disposition::Keep,
    ];
    for (flow, then) in flows.iter_mut().zip(ways) {
        flow.leave(then).await;
    }
    // one is parked, one paused, and one waits for a node
    assert_eq!(store_as(journal, of("ann", owner)).await, too_many("ann", MOST));
    journal.cancel(flows[1].uid, "me".into(), None).await.unwrap();
    assert_eq!(store_as(journal, of("ann", owner)).await, too_many("ann", MOST), "it waits to end");
    let claimed = claim(journal, node(journal).await, 1).await;
    let mut oldest = Owned::load(journal, claimed[0]).await;
    assert_eq!(store_as(journal, of("ann", owner)).await, Ok(Submitted::New), "it runs");
    oldest.seen = 1;
    oldest.write(vec![completed()]).await.unwrap();
    assert_eq!(store(journal, "ann").await, Ok(Submitted::New), "it has ended");
    assert_eq!(store(journal, "ann").await, too_many("ann", MOST));
}

pub(super) async fn callers_of_a_group_have_a_quota_together(journal: &dyn Journal) {
    for caller in ["at 1", "at 1", "at 1", "at 2"] {
        assert_eq!(store(journal, caller).await, Ok(Submitted::New));
    }
    assert_eq!(store(journal, "at 1").await, too_many("at 1", MOST));
    assert_eq!(store(journal, "at 2").await, Ok(Submitted::New));
    for caller in ["at 2", "at 3"] {
        assert_eq!(store(journal, caller).await, too_many("at", MOST + 2));
    }
    for caller in ["at", "ats", "att 1"] {
        assert_eq!(store(journal, caller).await, Ok(Submitted::New), "it is of no such group");
    }
}

pub(super) async fn submits_at_once_do_not_exceed_a_quota(journal: &dyn Journal) {
    let submits = (0..40).map(|_| store(journal, "ann"));
    let stored = join_all(submits).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(stored as u64, MOST);
}
