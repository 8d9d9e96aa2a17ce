//! Functions of interfaces that every service may have: FTN4 ping, FTN10 burst.
//!
//! Their definitions are in [`Source::builtin`](asyncsteps_futoin::iface::Source::builtin).

use asyncsteps_actors::trace;
use asyncsteps_core::{AsyncSteps, Error, StepResult, Template, codes};
use asyncsteps_futoin::message::{RefusedMessage, Request, Response};
use serde_json::Value;
use tokio::task::yield_now;

use super::caller::Caller;
use super::functions::Functions;
use super::handle::Executor;
use super::incoming::Incoming;
use super::reply::ReplyBody;
use super::request::RequestSteps;
use crate::channel::Channel;

/// Most calls in one burst: with less than a second for each, and a request that ends in time.
const MAX_BURST: usize = 100;

/// Calls of a burst in a turn; others on the arbiter come between.
const TURN: usize = 32;

/// `ping` of `futoin.ping` and `futoin.anonping`: returns the number.
#[must_use]
pub fn ping() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| {
            let echo: i64 = asi.param("echo")?;
            // as it is: `reply` would write it as JSON
            asi.request_mut()?.result_mut().insert("echo".to_owned(), echo.into());
            Ok(())
        })
        .named("ping");
    })
}

/// The functions of `futoin.burst`: the calls are made one after the other, each checked as if it
/// came alone and from the caller of the burst, unless it has credentials of its own.
pub fn burst(functions: &mut Functions) {
    let each = |with_results| {
        Template::build(move |asi| {
            asi.add(move |asi, ()| run_burst(asi, with_results)).named("burst");
        })
    };
    functions.add("resultBurst", &each(true)).add("noResultBurst", &each(false));
}

fn run_burst(asi: &mut AsyncSteps, with_results: bool) -> StepResult {
    let info = asi.request_mut()?;
    let (executor, channel) = (info.executor(), info.channel().clone());
    let caller = info.authenticated().without_signer();
    let Some(Value::Array(requests)) = info.take_params().remove("requests") else {
        return asi.error(codes::INTERNAL_ERROR, "requests are a list");
    };
    if requests.len() > MAX_BURST {
        return asi.error(codes::INVALID_REQUEST, format!("More than {MAX_BURST} requests"));
    }
    asi.await_(async move {
        let mut responses = Vec::with_capacity(requests.len());
        for (number, request) in requests.into_iter().enumerate() {
            if number % TURN == TURN - 1 {
                yield_now().await;
            }
            responses.extend(one(&executor, &channel, &caller, request).await);
        }
        Ok::<_, Error>((responses,))
    });
    asi.add(move |asi, (responses,): (Vec<Value>,)| {
        if with_results {
            let result = asi.request_mut()?.result_mut();
            result.insert("responses".to_owned(), responses.into());
        }
        Ok(())
    });
    Ok(())
}

/// One call of a burst; returns its response message, if there is one.
async fn one(
    executor: &Executor,
    channel: &Channel,
    caller: &Caller,
    request: Value,
) -> Option<Value> {
    let reply = match parse(request) {
        Ok(request) => {
            let incoming = Incoming::new(request, channel.clone()).with_caller(caller.clone());
            let incoming = incoming.with_trace(trace::current()).inside();
            match executor.dispatch(incoming).await.into_body() {
                ReplyBody::Message(message) => Some(message.into_response()),
                ReplyBody::Nothing => None,
                ReplyBody::Raw(_) => {
                    Some(Response::error(codes::INTERNAL_ERROR, Some("Raw result in a burst")))
                }
            }
        }
        Err(refusal) => Some(refusal.into_response()),
    };
    reply.map(Response::into_json)
}

fn parse(request: Value) -> Result<Request, RefusedMessage> {
    let request = Request::of_json(request)?;
    if request.f().starts_with("futoin.burst:") {
        Err(request.refuse("A burst in a burst"))
    } else {
        Ok(request)
    }
}
