//! The promise: locks tell who holds them, who waits and for how long, and what became of waits.

use std::time::Duration;

use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{KeyOwners, Limiter, Limits, LockOwner, Mutex, Throttle};
use asyncsteps_core::sync::{limiter, mutex, throttle};
use asyncsteps_core::{Error, Flow, sleep};

const MS: Duration = Duration::from_millis(1);

/// A flow that holds a mutex for so long.
fn hold(mutex: &Mutex, ms: u32) -> FlowHandle<()> {
    let mut flow = Flow::new();
    flow.sync(mutex, move |asi, ()| {
        let work = async move {
            sleep(MS * ms).await;
            Ok::<_, Error>(())
        };
        asi.await_(work).named("work");
    })
    .named("pay");
    start_flow(flow)
}

fn flows(owners: &KeyOwners) -> (Vec<u64>, Vec<u64>) {
    let number = |owner: LockOwner| owner.flow().map_or(0, |identity| identity.flow.number());
    let waiting = owners.waiting.iter().map(|waiting| number(waiting.owner));
    (owners.inside.iter().map(|owner| number(*owner)).collect(), waiting.collect())
}

#[actix::test]
async fn a_mutex_names_its_holder_and_its_waiters_in_their_order() {
    tokio::time::pause();
    let stock = Mutex::named("stock", mutex::Options::default());
    let apples = stock.key("apple");
    let started = [hold(&apples, 50), hold(&apples, 50), hold(&apples, 50)];
    tokio::time::sleep(MS * 20).await;
    let call = tokio::time::timeout(MS * 5, apples.lock());
    let (_, owners) = tokio::join!(call, async { apples.owners(10) });
    let (inside, waiting) = flows(&owners);
    assert_eq!((inside.len(), waiting.len()), (1, 3));
    assert_eq!(waiting[2], 0, "a call is no flow");
    assert!(inside[0] < waiting[0] && waiting[0] < waiting[1], "{inside:?} {waiting:?}");
    assert!(owners.waiting[0].waited >= MS * 20 && owners.waiting[2].waited < MS * 2);
    assert_eq!(apples.owners(1).waiting.len(), 1, "no more than were asked for");
    assert_eq!(stock.owners(10), KeyOwners::default(), "another key");
    for flow in started {
        flow.await.expect("it ends");
    }
    let report = stock.inspect();
    assert_eq!(report.limits, Some(Limits::Mutex(mutex::Options::default())));
    assert_eq!(
        (report.waits.waited.count(), report.waits.given_up, report.waits.rejected),
        (2, 1, 0)
    );
    assert!(report.waits.waited.sum >= MS * 150, "{:?}", report.waits.waited.sum);
}

#[actix::test]
async fn a_stack_has_the_locks_of_its_flow_and_who_has_the_one_that_it_waits_for() {
    tokio::time::pause();
    let stock = Mutex::named("stock", mutex::Options::default());
    let (holds, waits) = (hold(&stock, 50), hold(&stock, 50));
    tokio::time::sleep(MS * 20).await;
    let (holding, waiting) = (holds.stack(), waits.stack());
    let [held] = &*holding.holds else { panic!("one lock: {:?}", holding.holds) };
    assert_eq!((held.name, &*held.key, held.branch), ("stock", "", 0));
    assert_eq!(held.step.name(), Some("pay"));
    assert_eq!(waiting.holds, []);
    let wait = &waiting.waits[0];
    assert_eq!(wait.cause.as_str(), "mutex");
    let contention = wait.contention.as_ref().expect("a mutex tells");
    assert_eq!((contention.kind, contention.name), ("mutex", "stock"));
    assert_eq!((contention.all_holders, contention.ahead, contention.queued), (1, Some(0), 1));
    let LockOwner::Flow(holder) = stock.owners(1).inside[0] else { panic!("a flow holds it") };
    assert_eq!(contention.holders, [holder]);
}

#[actix::test]
async fn a_throttle_tells_its_entries_and_counts_those_that_wait_or_are_refused() {
    tokio::time::pause();
    let options = throttle::Options { max: 2, period: MS * 100, max_queue: Some(1) };
    let mails = Throttle::named("mails", options);
    let (entered, owners) = tokio::join!(
        async { tokio::join!(mails.enter(), mails.enter(), mails.enter(), mails.enter()) },
        async { (mails.owners(10), mails.key_report()) },
    );
    let results = [entered.0, entered.1, entered.2, entered.3].map(|entered| entered.is_ok());
    assert_eq!(results, [true, true, true, false]);
    let (owners, report) = owners;
    assert_eq!((owners.inside.len(), owners.waiting.len()), (0, 1));
    assert_eq!((report.entered, report.queued), (2, 1));
    let waits = mails.inspect().waits;
    assert_eq!((waits.waited.count(), waits.given_up, waits.rejected), (1, 0, 1));
}

#[actix::test]
async fn a_limiter_tells_of_its_mutex_and_its_throttle_together() {
    tokio::time::pause();
    let options = limiter::Options {
        concurrent: 2,
        max_queue: Some(1),
        rate: 1,
        period: MS * 100,
        burst: Some(1),
    };
    let client = Limiter::named("client", options);
    let visits = [(); 4].map(|()| async { client.lock().await.map(drop).is_ok() });
    let (entered, owners) =
        tokio::join!(futures_util::future::join_all(visits), async { client.owners(10) });
    // the first one has left when the others come: one of them waits for the next period
    assert_eq!(entered, [true, true, false, false]);
    assert_eq!((owners.inside.len(), owners.waiting.len()), (1, 1));
    let report = client.inspect();
    assert_eq!(report.limits, Some(Limits::Limiter(options)));
    assert_eq!((report.waits.waited.count(), report.waits.rejected), (1, 2));
}
