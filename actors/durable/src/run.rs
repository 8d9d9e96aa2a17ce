//! Carries a flow out: loads it, lets the executor run its function, and records how it ended.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::codes;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::{Request, Response};
use asyncsteps_executor::{Executor, Incoming, Reply};
use asyncsteps_journal::limits::TEXT_BYTES;
use asyncsteps_journal::record::{Ended, Ending, Failure, Started};
use asyncsteps_journal::request::{Disposition, Loaded};
use asyncsteps_journal::{Event, POLL, Path, Record, Repeat, Value};
use serde_json::Map;

use crate::caller;
use crate::cancels::CANCELLED;
use crate::flow::DurableFlow;
use crate::flow_recorder::FlowRecorder;
use crate::life::{LeaveReason, Life};
use crate::owned::Taken;
use crate::records::{cut, failure_of, started};
use crate::response::response;
use crate::shared::{DurableFunction, DurableShared};
use crate::suspects::{FlowBodies, Suspects};
use crate::turn::{ScheduleTurn, wake_next};
use crate::writer::{AppendAnswer, Stopped};

/// A flow that a node received, with all that it takes to run it.
pub(crate) struct FlowRun<'a> {
    pub(crate) shared: &'a Arc<DurableShared>,
    pub(crate) executor: &'a Executor,
    /// The number of the node in this process.
    pub(crate) node: u64,
    pub(crate) suspects: &'a Rc<Suspects>,
    pub(crate) taken: &'a Taken,
}

/// A flow that is ready to run.
pub(crate) struct ReadyFlow {
    pub(crate) flow: Rc<DurableFlow>,
    incoming: Incoming,
    /// Nothing is recorded of it but that it was submitted.
    is_new: bool,
}

/// The codes of a request that is wrong by itself: it would be refused again.
pub(crate) const WRONG: [&str; 4] =
    [codes::INVALID_REQUEST, codes::UNAUTHORIZED, codes::SECURITY_ERROR, codes::PLEASE_REAUTH];

