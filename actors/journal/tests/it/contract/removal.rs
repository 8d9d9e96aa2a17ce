//! Whom flows act for, and what is removed before its time.

use asyncsteps_journal::limits::{BATCH, TAG_BYTES, TAGS};
use asyncsteps_journal::record::{Ending, Started};
use asyncsteps_journal::request::{CallerKey, FirstOwner, FlowState, Query, Submit, Submitted};
use asyncsteps_journal::{Error, Incarnation, Journal, Refused, Uid};
use futures_util::future::join_all;

use super::world::*;

/// A flow that acts for a user, with a key unless that is empty.
fn flow_of(user: &str, scope: &str, key: &str, owner: FirstOwner) -> Submit {
    let user = Some(format!(r#"{{"lid":"{user}","gid":"","slvl":"SafeOps"}}"#));
    let key = CallerKey { scope: scope.to_owned(), key: key.to_owned() };
    let key = Some(key).filter(|key| !key.key.is_empty());
    Submit { started: Started { user, ..started() }, key, ..submit(owner) }
}

async fn stored(journal: &dyn Journal, submit: Submit) -> Uid {
    let uid = submit.uid;
    assert_eq!(journal.submit(submit).await.unwrap(), Submitted::New);
    uid
}

async fn listed(journal: &dyn Journal, user: Option<&str>, key: Option<&str>) -> Vec<Uid> {
    let (user, key) = (user.map(str::to_owned), key.map(str::to_owned));
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let query =
            Query { user: user.clone(), key: key.clone(), after, limit: 2, ..Query::default() };
        let page = journal.list(query).await.unwrap();
        found.extend(page.iter().map(|flow| flow.uid));
        match page.last() {
            Some(last) => after = last.number,
            None => return found,
        }
    }
}

pub(super) async fn a_failed_flow_leaves_its_key_to_one_that_reruns_it(journal: &dyn Journal) {
    let owner = FirstOwner::Node(node(journal).await);
    let keyed = || flow_of("ann", "a", "k", owner);
    let again = || Submit { reruns: true, ..keyed() };
    let known = async |submit: Submit| match journal.submit(submit).await.unwrap() {
        Submitted::Known(uid) => uid,
        Submitted::New | _ => panic!("it is new"),
    };
    let earlier = again();
    let mut last = stored(journal, earlier.clone()).await;
    assert_eq!(known(again()).await, last, "it has not ended");
    let endings = [Ending::Failed(failure("Busy")), Ending::Cancelled];
    for ending in endings {
        Owned::of(journal, last).write(vec![ended(ending)]).await.unwrap();
        assert_eq!(known(keyed()).await, last, "it is not said that it runs again");
        let mut other = again();
        other.started.parameters = value("other");
        let refused = journal.submit(other).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refused::KeyInUse { uid, .. }) if uid == last));
        // of several at once one is new
        let submits: Vec<_> = (0..9).map(|_| again()).collect();
        let answers = join_all(submits.iter().map(|it| journal.submit(it.clone()))).await;
        let new = answers.iter().position(|it| *it.as_ref().unwrap() == Submitted::New);
        let new = submits[new.expect("one is new")].uid;
        let others = answers.iter().filter(|it| *it.as_ref().unwrap() == Submitted::Known(new));
        assert_eq!(others.count(), 8);
        last = new;
    }
    assert_eq!(known(earlier.clone()).await, earlier.uid, "a submit that is repeated");
    let key = CallerKey { scope: "a".to_owned(), key: "k".to_owned() };
    assert_eq!(journal.find(key.clone()).await.unwrap(), Some(last));
    Owned::of(journal, last).write(vec![completed()]).await.unwrap();
    assert_eq!(known(again()).await, last, "it has a result");
    // the earlier ones are listed by the key, and take it from no other when they go
    assert_eq!(listed(journal, None, Some("k")).await.len(), 3);
    journal.remove(vec![earlier.uid]).await.unwrap();
    assert_eq!(journal.find(key).await.unwrap(), Some(last));
    assert_eq!(listed(journal, None, Some("k")).await.len(), 2);
}

pub(super) async fn flows_of_a_user_and_of_a_key_are_listed(journal: &dyn Journal) {
    let mut uids = Vec::new();
    for (user, scope, key) in [
        ("ann", "a", "k"),
        ("bob", "b", "k"),
        ("ann", "a", ""),
        ("ann", "a", "'"),
        ("an\u{e4} '", "c", ""),
    ] {
        uids.push(stored(journal, flow_of(user, scope, key, FirstOwner::Any)).await);
    }
    // its user is no object with a `lid`
    uids.push(stored(journal, submit(FirstOwner::Any)).await);
    for (user, key, expected) in [
        (Some("ann"), None, &[0, 2, 3][..]),
        (Some("bob"), None, &[1]),
        (Some("an\u{e4} '"), None, &[4]),
        (Some("an"), None, &[]),
        (Some("user"), None, &[]),
        (None, Some("k"), &[0, 1]),
        (None, Some("'"), &[3]),
        (Some("ann"), Some("k"), &[0]),
        (Some("bob"), Some("'"), &[]),
        (None, None, &[0, 1, 2, 3, 4, 5]),
    ] {
        let expected: Vec<_> = expected.iter().map(|number: &usize| uids[*number]).collect();
        assert_eq!(listed(journal, user, key).await, expected, "{user:?} {key:?}");
    }
    let of_template = |template: &str| Query {
        user: Some("ann".to_owned()),
        template: Some(template.to_owned()),
        state: Some(FlowState::New),
        limit: 9,
        ..Query::default()
    };
    assert_eq!(journal.list(of_template(TEMPLATE)).await.unwrap().len(), 3);
    assert_eq!(journal.list(of_template("other")).await.unwrap(), []);
    let open_in = |scope: &str| Query {
        open: true,
        scope: Some(scope.to_owned()),
        limit: 9,
        ..Query::default()
    };
    let mut open = Vec::new();
    for scope in ["a", "b", "k"] {
        let flows = journal.list(open_in(scope)).await.unwrap();
        open.push(flows.into_iter().map(|flow| flow.uid).collect::<Vec<_>>());
    }
    assert_eq!(open, [vec![uids[0], uids[3]], vec![uids[1]], vec![]]);
    let wrong = flow_of("ann\\u0000", "a", "", FirstOwner::Any);
    let refused = journal.submit(wrong).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refused::NulCharacter(_))), "{refused}");
}

