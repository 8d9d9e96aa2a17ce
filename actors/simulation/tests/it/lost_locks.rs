//! The promise of a durable step under a lock between machines: when the lock is lost while its body runs, what it did is
//! undone with the lock taken again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_cluster::{Config, Mutex as Lock};
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_journal::request::FlowState;
use asyncsteps_simulation::{Cluster, Faults, NodeContext, simulate};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

/// What is outside of the cluster.
#[derive(Default)]
struct World {
    /// The keys of what was reserved and not returned.
    reserved: Mutex<BTreeSet<String>>,
    completed: AtomicUsize,
    lost: AtomicUsize,
}

struct Shop {
    world: Arc<World>,
    shelf: Lock,
}

impl Service for Shop {
    type Errors = ();
}

fn order(steps: &Steps<Shop, ()>) -> Returns<()> {
    steps
        .run("reserve", async |cx, ()| {
            cx.world.reserved.lock().expect("no panic").insert(cx.key().to_owned());
            asyncsteps_core::sleep(SECOND).await;
            Ok(())
        })
        .locked(|cx| cx.shelf.clone())
        .recorded()
        .undo(async |cx, _| {
            cx.world.reserved.lock().expect("no panic").remove(cx.key());
            Ok(())
        })
        .returns()
}

/// A node that orders at itself.
async fn node(world: Arc<World>, node: NodeContext) -> impl Sized {
    let config = || Config { lease: 3 * SECOND, poll: SECOND, ..Config::default() };
    let locks = node.locks(config()).await.expect("nothing is wrong in the beginning");
    let durable = Durable::new(node.journal());
    let interface = Interface::new("demo.shop:1.0".parse().expect("a name"));
    let shop = Shop { world: Arc::clone(&world), shelf: locks.mutex("shelf") };
    let executor = Executor::builder().service(interface, shop, |functions| {
        _ = durable.on(functions, "order", order);
    });
    let executor = executor.build().expect("a right configuration");
    let runs = durable.start(&executor).await.expect("nothing is wrong in the beginning");
    let ann = User::new("ann", SecurityLevel::SafeOps);
    for _ in 0..20 {
        sleep(3 * SECOND).await;
        let options = Options::default().caller(&ann);
        let uid = durable.submit("demo.shop:1.0:order", (), options).await.expect("a journal");
        let (world, durable) = (Arc::clone(&world), durable.clone());
        actix_rt::spawn(async move {
            match durable.ended(uid).await {
                Ok(Ending::Completed(_)) => _ = world.completed.fetch_add(1, Ordering::Relaxed),
                // it does not declare the error, which its log has
                Ok(Ending::Failed(_)) => _ = world.lost.fetch_add(1, Ordering::Relaxed),
                other => panic!("{other:?}"),
            }
        });
    }
    (runs, executor, locks)
}

#[test]
fn what_a_step_did_is_undone_when_its_lock_is_lost() {
    let lost = AtomicUsize::new(0);
    simulate(0..6, |cluster: &mut Cluster| {
        let world = Arc::<World>::default();
        for name in ["one", "two"] {
            let world = Arc::clone(&world);
            cluster.node(name, async move |context| node(Arc::clone(&world), context).await);
        }
        cluster.run_for(SECOND);
        cluster.faults(Faults::none().stops(0.1));
        cluster.run_for(70 * SECOND);
        cluster.heal();
        cluster.run_for(60 * SECOND);
        lost.fetch_add(world.lost.load(Ordering::Relaxed), Ordering::Relaxed);
        let paused = cluster.requests(FlowState::Paused);
        if !paused.is_empty() {
            return Err(format!("{paused:#?}"));
        }
        let reserved = world.reserved.lock().expect("no panic").len();
        let completed = world.completed.load(Ordering::Relaxed);
        let ended = cluster.requests(FlowState::Ended).len();
        let is_right = reserved == completed && ended == 40;
        is_right
            .then_some(())
            .ok_or_else(|| format!("{ended} ended, {completed} well: {reserved} reserved"))
    });
    assert!(lost.into_inner() > 0, "no lock was lost");
}
