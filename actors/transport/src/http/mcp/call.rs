//! A call of a tool: of its function or, if that is durable, of a job.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::codes;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::{ClientPermit, ReplyBody};
use asyncsteps_futoin::message::{ErrorResult, Request};
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::InFlight;
use super::tools::ListedTool;
use crate::http::end_point::{EndPoint, incoming};
use crate::http::head::RequestHead;

/// The interface of durable requests.
const JOBS: &str = "asyncsteps.jobs:1.0";

/// How long a job is waited for until its progress is said again: first, and at the most.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long a job is waited for in all. It has a connection meanwhile, and programs of models do not wait longer.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A call, on its way from the protocol's server.
pub(super) struct ToolCall {
    pub(super) tool: Arc<ListedTool>,
    pub(super) arguments: Map<String, Value>,
    /// Where its progress is wanted.
    pub(super) progress: Option<(Peer<RoleServer>, ProgressToken)>,
    /// Whether a client that goes away cancels a job.
    pub(super) ends_with_stream: bool,
    /// Dropped without an answer if the call was cancelled.
    pub(super) answer: oneshot::Sender<CallToolResult>,
}

/// The caller of tools, with its request over HTTP.
pub(super) struct Caller {
    pub(super) end_point: EndPoint,
    pub(super) head: Rc<RequestHead>,
    pub(super) channel: Channel,
    pub(super) permit: ClientPermit,
    pub(super) size: usize,
    pub(super) in_flight: Option<InFlight>,
    /// The error of a function that wants credentials which the caller may have.
    pub(super) denied: Rc<Cell<Option<ErrorResult>>>,
}

type Ended = Result<Value, ErrorResult>;

impl Caller {
    /// Makes the call that the protocol's server finds in the request, if there is one.
    pub(super) async fn make(mut self, mut calls: mpsc::Receiver<ToolCall>) {
        let Some(call) = calls.recv().await else { return };
        let ToolCall { tool, arguments, progress, ends_with_stream, mut answer } = call;
        let cancelled = self.in_flight.as_ref().map(|it| it.cancelled.clone()).unwrap_or_default();
        // not cut, because a job that is stored must be known to be cancelled
        let job = if tool.info.is_stored { self.submit(&tool, &arguments).await } else { None };
        let permit = mem::take(&mut self.permit);
        let ended = async {
            match &job {
                Some(Ok(uid)) => self.ended(uid, progress.as_ref()).await,
                Some(Err(error)) => Err(error.clone()),
                None => {
                    let request = Request::to(tool.info.function.clone(), arguments);
                    self.dispatch(request, self.size, permit).await
                }
            }
        };
        let ended = tokio::select! {
            biased;
            () = cancelled.cancelled() => Err(true),
            // as for all other requests, but that a job goes on
            () = answer.closed() => Err(ends_with_stream),
            ended = ended => Ok(ended),
        };
        match (ended, job) {
            (Ok(ended), _) => {
                self.denied
                    .set(ended.as_ref().err().filter(|it| self.is_denied(&tool, it)).cloned());
                // the client may be gone just now
                let _ = answer.send(result(&tool, ended));
            }
            (Err(true), Some(Ok(uid))) => {
                if let Err(error) = self.of_jobs("cancel", json!({ "uid": uid }), 0).await {
                    tracing::debug!(uid, error.code, "a job is not cancelled for its caller");
                }
            }
            (Err(_), _) => {}
        }
    }

    /// Stores the call as a job. `None` if nothing is stored because there are no jobs for the caller.
    async fn submit(
        &self,
        tool: &ListedTool,
        params: &Map<String, Value>,
    ) -> Option<Result<String, ErrorResult>> {
        let job = json!({ "function": tool.info.function.as_str(), "params": params });
        match self.of_jobs("submit", job, self.size).await {
            Ok(job) => Some(Ok(job["uid"].as_str().unwrap_or_default().to_owned())),
            Err(error) => match &*error.code {
                codes::UNKNOWN_INTERFACE | codes::SECURITY_ERROR | codes::PLEASE_REAUTH => None,
                codes::UNAUTHORIZED | codes::NOT_IMPLEMENTED | "NotDurable" => None,
                _ => Some(Err(error)),
            },
        }
    }