impl FlowRun<'_> {
    /// Prepares the flow; `None` if it cannot be run here, which is logged.
    pub(crate) async fn load(&self) -> Option<ReadyFlow> {
        let loaded = self.loaded().await?;
        let Some(started) = started(&loaded) else {
            self.pause("the first record is missing".to_owned()).await;
            return None;
        };
        if let Some(function) = self.shared.message_function(&started.template) {
            self.deliver(function.function, started, &loaded).await;
            return None;
        }
        let Some(program) = self.shared.program(&started.template) else {
            self.pause(format!("there is no function {}", started.template)).await;
            return None;
        };
        let (name, seen) = (program.template.as_str().into(), loaded.inbox.last);
        let held = (&self.shared.held, self.node, name);
        let owned = self.taken.clone().own(held, program.version, (&loaded, seen));
        owned.writer.is_awaited.set(self.shared.waiters.has(owned.uid()));
        let root = Path::template(&program.template);
        let has_died = self.taken.claimed.deaths > 0;
        let bodies = FlowBodies::new(has_died, Rc::clone(self.suspects));
        let owned = (owned, Arc::clone(self.shared));
        let flow = DurableFlow::new((&loaded, root), owned, bodies);
        flow.take_settled();
        let compared = flow.replay.borrow().compare((&flow.root, started), &program.planned);
        match compared.and_then(|()| incoming(started, &program, &flow)) {
            Ok(incoming) => Some(ReadyFlow { flow, incoming, is_new: loaded.records.len() == 1 }),
            Err(reason) => {
                flow.leave(LeaveReason::Paused(reason));
                self.give_up(&flow).await;
                None
            }
        }
    }

    /// The flow as the journal has it.
    async fn loaded(&self) -> Option<Loaded> {
        match self.taken.load().await {
            Ok(loaded) => return Some(loaded),
            Err(error) if error.repeat() == Repeat::Never => self.pause(error.to_string()).await,
            Err(error) => {
                tracing::error!(flow = %self.taken.claimed.uid, %error, "the flow cannot be loaded");
            }
        }
        None
    }

    /// Leaves a flow that cannot be read to an operator.
    async fn pause(&self, reason: String) {
        let uid = self.taken.claimed.uid;
        tracing::error!(flow = %uid, reason, "the flow waits for an operator");
        self.taken.pause(&reason).await;
        self.shared.tell_ended(uid);
    }

    /// Runs the flow to its end, or until this node leaves it.
    pub(crate) async fn run(&self, ReadyFlow { flow, incoming, is_new }: ReadyFlow) {
        let flow = &flow;
        let schedule = flow.schedule.as_deref().filter(|_| is_new && !flow.is_cancelled());
        if let Some(schedule) = schedule
            && !self.comes_to_its_turn(flow, schedule).await
        {
            return;
        }
        let reply = tokio::select! {
            biased;
            _ = flow.left() => None,
            stopped = flow.owned.writer.stopped() => {
                flow.leave(stopped.into());
                None
            }
            () = read_news(flow) => None,
            () = self.drained(flow) => {
                flow.leave(LeaveReason::Released);
                None
            }
            left = flow.can_be_parked() => {
                flow.leave(LeaveReason::Parked(left));
                None
            }
            reply = self.executor.dispatch(incoming) => Some(reply),
        };
        // it may have come to its end and been left in one turn
        match reply.filter(|_| !flow.is_left()) {
            Some(reply) if matches!(*flow.life(), Life::Finished) => match ending(flow, reply) {
                Ending::Completed(_) if flow.is_cancelled() => {
                    // the cancel was answered before the end: the flow runs once more, and is undone
                    flow.leave(LeaveReason::Released);
                    self.give_up(flow).await;
                }
                ending @ (Ending::Completed(_) | Ending::Failed(_) | Ending::Cancelled | _) => {
                    self.end(flow, ending).await;
                }
            },
            Some(reply) => match response(reply) {
                Some(response)
                    if !self.executor.is_closing() && matches!(*flow.life(), Life::New) =>
                {
                    self.refused(flow, response, is_new).await;
                }
                // a shutdown has cancelled it
                _ => {
                    flow.leave(LeaveReason::Released);
                    self.give_up(flow).await;
                }
            },
            None => self.give_up(flow).await,
        }
    }

    /// Whether a request of a schedule begins now; otherwise it is skipped, or put aside.
    async fn comes_to_its_turn(&self, flow: &Rc<DurableFlow>, schedule: &str) -> bool {
        let turn = tokio::select! {
            biased;
            _ = flow.left() => return true,
            turn = ScheduleTurn::of(self.shared, flow, schedule) => turn,
        };
        let within = match turn {
            Ok(ScheduleTurn::Begins) => return true,
            Ok(ScheduleTurn::Skipped(reason)) => {
                tracing::info!(flow = %flow.owned.uid(), schedule, reason, "a request is skipped");
                self.end(flow, ScheduleTurn::skipped(reason)).await;
                return false;
            }
            Ok(ScheduleTurn::Waits(within)) => within,
            Err(error) => {
                tracing::warn!(flow = %flow.owned.uid(), %error, "the schedule cannot be read");
                POLL
            }
        };
        flow.leave(LeaveReason::Parked(Some(within)));
        self.give_up(flow).await;
        false
    }

    /// Completes when the executor closes and the flow waits: it is not waited for, the next owner goes on with it.
    async fn drained(&self, flow: &DurableFlow) {
        self.executor.closing().await;
        flow.activity.without_effect().await;
    }

    /// The executor did not run the function.
    async fn refused(&self, flow: &Rc<DurableFlow>, response: Response, is_new: bool) {
        match response.code() {
            // it is busy: later
            Some(codes::DEFENSE_REJECTED | codes::CONNECT_ERROR | codes::COMM_ERROR) => {
                flow.leave(LeaveReason::Released);
                flow.owned
                    .writer
                    .append_last(|entry| entry.then = Disposition::Park(Some(POLL)))
                    .await;
            }
            // nothing was done: the caller is notified, and no operator
            Some(code) if is_new && WRONG.contains(&code) => {
                self.end(flow, ending_of(Some(response))).await;
            }
            _ => {
                flow.leave(LeaveReason::Paused(refusal(&response)));
                self.give_up(flow).await;
            }
        }
    }

    /// Records how the flow ended, and notifies those who wait for it. Each effect that it has begun is done or undone
    /// then: a flow with another one waits for an operator.
    async fn end(&self, flow: &Rc<DurableFlow>, ending: Ending) {
        let unfinished = flow.replay.borrow().unfinished(&ending);
        if let Some((path, reason)) = unfinished {
            // an executor that closes may have cut the undo: the next owner goes on with it
            let is_closing = self.executor.is_closing();
            flow.leave(if is_closing {
                LeaveReason::Released
            } else {
                flow.not_undone(&path, reason)
            });
            return self.give_up(flow).await;
        }
        let ended = Record::new(flow.root.clone(), Event::Ended(Ended { ending }));
        match flow.owned.writer.append_last(|entry| entry.records = vec![ended]).await.0 {
            AppendAnswer::Written(_) => {
                self.shared.tell_ended(flow.owned.uid());
                if let Some(parent) = flow.parent {
                    flow.wake(parent).await;
                }
                wake_next(flow).await;
            }
            AppendAnswer::Unseen => {
                // a cancel came first: the flow runs once more, and is undone
                flow.leave(LeaveReason::Released);
                self.give_up(flow).await;
            }
            AppendAnswer::Stopped(stopped) => {
                flow.leave(stopped.into());
                self.give_up(flow).await;
            }
        }
    }

    /// Gives up a flow that this node has left.
    async fn give_up(&self, flow: &Rc<DurableFlow>) {
        let then = match flow.left().await {
            LeaveReason::Lost => {
                tracing::warn!(flow = %flow.owned.uid(), "another node has the flow");
                return;
            }
            LeaveReason::Released => Disposition::Release,
            LeaveReason::Parked(left) => Disposition::Park(left),
            LeaveReason::Refused(within, reason) => {
                tracing::warn!(flow = %flow.owned.uid(), reason, ?within, "the flow waits, and tries again");
                Disposition::Retry { within, reason: cut(&reason, TEXT_BYTES) }
            }
            LeaveReason::Paused(reason) => {
                tracing::error!(flow = %flow.owned.uid(), reason, "the flow waits for an operator");
                Disposition::Pause(cut(&reason, TEXT_BYTES))
            }
        };
        let is_paused = matches!(then, Disposition::Pause(_));
        let last = then.clone();
        let append = flow.owned.writer.append_last(|entry| {
            entry.then = last;
            entry.takes.extend(flow.signals.wake.take());
            if is_paused {
                entry.takes.extend(flow.signals.pauses.take());
            }
        });
        let (answer, _) = append.await;
        if matches!(answer, AppendAnswer::Stopped(Stopped::Refused(_))) {
            // the journal does not take records that wait
            self.taken.give_back(then).await;
        }
        if is_paused || self.executor.is_closing() {
            // its callers wait neither for an operator nor for the next start
            self.shared.tell_ended(flow.owned.uid());
        }
    }
}

