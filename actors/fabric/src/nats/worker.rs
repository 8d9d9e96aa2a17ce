//! Requests of other nodes on one arbiter.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use async_nats::Subject;
use asyncsteps_actors::clock;
use asyncsteps_actors::watched::WatchedValue;
use asyncsteps_core::{Time, codes};
use asyncsteps_executor::Executor;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Coding, Response};
use asyncsteps_executor::observe::Traffic;
use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::calls::is_of_node;
use super::link::Link;
use super::node_server::{AdmittedRequest, ServePhase, WorkerOrder, ended};
use super::request::{answer, carry_out, too_late};
use super::wanted::is_wanted;

/// Carries out requests on its arbiter.
pub(super) struct NatsWorker {
    pub(super) link: Arc<Link>,
    executor: Executor,
    traffic: Traffic,
    running: RefCell<BTreeMap<Rc<str>, RunningRequest>>,
}

/// A request that did not end in its first turn.
struct RunningRequest {
    since: Time,
    task: AbortHandle,
}

impl NatsWorker {
    pub(super) fn new(link: Arc<Link>, executor: Executor) -> Self {
        // other threads can send calls to this arbiter from now on
        let _ = executor.address();
        let traffic = executor.traffic();
        Self { link, executor, traffic, running: RefCell::default() }
    }

    /// Carries out orders until serving ends; then it cancels the rest.
    pub(super) async fn run(
        self: Rc<Self>,
        mut orders: mpsc::UnboundedReceiver<WorkerOrder>,
        phase: Arc<WatchedValue<ServePhase>>,
    ) {
        let mut ended = std::pin::pin!(ended(&phase));
        loop {
            tokio::select! {
                biased;
                () = &mut ended => break,
                order = orders.recv() => match order {
                    Some(WorkerOrder::CarryOut(admitted)) => self.begin(admitted),
                    Some(WorkerOrder::Cancel { reply, .. }) => self.end_cancelled(&reply),
                    None => break,
                },
            }
        }
        self.end(orders).await;
    }

    /// Begins a request. One that does not wait has ended when this returns.
    fn begin(self: &Rc<Self>, admitted: AdmittedRequest) {
        let Some(reply) = admitted.message.reply.clone() else { return };
        if self.running.borrow().contains_key(reply.as_str()) {
            // its answer would be taken for the answer of the running request
            self.executor.count_unanswerable(&Channel::new(ChannelKind::Node));
            return;
        }
        let (worker, to) = (Rc::clone(self), reply.clone());
        let mut request: Pin<Box<_>> = Box::pin(async move {
            let AdmittedRequest { message, deadline, is_late, mut entered, _load } = admitted;
            let Self { link, executor, traffic, .. } = &*worker;
            // in a box, because most requests need no room for it
            if !is_late || Box::pin(is_wanted(link, &to)).await {
                carry_out(link, executor, traffic, message, to, deadline).await;
            } else {
                let (bytes, error) = too_late(None, Coding::Json);
                answer(link, traffic, to, bytes, error.as_deref()).await;
            }
            entered.finish();
        });
        if request.as_mut().now_or_never().is_some() {
            return;
        }
        let reply: Rc<str> = reply.as_str().into();
        let entry = RunningEntry { worker: Rc::clone(self), reply: Rc::clone(&reply) };
        let task = actix_rt::spawn(async move {
            let _entry = entry;
            request.await;
        });
        let running = RunningRequest { since: clock::now(), task: task.abort_handle() };
        self.running.borrow_mut().insert(reply, running);
    }

    /// Cancels the request with this reply subject, if it is here, and answers it: another client than its caller may
    /// have asked for the cancel.
    fn end_cancelled(self: &Rc<Self>, reply: &str) {
        let running = self.running.borrow_mut().remove(reply);
        if let Some(RunningRequest { task, .. }) = running {
            task.abort();
            let (worker, reply) = (Rc::clone(self), Subject::from(reply));
            actix_rt::spawn(async move { worker.answer_cancelled(reply).await });
        }
    }

    /// Cancels the request with this reply subject, if it is here; its caller is known to be gone.
    pub(super) fn cancel(&self, reply: &str) {
        if let Some(running) = self.running.borrow().get(reply) {
            running.task.abort();
        }
    }

    /// The reply subjects of the requests of nodes that began before.
    pub(super) fn begun_before(&self, time: Time) -> Vec<Rc<str>> {
        let running = self.running.borrow();
        // other programs do not know probes
        let begun =
            running.iter().filter(|(reply, running)| is_of_node(reply) && running.since <= time);
        begun.map(|(reply, _)| Rc::clone(reply)).collect()
    }

    /// Cancels and answers the remaining requests.
    async fn end(&self, mut orders: mpsc::UnboundedReceiver<WorkerOrder>) {
        let running = std::mem::take(&mut *self.running.borrow_mut());
        let mut left = Vec::with_capacity(running.len());
        for (reply, running) in running {
            running.task.abort();
            left.push(Subject::from(&*reply));
        }
        orders.close();
        while let Some(order) = orders.recv().await {
            if let WorkerOrder::CarryOut(AdmittedRequest { message, .. }) = order {
                left.extend(message.reply);
            }
        }
        for reply in left {
            self.answer_cancelled(reply).await;
        }
    }

    async fn answer_cancelled(&self, reply: Subject) {
        let response = Response::error(codes::INTERNAL_ERROR, Some("Request was cancelled"));
        let mut bytes = Vec::with_capacity(64);
        response.write(Coding::Json, None, &mut bytes);
        answer(&self.link, &self.traffic, reply, bytes.into(), response.code()).await;
    }
}

/// A request among the running ones.
struct RunningEntry {
    worker: Rc<NatsWorker>,
    reply: Rc<str>,
}

impl Drop for RunningEntry {
    fn drop(&mut self) {
        let mut running = self.worker.running.borrow_mut();
        // the entry may belong to a later request with the same reply subject
        if running.get_key_value(&self.reply).is_some_and(|(of, _)| Rc::ptr_eq(of, &self.reply)) {
            running.remove(&self.reply);
        }
    }
}
