//! The thread of a node: one of them runs at a time.

use std::any::Any;
use std::future::pending;
use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use actix_rt::task::JoinHandle;
use actix_rt::{System, SystemRunner};
use asyncsteps_actors::clock;
use asyncsteps_core::sim::seed_thread;
use tokio::runtime;

use crate::context::NodeContext;
use crate::processor::Processor;

/// Starts a node; its result is dropped when the node is killed.
pub(crate) type Start = Arc<dyn Fn(NodeContext) -> Starting + Send + Sync>;

pub(crate) type Starting = Pin<Box<dyn Future<Output = Box<dyn Any>>>>;

/// A node that runs. Dropping it kills the node.
pub(crate) struct NodeMachine {
    orders: Option<Sender<MachineOrder>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The data with which a node begins.
pub(crate) struct Birth {
    pub(crate) start: Start,
    pub(crate) context: NodeContext,
    pub(crate) seed: u64,
    pub(crate) wall: SystemTime,
    pub(crate) processor: Processor,
}

enum MachineOrder {
    /// Run, and hand the turn on.
    Turn(Turns),
    /// Find that so long has passed.
    Skip(Duration),
    /// The time of day is this from now on.
    SetWall(SystemTime),
}

/// The turns of several nodes: in each round, each runs for as long as the others. A node that has had its turn wakes the
/// next one, without the thread of the cluster, because a switch of threads is most of what a turn costs.
struct Turns {
    rounds: Arc<[Duration]>,
    nodes: Arc<[Sender<MachineOrder>]>,
    taken: usize,
    done: Sender<()>,
}

impl Turns {
    fn length(&self) -> Duration {
        self.rounds[self.taken / self.nodes.len()]
    }

    /// The next node has its turn. If it has panicked, its channel is closed, and so is the one for the report then.
    fn pass(mut self) {
        self.taken += 1;
        if self.taken == self.rounds.len() * self.nodes.len() {
            let _ = self.done.send(());
        } else {
            let next = self.nodes[self.taken % self.nodes.len()].clone();
            let _ = next.send(MachineOrder::Turn(self));
        }
    }
}

/// The machines run, one after the other in each round, and this waits until all rounds are done.
///
/// # Panics
/// With the panic of a node.
pub(crate) fn take_turns(machines: &mut [&mut NodeMachine], rounds: Vec<Duration>) {
    let nodes: Arc<[_]> = machines.iter().filter_map(|machine| machine.orders.clone()).collect();
    let Some(first) = nodes.first().cloned() else { return };
    let (done, all_done) = channel();
    let turns = Turns { rounds: rounds.into(), nodes, taken: 0, done };
    let is_sent = !turns.rounds.is_empty() && first.send(MachineOrder::Turn(turns)).is_ok();
    // a thread ends when nothing can send it an order
    drop(first);
    if !(is_sent && all_done.recv().is_ok()) {
        for machine in machines.iter_mut() {
            machine.join();
        }
        panic!("a node has ended");
    }
}

impl NodeMachine {
    /// A node that starts in its first turn.
    pub(crate) fn new(birth: Birth) -> Self {
        let (orders, todo) = channel();
        let thread = thread::Builder::new().name(birth.context.name.clone());
        let thread = thread.spawn(move || run(birth, &todo));
        let thread = thread.unwrap_or_else(|error| panic!("no thread for a node: {error}"));
        Self { orders: Some(orders), thread: Some(thread) }
    }

    /// The node stood still for so long.
    pub(crate) fn skip(&self, time: Duration) {
        self.order(MachineOrder::Skip(time));
    }

    pub(crate) fn set_wall(&self, wall: SystemTime) {
        self.order(MachineOrder::SetWall(wall));
    }

    /// Sends the node an order to carry out before its next turn, which shows whether it still
    /// lives.
    fn order(&self, order: MachineOrder) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
    }

    /// Ends the thread; a panic of it is one of the caller.
    fn join(&mut self) {
        self.orders = None;
        let panicked = self.thread.take().map(thread::JoinHandle::join);
        if let Some(Err(panic)) = panicked
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

impl Drop for NodeMachine {
    fn drop(&mut self) {
        self.join();
    }
}

fn run(birth: Birth, todo: &Receiver<MachineOrder>) {
    // nothing runs before its first turn
    let Ok(mut order) = todo.recv() else { return };
    birth.processor.keep_thread();
    seed_thread(birth.seed);
    let runner = system();
    let starting = (birth.start)(birth.context);
    #[expect(clippy::async_yields_async, reason = "the node goes on when its start is left")]
    let node = runner.block_on(async {
        clock::simulate_wall(birth.wall);
        actix_rt::spawn(async move {
            let _kept = starting.await;
            pending::<()>().await;
        })
    });
    // tasks run in turns alone: what comes before is found then
    let (mut skipped, mut new_wall) = (Duration::ZERO, None);
    loop {
        match order {
            MachineOrder::Turn(turns) => {
                let (skipped, new_wall) = (mem::take(&mut skipped), new_wall.take());
                runner.block_on(async {
                    if !skipped.is_zero() {
                        tokio::time::advance(skipped).await;
                    }
                    if let Some(wall) = new_wall {
                        clock::simulate_wall(wall);
                    }
                    tokio::time::sleep(turns.length()).await;
                });
                // it ends by a panic alone
                if node.is_finished() {
                    break;
                }
                turns.pass();
            }
            MachineOrder::Skip(time) => skipped += time,
            MachineOrder::SetWall(wall) => new_wall = Some(wall),
        }
        match todo.recv() {
            Ok(next) => order = next,
            Err(_) => return,
        }
    }
    fail(&runner, node);
}

/// Panics as the node did.
fn fail(runner: &SystemRunner, node: JoinHandle<()>) {
    if let Err(error) = runner.block_on(node)
        && let Ok(panic) = error.try_into_panic()
    {
        resume_unwind(panic);
    }
}

fn system() -> SystemRunner {
    System::with_tokio_rt(|| {
        let mut builder = runtime::Builder::new_current_thread();
        match builder.enable_time().start_paused(true).build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("no runtime for a node: {error}"),
        }
    })
}
