//! A call of an entity that another arbiter of this process has.

use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::sync::FencingToken;
use asyncsteps_actors::trace::TraceParent;
use asyncsteps_core::{AsyncSteps, Error, StepResult};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::iface::FunctionName;
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::{Caller, Executor, Incoming, RequestSteps};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::owner::MOVED;
use crate::key::HEADER;
use crate::run::response;
use crate::shared::LocalNode;

/// A call of an entity, as it goes to another arbiter.
#[derive(Debug)]
pub(super) struct Hop {
    pub(super) function: FunctionName,
    pub(super) params: Map<String, Value>,
    pub(super) caller: Caller,
    pub(super) key: Option<String>,
    pub(super) fences: Vec<FencingToken>,
    pub(super) trace: Option<TraceParent>,
    pub(super) time_left: Option<Duration>,
}

/// The same, for the arbiter that has its entity.
#[derive(Debug)]
pub(crate) struct HoppingCall {
    hop: Hop,
    answer: oneshot::Sender<Result<Value, Error>>,
}

impl HoppingCall {
    /// Adds the steps that send a call to a node, and take its answer as the result of the request.
    pub(super) fn add(asi: &mut AsyncSteps, node: &LocalNode, hop: Hop) {
        let (answer, answered) = oneshot::channel();
        let is_sent = node.call(Self { hop, answer });
        asi.await_(async move {
            if !is_sent {
                return Err(Error::new(MOVED));
            }
            let lost = |_| {
                let info = "the node of the entity was lost before it answered";
                Error::with_info(OUTCOME_UNKNOWN, info)
            };
            answered.await.map_err(lost)?.map(|result| (result,))
        })
        .named("entity");
        asi.add(|asi, (result,): (Value,)| -> StepResult {
            if result.is_null() { Ok(()) } else { asi.reply(result) }
        });
    }

    /// Carries the call out on this arbiter, unless its caller leaves.
    pub(crate) fn carry_out(self, executor: &Executor) {
        let Self { hop, mut answer } = self;
        let Hop { function, params, caller, key, fences, trace, time_left } = hop;
        let executor = executor.clone();
        actix_rt::spawn(async move {
            let request = Request::to(function, params);
            let mut incoming = Incoming::new(request, Channel::local())
                .with_caller(caller)
                .with_fences(fences)
                .with_trace(trace);
            if let Some(key) = key {
                incoming = incoming.with_headers(Rc::new(KeyHeader(key)));
            }
            if let Some(time_left) = time_left {
                incoming = incoming.with_time_left(time_left);
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
            let _ = answer.send(result);
        });
    }
}

/// The key of a call, as its caller has sent it.
struct KeyHeader(String);

impl Headers for KeyHeader {
    fn header(&self, name: &str) -> Option<&str> {
        (name == HEADER).then_some(&self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(std::iter::once((HEADER, self.0.as_str())))
    }
}