    /// Waits for the end of a job.
    async fn ended(
        &self,
        uid: &str,
        progress: Option<&(Peer<RoleServer>, ProgressToken)>,
    ) -> Ended {
        let goes_on = |why: &str| ErrorResult {
            code: OUTCOME_UNKNOWN.to_owned(),
            description: Some(format!("the job {uid} is not over: {why}")),
        };
        let (begun, mut pause) = (clock::now(), PAUSE);
        while clock::now() < begun + LONGEST_WAIT {
            if let Some((client, token)) = progress {
                let so_far = clock::now().saturating_since(begun).as_secs_f64();
                let so_far = ProgressNotificationParam::new(token.clone(), so_far);
                let so_far = so_far.with_message(self.doing(uid).await);
                // a client that is gone ends the call elsewhere
                let _ = client.notify_progress(so_far).await;
            }
            let until = clock::now() + pause;
            let wait = json!({ "uid": uid, "wait": 1000.0 * pause.as_secs_f64() });
            let job = self.of_jobs("result", wait, 0).await;
            let mut job = job.map_err(|error| goes_on(&error.code))?;
            let text = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
            match (&*text("state"), text("error")) {
                ("ended", error) if error.is_empty() => return Ok(job["result"].take()),
                ("ended", code) => {
                    return Err(ErrorResult { code, description: Some(text("text")) });
                }
                ("paused" | "dead", _) => return Err(goes_on("it waits for an operator")),
                _ => {}
            }
            // it may not have waited; while the executor closes, the next look is refused
            tokio::select! {
                () = timer::sleep_until(until) => {}
                () = self.end_point.executor.closing() => {}
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
        Err(goes_on("it takes long"))
    }

    /// The steps that a job carries out, or its state.
    async fn doing(&self, uid: &str) -> String {
        let Ok(status) = self.of_jobs("status", json!({ "uid": uid }), 0).await else {
            return String::new();
        };
        let running = status["running"].as_array().into_iter().flatten();
        let steps: Vec<_> = running.filter_map(|step| step["path"].as_str()).collect();
        match &*steps {
            [] => status["job"]["state"].as_str().unwrap_or_default().to_owned(),
            steps => steps.join(", "),
        }
    }

    async fn of_jobs(&self, function: &str, params: Value, size: usize) -> Ended {
        let Value::Object(params) = params else { unreachable!("they are an object") };
        let request = Request::new(&format!("{JOBS}:{function}"), params);
        self.dispatch(request, size, ClientPermit::default()).await
    }

    async fn dispatch(&self, request: Request, size: usize, permit: ClientPermit) -> Ended {
        let incoming = incoming(&self.head, request, self.channel.clone());
        let incoming = incoming.with_size(size).with_client_permit(permit);
        match self.end_point.executor.dispatch(incoming).await.into_parts().1 {
            ReplyBody::Message(message) => message.response().clone().into_result(),
            ReplyBody::Nothing => Ok(Value::Null),
            ReplyBody::Raw(_) => {
                let code = codes::NOT_IMPLEMENTED.to_owned();
                Err(ErrorResult { code, description: Some("a tool has no raw result".to_owned()) })
            }
        }
    }

    /// Whether other credentials may help against an error.
    fn is_denied(&self, tool: &ListedTool, error: &ErrorResult) -> bool {
        matches!(&*error.code, codes::SECURITY_ERROR | codes::PLEASE_REAUTH)
            && !self.end_point.schemes(Some(&tool.info.definition), &self.channel).is_empty()
    }
}

/// The end of a call, as the protocol has it.
fn result(tool: &ListedTool, ended: Ended) -> CallToolResult {
    match ended {
        Ok(Value::Null) => CallToolResult::success(Vec::new()),
        Ok(value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = tool.tool.output_schema.as_ref().map(|_| value);
            result
        }
        Err(ErrorResult { code, description }) => {
            let text = match description.filter(|it| !it.is_empty()) {
                Some(description) => format!("{code}: {description}"),
                None => code,
            };
            CallToolResult::error(vec![ContentBlock::text(text)])
        }
    }
}
