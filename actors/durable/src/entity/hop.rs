//! A call of an entity that another arbiter of this process has.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_actors::sync::{Call, FencingToken};
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_core::{AsyncSteps, Error, StepResult, codes};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::{Caller, Executor, Incoming, RequestSteps};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::headers::{CallHeaders, CarriedMessage, MessageEnd, message_ends};
use crate::response::response;
use crate::shared::LocalNode;

/// The code of a call that finds its entity elsewhere. No caller sees it: the call goes there.
pub(super) const MOVED: &str = "asyncsteps:EntityMoved";

/// A call of an entity, as it goes to another arbiter.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) function: FunctionName,
    pub(super) params: Map<String, Value>,
    pub(super) caller: Caller,
    pub(super) key: Option<String>,
    pub(super) message: Option<CarriedMessage>,
    pub(super) fences: Vec<FencingToken>,
    pub(super) trace: Option<TraceParent>,
    /// When it ends, on any arbiter.
    pub(super) ends: Option<Instant>,
    /// The wait of the flow that sends it.
    pub(super) call: Option<Arc<Call>>,
}

/// The same, for the arbiter that has its entity.
#[derive(Debug)]
pub(super) struct HoppingCall(Option<(Hop, oneshot::Sender<HopAnswer>)>);

/// The answer to it, and how the message ended that it carried out.
type HopAnswer = (Result<Value, Error>, Option<MessageEnd>);

impl HoppingCall {
    /// Adds the steps that send a call to the node of its entity, and take its answer as the result of the request. One
    /// that may be made again goes to the next owner if the node is lost.
    pub(super) fn add(asi: &mut AsyncSteps, (hop, is_known): (Hop, bool), node: &LocalNode) {
        let (answer, answered) = oneshot::channel();
        let call = Self(Some((hop, answer)));
        node.work(move |executor| call.carry_out(executor));
        asi.await_(async move {
            let lost = |_| lost(is_known, "before it answered");
            answered.await.map_err(lost).map(|answer| (answer,))
        })
        .named("entity");
        asi.add(|asi, ((result, end),): (HopAnswer,)| -> StepResult {
            message_ends(asi, end)?;
            let result = result?;
            if result.is_null() { Ok(()) } else { asi.reply(result) }
        });
    }

    /// Carries the call out on this arbiter, unless its caller leaves.
    fn carry_out(mut self, executor: &Executor) {
        let Some((hop, mut answer)) = self.0.take() else { return };
        let Hop { function, params, caller, key, message, fences, trace, ends, call } = hop;
        let executor = executor.clone();
        actix_rt::spawn(async move {
            let request = Request::to(function, params);
            let headers = Rc::new(CallHeaders::new(key, message));
            let mut incoming = Incoming::new(request, Channel::local())
                .with_caller(caller)
                .with_fences(fences)
                .with_trace(trace)
                .with_call(call)
                .inside()
                .with_headers(Rc::<CallHeaders>::clone(&headers));
            if let Some(ends) = ends.map(clock::time) {
                if ends <= clock::now() {
                    let info = "the time ended while the arbiter of the entity was blocked";
                    let late = Error::with_info(codes::DEFENSE_REJECTED, info);
                    // its caller has left or is just leaving
                    return drop(answer.send((Err(late), None)));
                }
                incoming = incoming.with_deadline(ends);
            }
            let reply = tokio::select! {
                biased;
                reply = executor.dispatch(incoming) => reply,
                () = answer.closed() => return,
            };
            let result = response(reply).map_or(Ok(Value::Null), |response| {
                let result = response.into_result();
                result.map_err(|error| Error::with_info(error.code, error.description))
            });
            // a caller that has left need not be notified
            let _ = answer.send((result, headers.end.get()));
        });
    }
}

impl Drop for HoppingCall {
    fn drop(&mut self) {
        // the node has ended before it began
        if let Some((_, answer)) = self.0.take() {
            let _ = answer.send((Err(Error::new(MOVED)), None));
        }
    }
}

/// The error of a call whose node was lost then: one that is known by a key is made again, as what it did is found.
pub(super) fn lost(is_known: bool, when: &str) -> Error {
    match is_known {
        true => Error::new(MOVED),
        false => {
            let info = format!("the node of the entity was lost {when}");
            Error::with_info(OUTCOME_UNKNOWN, info)
        }
    }
}
