//! Requests of transports for functions that are hosted elsewhere: each is a flow of one step, which calls.

use std::sync::{Arc, LazyLock};

use asyncsteps_actors::sync::{Calling, fences};
use asyncsteps_actors::trace;
use asyncsteps_core::{AsyncSteps, Error, StepResult, Template};
use asyncsteps_futoin::iface::{Definition, FunctionName, Loader, Source};
use serde_json::Value;

use super::invoker::{Invocation, Invoker};
use super::key::IDEMPOTENCY_KEY;
use super::not_hosted::NotHosted;
use super::registry::{HostedFunction, Registry};
use super::request::RequestSteps;
use super::result::result_step;
use crate::channel::ChannelKind;

/// The declaration of a function that is hosted elsewhere: any result. Its parameters are not checked
/// here. The sizes are the message sizes that other nodes accept by default.
const DECLARED: &str = r#"{
    "iface": "executor.forwarded", "version": "1.0", "ftn3rev": "1.9",
    "funcs": { "call": { "result": "any", "maxreqsize": "1M", "maxrspsize": "1M" } },
    "requires": ["AllowAnonymous"]
}"#;

static DEFINITION: LazyLock<Arc<Definition>> = LazyLock::new(|| {
    let source = Source::texts([("executor.forwarded-1.0-iface.json", DECLARED)]);
    let id = "executor.forwarded:1.0".parse().map_err(|error| format!("{error}"));
    let definition = id.and_then(|id| Loader::new([source]).load(&id).map_err(|it| it.to_string()));
    definition.unwrap_or_else(|error| unreachable!("the definition is right: {error}"))
});

/// The function that stands for all that are hosted elsewhere.
pub(super) fn forwarded(invoker: Arc<dyn Invoker>) -> Option<HostedFunction> {
    let template = Template::build(move |asi| {
        let invoker = Arc::clone(&invoker);
        asi.add(move |asi, ()| forward(asi, Arc::clone(&invoker))).named("forward");
        asi.add(|asi, (result,): (Option<Value>,)| answer(asi, result)).named("answer");
        asi.copy_from(&result_step());
    });
    HostedFunction::forwarded(&DEFINITION, &template)
}

/// Calls the function of a request where it is hosted, for the caller of the request.
fn forward(asi: &mut AsyncSteps, invoker: Arc<dyn Invoker>) -> StepResult {
    let fences = fences(asi);
    let called = asi.request()?.function().clone();
    let calling = Calling::of_step(asi, called.as_str());
    let info = asi.request_mut()?;
    // with its policy
    let key = info.idempotency_key()?.and_then(|_| info.header(IDEMPOTENCY_KEY)).map(Arc::from);
    let executor = info.executor();
    let invocation = Invocation {
        function: called.clone(),
        params: info.take_params(),
        // a message that was not signed here must not pass for one that was, where it is hosted
        caller: info.authenticated().without_signer(),
        trace: trace::current(),
        fences,
        key,
        call: calling.as_ref().map(Calling::call),
        hosted: None,
        is_inside: false,
    };
    asi.hold(calling);
    let caller = invocation.caller.clone();
    asi.await_in_place(async move {
        invoker.invoke(invocation).await.map(|result| (result,)).map_err(|error| {
            match error
                .find::<NotHosted>()
                .and_then(|_| executor.shared.registry.resolve(&called, &caller).err())
            {
                Some(refused) => {
                    Error::with_info(refused.code(), refused.text().map(str::to_owned))
                }
                None => error,
            }
        })
    });
    Ok(())
}

/// Completes with the result; a function without one is answered as it is where it is hosted.
fn answer(asi: &mut AsyncSteps, result: Option<Value>) -> StepResult {
    if let Some(result) = result {
        return asi.success((result,));
    }
    asi.request()?.exchange().has_no_result.set(true);
    Ok(())
}

impl Registry {
    /// Whether a request over such a channel is forwarded. A request of another node was sent here for
    /// a function that is hosted here, so it is not.
    pub(super) fn forwards(&self, function: &FunctionName, channel: ChannelKind) -> bool {
        channel != ChannelKind::Node && !self.hosts(function)
    }
}