pub(super) async fn flows_are_listed_by_their_tags(journal: &dyn Journal) {
    let owner = FirstOwner::Node(node(journal).await);
    let tagged = |tags: &[&str]| {
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        Submit { tags, ..flow_of("ann", "a", "", owner) }
    };
    let with = async |tag: &str, after, limit| {
        let query = Query { tag: Some(tag.to_owned()), after, limit, ..Query::default() };
        let flows = journal.list(query).await.unwrap();
        flows.into_iter().map(|flow| (flow.uid, flow.number, flow.tags)).collect::<Vec<_>>()
    };
    let long = "x".repeat(TAG_BYTES);
    let first = tagged(&["b", "a\n\u{e4}", "b", &long]);
    let one = stored(journal, first.clone()).await;
    let two = stored(journal, tagged(&["b"])).await;
    stored(journal, tagged(&[])).await;
    let other = Submit { tags: vec!["c".to_owned()], ..first };
    assert_eq!(journal.submit(other).await.unwrap(), Submitted::Known(one), "with its own tags");
    let found = with("b", 0, 9).await;
    let [(_, number, tags), (second, ..)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((tags, *second), (&vec!["a\n\u{e4}".to_owned(), "b".to_owned(), long.clone()], two));
    assert_eq!(with("b", 0, 1).await[0].0, one);
    assert_eq!(with("b", *number, 9).await.len(), 1);
    for (tag, count) in [("a\n\u{e4}", 1), (&*long, 1), ("c", 0), ("a", 0), ("", 0)] {
        assert_eq!(with(tag, 0, 9).await.len(), count, "{tag:?}");
    }
    for (state, user, count) in [
        (FlowState::Running, "ann", 2),
        (FlowState::Ended, "ann", 0),
        (FlowState::Running, "bob", 0),
    ] {
        let (tag, user) = (Some("b".to_owned()), Some(user.to_owned()));
        let query = Query { state: Some(state), tag, user, limit: 9, ..Query::default() };
        assert_eq!(journal.list(query).await.unwrap().len(), count);
    }
    let many = vec!["x".to_owned(); TAGS + 1];
    for wrong in [many, vec![format!("{long}x")], vec!["\0".to_owned()]] {
        let refused = journal.submit(Submit { tags: wrong, ..tagged(&[]) }).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
    }
    Owned::of(journal, one).write(vec![completed()]).await.unwrap();
    for (state, tag, count) in
        [(None, None, 2), (None, Some("b"), 1), (Some(FlowState::Ended), None, 0)]
    {
        let tag = tag.map(str::to_owned);
        let query = Query { open: true, state, tag, limit: 9, ..Query::default() };
        assert_eq!(journal.list(query).await.unwrap().len(), count);
    }
    journal.remove(vec![one]).await.unwrap();
    assert_eq!(with("b", 0, 9).await.len(), 1, "the tags of the other one stay");
}

pub(super) async fn what_has_ended_is_removed_with_its_key(journal: &dyn Journal) {
    let node: Incarnation = node(journal).await;
    let owner = FirstOwner::Node(node);
    let ended = stored(journal, flow_of("ann", "a", "k", owner)).await;
    let open = stored(journal, flow_of("ann", "a", "l", owner)).await;
    journal.signal(ended, signal("s")).await.unwrap();
    let mut flow = Owned { seen: 1, ..Owned::of(journal, ended) };
    flow.write(vec![done("pay"), completed()]).await.unwrap();
    let open_in = Query { open: true, scope: Some("a".to_owned()), limit: 9, ..Query::default() };
    assert_eq!(journal.list(open_in).await.unwrap().len(), 1, "one has ended");
    journal.remove(vec![open, uid(), ended, ended]).await.unwrap();
    let gone = journal.load(ended).await.unwrap_err();
    assert!(matches!(gone, Error::Refused(Refused::NoFlow(_))), "{gone}");
    assert_eq!(listed(journal, Some("ann"), None).await, [open], "it has not ended");
    let repeated = Owned::of(journal, open).write(vec![done("pay")]).await;
    assert!(repeated.is_ok(), "it goes on: {repeated:?}");
    // the key is free again, and the other one is not
    let again = stored(journal, flow_of("ann", "a", "k", FirstOwner::Any)).await;
    let known = journal.submit(flow_of("ann", "a", "l", FirstOwner::Any)).await.unwrap();
    assert_eq!(known, Submitted::Known(open));
    assert!(journal.load(again).await.unwrap().inbox.signals.is_empty());
    journal.remove(Vec::new()).await.unwrap();
    let refused = journal.remove(vec![again; BATCH + 1]).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refused::TooLarge { .. })), "{refused}");
}
