//! The thread of a node: it runs while the cluster waits for it, and only then.

use std::any::Any;
use std::future::pending;
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

/// Starts a node; what it returns is dropped when the node is killed.
pub(crate) type Start = Arc<dyn Fn(NodeContext) -> Starting + Send + Sync>;

pub(crate) type Starting = Pin<Box<dyn Future<Output = Box<dyn Any>>>>;

/// A node that runs. Dropping it kills the node.
pub(crate) struct Machine {
    orders: Option<Sender<Order>>,
    done: Receiver<()>,
    thread: Option<thread::JoinHandle<()>>,
}

enum Order {
    /// Run for so long.
    Run(Duration),
    /// Find that so long has passed.
    Skip(Duration),
    /// The time of day is this from now on.
    SetWall(SystemTime),
}

impl Machine {
    /// Starts a node at this time of day.
    pub(crate) fn start(start: &Start, context: NodeContext, seed: u64, wall: SystemTime) -> Self {
        let (orders, todo) = channel();
        let (report, done) = channel();
        let (start, name) = (Arc::clone(start), context.name.clone());
        let body = move || run(&start, context, (seed, wall), &todo, &report);
        let thread = thread::Builder::new().name(name).spawn(body);
        let thread = thread.unwrap_or_else(|error| panic!("no thread for a node: {error}"));
        Self { orders: Some(orders), done, thread: Some(thread) }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.order(Order::Run(time));
    }

    /// The node stood still for so long.
    pub(crate) fn skip(&mut self, time: Duration) {
        self.order(Order::Skip(time));
    }

    pub(crate) fn set_wall(&mut self, wall: SystemTime) {
        self.order(Order::SetWall(wall));
    }

    /// Has the node do something, and waits until it has.
    fn order(&mut self, order: Order) {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        if !(sent && self.done.recv().is_ok()) {
            self.join();
            panic!("a node has ended");
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

impl Drop for Machine {
    fn drop(&mut self) {
        self.join();
    }
}

fn run(
    start: &Start,
    context: NodeContext,
    (seed, wall): (u64, SystemTime),
    todo: &Receiver<Order>,
    report: &Sender<()>,
) {
    seed_thread(seed);
    let runner = system();
    let starting = start(context);
    let mut node = None;
    runner.block_on(async {
        clock::simulate_wall(wall);
        node = Some(actix_rt::spawn(async move {
            let _kept = starting.await;
            pending::<()>().await;
        }));
    });
    // it ends by a panic alone
    let has_ended = || node.as_ref().is_none_or(JoinHandle::is_finished);
    while let Ok(order) = todo.recv() {
        match order {
            Order::Run(time) => runner.block_on(async { tokio::time::sleep(time).await }),
            Order::Skip(time) => runner.block_on(async { tokio::time::advance(time).await }),
            Order::SetWall(wall) => runner.block_on(async { clock::simulate_wall(wall) }),
        }
        if has_ended() {
            break;
        }
        if report.send(()).is_err() {
            return;
        }
    }
    if let Some(node) = node.filter(JoinHandle::is_finished)
        && let Err(error) = runner.block_on(node)
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