/// Reads what others send to the flow, as long as it runs.
async fn read_news(flow: &Rc<DurableFlow>) {
    loop {
        flow.owned.writer.news().await;
        match flow.owned.writer.journal().inbox(flow.owned.uid()).await {
            Ok(inbox) => flow.see(&inbox),
            Err(error) => {
                tracing::warn!(flow = %flow.owned.uid(), %error, "the inbox cannot be read");
                flow.owned.writer.pause().await;
            }
        }
    }
}

/// The request of a flow.
pub(crate) fn incoming(
    started: &Started,
    program: &DurableFunction,
    flow: &Rc<DurableFlow>,
) -> Result<Incoming, String> {
    let unreadable = |error| format!("the parameters cannot be read: {error}");
    let params: Map<_, _> = started.parameters.decode().map_err(unreadable)?;
    let caller = caller::read(started.user.as_deref())?;
    let memory = Rc::new(FlowRecorder(Rc::clone(flow)));
    Ok(Incoming::new(Request::new(&program.function, params), Channel::local())
        .with_caller(caller)
        .with_recorded_trace(started.trace.as_deref())
        .with_memory(Arc::clone(&flow.id), memory))
}

pub(crate) fn refusal(response: &Response) -> String {
    match response.clone().into_result() {
        Ok(_) => "the function did not run".to_owned(),
        Err(error) => {
            let text = error.description.unwrap_or_default();
            format!("the executor refused the request: {}: {text}", error.code)
        }
    }
}

/// How a flow ended, by the answer of its function.
fn ending(flow: &DurableFlow, reply: Reply) -> Ending {
    let response = response(reply);
    // whatever the error is for callers of a function that does not throw it
    let is_error = response.as_ref().is_some_and(|response| response.code().is_some());
    match flow.interruption().filter(|_| is_error) {
        Some(error) if error.code() == CANCELLED => Ending::Cancelled,
        Some(error) => Ending::Failed(failure_of(&error)),
        None => ending_of(response),
    }
}

/// How a flow ended with this response; one without has the result null.
pub(crate) fn ending_of(response: Option<Response>) -> Ending {
    match response.map_or(Ok(serde_json::Value::Null), Response::into_result) {
        Ok(result) => match Value::encode_json(&result) {
            Ok(value) => Ending::Completed(value),
            Err(error) => Ending::Failed(Failure {
                code: codes::INTERNAL_ERROR.to_owned(),
                text: Some(format!("the result cannot be stored: {error}")),
            }),
        },
        Err(error) => Ending::Failed(Failure {
            code: cut(&error.code, TEXT_BYTES),
            text: error.description.map(|text| cut(&text, TEXT_BYTES)),
        }),
    }
}
