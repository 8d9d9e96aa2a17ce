//! Serving other nodes: subscriptions, and the guard that ends them.

use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_rt::ArbiterHandle;
use asyncsteps_actors::clock;
use asyncsteps_actors::drain::{Drain, Drained};
use asyncsteps_actors::watched::WatchedValue;
use asyncsteps_core::codes;
use asyncsteps_executor::Executor;
use asyncsteps_executor::observe::Protocol;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::connection::{NotSent, OWN_GROUP, Subscription};
use super::link::Link;
use super::micro::Services;
use super::node_server::{CANCELS_THAT_WAIT, NodeServer, ServePhase, WorkerHandle, ended};
use super::probe::probe_callers;
use super::ways::Ways;
use super::worker::NatsWorker;
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::serve_guard::{CANCEL_GRACE, ServeGuard, Serving};

/// The servers of this node, for questions of other nodes.
pub(super) type Members = Arc<Mutex<Vec<Weak<NodeServer>>>>;

/// The most minor versions of an interface; each is a subscription.
const MAX_MINOR: u32 = 255;

/// Visits what this node serves.
pub(super) fn each_member(members: &Members, mut visit: impl FnMut(&NodeServer)) {
    let mut members = members.lock();
    members.retain(|member| member.strong_count() > 0);
    members.iter().filter_map(Weak::upgrade).for_each(|member| visit(&member));
}

/// Begins to serve.
pub(super) async fn serve(
    link: &Arc<Link>,
    members: &Members,
    arbiters: Vec<ArbiterHandle>,
    endpoints: Vec<Endpoint>,
    executor: Executor,
) -> Result<ServeGuard, CallError> {
    check(&arbiters, &endpoints)?;
    let phase = Arc::new(WatchedValue::new(ServePhase::Serving));
    let traffic = executor.traffic();
    let workers = arbiters.iter().map(|arbiter| start_worker(arbiter, link, &executor, &phase));
    let server = Arc::new(NodeServer {
        link: Arc::clone(link),
        workers: workers.collect(),
        bytes: Arc::default(),
        cancels: Arc::new(Semaphore::new(CANCELS_THAT_WAIT)),
        ways: Ways::new(link.config.max_clock_difference),
        drain: Arc::default(),
        phase,
        endpoints,
        _connection: traffic.open(Protocol::Nats),
        traffic,
        executor,
        started: time_of_day(),
    });
    let mut serves = ServingExecutor { server, tasks: Vec::new() };
    if let Err(error) = serves.begin(link).await {
        ServeGuard::new(serves).give_up();
        return Err(error);
    }
    tokio::spawn(drain_at_close(serves.server.executor.clone(), Arc::clone(&serves.server.phase)));
    members.lock().push(Arc::downgrade(&serves.server));
    Ok(ServeGuard::new(serves))
}

fn check(arbiters: &[ArbiterHandle], endpoints: &[Endpoint]) -> Result<(), CallError> {
    let wrong = |info: String| Err(CallError::not_made(codes::INVOKER_ERROR, info));
    if arbiters.is_empty() {
        return wrong("requests run on actix arbiters, and there is none here".to_owned());
    }
    let many = endpoints.iter().find(|it| it.interface().version().minor > MAX_MINOR);
    many.map_or(Ok(()), |endpoint| {
        wrong(format!("{} has more than {MAX_MINOR} minor versions", endpoint.interface()))
    })
}

/// Now, as RFC 3339 has it.
fn time_of_day() -> String {
    let now = OffsetDateTime::from(clock::wall());
    // a year that has more than four digits cannot be written
    now.format(&Rfc3339).unwrap_or_default()
}

fn not_told() -> CallError {
    CallError::connect("the NATS server cannot be reached")
}

fn start_worker(
    arbiter: &ArbiterHandle,
    link: &Arc<Link>,
    executor: &Executor,
    phase: &Arc<WatchedValue<ServePhase>>,
) -> WorkerHandle {
    let (orders, taken) = mpsc::unbounded_channel();
    let (link, executor, phase) = (Arc::clone(link), executor.clone(), Arc::clone(phase));
    // false for an arbiter that is gone: then the orders come back
    let _: bool = arbiter.spawn_fn(move || {
        let worker = Rc::new(NatsWorker::new(link, executor));
        let probes = actix_rt::spawn(probe_callers(Rc::clone(&worker)));
        actix_rt::spawn(async move {
            worker.run(taken, phase).await;
            probes.abort();
        });
    });
    WorkerHandle { orders, load: Arc::new(AtomicUsize::new(0)) }
}

/// Calls of any node in the queue group, and calls of this node in its own.
async fn subscribe(
    link: &Link,
    endpoints: &[Endpoint],
) -> Result<Vec<Box<dyn Subscription>>, NotSent> {
    let mut subscriptions = Vec::new();
    for (endpoint, node) in endpoints.iter().flat_map(|it| [(it, None), (it, Some(&link.node))]) {
        for subject in link.subjects.served(endpoint.interface(), node) {
            let group = node.map_or(&*link.config.queue_group, |_| OWN_GROUP).to_owned();
            subscriptions.push(link.subscribe(subject, Some(group)).await?);
        }
    }
    Ok(subscriptions)
}

/// An executor that closes takes no more requests from here.
async fn drain_at_close(executor: Executor, phase: Arc<WatchedValue<ServePhase>>) {
    tokio::select! {
        biased;
        () = executor.closing() => phase.change(|phase| {
            if *phase == ServePhase::Serving {
                *phase = ServePhase::Draining;
            }
        }),
        () = ended(&phase) => {}
    }
}

/// An executor that serves, until this is dropped.
struct ServingExecutor {
    server: Arc<NodeServer>,
    /// One for each subscription.
    tasks: Vec<JoinHandle<()>>,
}

impl ServingExecutor {
    /// Subscribes, and returns when the server has taken that. Requests may come before.
    async fn begin(&mut self, link: &Link) -> Result<(), CallError> {
        let server = &self.server;
        for requests in subscribe(link, &server.endpoints).await.map_err(|_| not_told())? {
            let taken = Arc::clone(server).take_requests(requests);
            self.tasks.push(tokio::spawn(tokio::task::unconstrained(taken)));
        }
        let services = Services::new(server);
        for questions in services.subscribe(link).await.map_err(|_| not_told())? {
            tokio::spawn(services.clone().answer(Arc::downgrade(server), questions));
        }
        link.settle().await
    }
}

impl Serving for ServingExecutor {
    fn drain(mut self: Box<Self>, grace: Duration) -> BoxFuture<'static, Drained> {
        Box::pin(async move {
            let ends = tokio::time::Instant::now() + grace;
            self.server.phase.change(|phase| *phase = ServePhase::Draining);
            for task in self.tasks.drain(..) {
                // it only ends early if the runtime does
                let _ = task.await;
            }
            let drain: &Arc<Drain> = &self.server.drain;
            drain.close();
            if tokio::time::timeout_at(ends, drain.idle()).await.is_err() {
                self.server.phase.change(|phase| *phase = ServePhase::Ended);
                // an arbiter that is stuck is not waited for
                let _ = tokio::time::timeout(CANCEL_GRACE, drain.idle()).await;
            }
            // the answers are on their way when this returns
            let _ = self.server.link.settle().await;
            self.server.drain.ended()
        })
    }
}

impl Drop for ServingExecutor {
    fn drop(&mut self) {
        self.server.phase.change(|phase| *phase = ServePhase::Ended);
    }
}
