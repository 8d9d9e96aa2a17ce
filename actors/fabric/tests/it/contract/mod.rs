//! What every fabric promises, as a function of two of its nodes and a caller.

mod forwarding;
pub(crate) mod nodes;

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::{FencingToken, HeldFence};
use asyncsteps_core::{Retry, Template, codes};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::{CallSteps, Caller, Executor, FailedCall, Invocation, RequestSteps};
use asyncsteps_fabric::{
    Call, CallError, CallPolicy, Client, Endpoint, Fabric, Outcome, Response, ServeGuard,
};
use expect_test::expect;
use futures_util::FutureExt;
use serde_json::{Value, json};

pub(crate) use nodes::{Node, definition, node};

/// Longer than anything takes here.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

/// Three nodes of one fabric. What one has said is known to the others.
pub(crate) struct Nodes {
    pub(crate) caller: Arc<dyn Fabric>,
    pub(crate) first: Arc<dyn Fabric>,
    pub(crate) second: Arc<dyn Fabric>,
}

/// Everything that a fabric of nodes promises.
pub(crate) async fn keeps_its_promises(nodes: &Nodes) {
    keeps_its_promises_to_callers(nodes).await;
    cancels_what_is_not_wanted(nodes).await;
    versions_are_routed(nodes).await;
    calls_act_for_users(nodes).await;
    calls_carry_the_tokens_of_locks(nodes).await;
    draining_loses_nothing(nodes).await;
    the_end_of_the_grace_answers(nodes).await;
    nodes_can_be_listed_and_called(nodes).await;
    forwarding::a_front_forwards(nodes).await;
    forwarding::a_front_forwards_keys(nodes).await;
    forwarding::a_front_does_not_sign(nodes).await;
    forwarding::a_client_that_leaves_cancels(nodes).await;
}

/// What every fabric promises to those who call.
pub(crate) async fn keeps_its_promises_to_callers(nodes: &Nodes) {
    calls_are_answered(nodes).await;
    calls_that_nothing_serves_were_not_carried_out(nodes).await;
    steps_call_other_nodes(nodes).await;
    large_messages_are_refused(nodes).await;
}

/// What is promised where the other side can be told that a call is not wanted any more.
pub(crate) async fn cancels_what_is_not_wanted(nodes: &Nodes) {
    time_limits_end_calls(nodes).await;
    dropped_calls_are_cancelled(nodes).await;
}

async fn serve(fabric: &Arc<dyn Fabric>, node: &Node) -> ServeGuard {
    let endpoints = Endpoint::all(&node.executor);
    fabric.serve(endpoints, node.executor.clone()).await.expect("it serves")
}

async fn call(nodes: &Nodes, function: &str, params: Value) -> Result<Value, CallError> {
    let call = Call::new(function, params).expect("it is a call");
    nodes.caller.call(call).await.map(Response::into_value)
}

fn line(result: &Result<Value, CallError>) -> String {
    match result {
        Ok(result) => format!("{result}\n"),
        Err(error) => format!("{error} ({:?})\n", error.outcome()),
    }
}

async fn calls_are_answered(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let mut out = String::new();
    for (function, params) in [
        ("test.node:1.1:echo", json!({ "text": "é\n\"" })),
        ("test.node:1.0:echo", json!({ "text": "" })),
        ("test.node:1.1:nothing", json!({})),
        ("test.node:1.1:fail", json!({ "code": "Declared" })),
        ("test.node:1.1:fail", json!({ "code": "NotDeclared" })),
        ("test.node:1.1:fail", json!({ "code": "DefenseRejected" })),
        ("test.node:1.1:echo", json!({ "text": 5 })),
        ("test.node:1.1:echo", json!({})),
        ("test.node:1.1:missing", json!({})),
    ] {
        out += &line(&call(nodes, function, params).await);
    }
    expect![[r#"
        "é\n\""
        ""
        null
        Declared: why (Answered)
        InternalError: Not expected error (Answered)
        DefenseRejected: why (Answered)
        InvalidRequest: Type mismatch for parameter: test.node:1.1:echo(text) = "5" (Answered)
        InvalidRequest: Missing parameter: test.node:1.1:echo(text) (Answered)
        InvalidRequest: Unknown interface function: missing (Answered)
    "#]]
    .assert_eq(&out);
    for wrong in [Call::new("echo", json!({})), Call::new("test.node:1.1:echo", 5)] {
        let error = wrong.expect_err("it is no call");
        assert_eq!((error.code(), error.outcome()), ("InvokerError", Outcome::NotCarriedOut));
    }
    guard.drain(GRACE).await;
}

async fn calls_that_nothing_serves_were_not_carried_out(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    for function in ["test.other:1.0:echo", "test.node:1.2:echo", "test.node:2.0:echo"] {
        let error = call(nodes, function, json!({ "text": "" })).await.expect_err(function);
        let expected = (codes::CONNECT_ERROR, Outcome::NotCarriedOut);
        assert_eq!((error.code(), error.outcome()), expected, "{function}");
    }
    guard.drain(GRACE).await;
    let error = call(nodes, "test.node:1.1:echo", json!({ "text": "" })).await;
    assert_eq!(error.expect_err("nothing serves it").code(), codes::CONNECT_ERROR);
}

async fn versions_are_routed(nodes: &Nodes) {
    let (older, newer) = (node("1.1", "older"), node("1.2", "newer"));
    let guards = (serve(&nodes.first, &older).await, serve(&nodes.second, &newer).await);
    let mut met = std::collections::BTreeSet::new();
    for _ in 0..64 {
        let newest = call(nodes, "test.node:1.2:name", json!({})).await.expect("it is served");
        assert_eq!(newest, "newer", "the older one never gets a call of 1.2");
        let any = call(nodes, "test.node:1.1:name", json!({})).await.expect("it is served");
        met.insert(any.as_str().map(ToOwned::to_owned));
    }
    assert_eq!(met.len(), 2, "both get calls of 1.1");
    guards.0.drain(GRACE).await;
    guards.1.drain(GRACE).await;
}

async fn calls_act_for_users(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let ann = User::new("ann", SecurityLevel::PrivilegedOps);
    let whoami = |caller: Caller| async {
        let call = Call::new("test.node:1.1:whoami", ()).expect("it is a call");
        let answer = nodes.caller.call(call.for_caller(caller)).await;
        answer.map(Response::into_value)
    };
    assert_eq!(whoami(Caller::from(&ann)).await, Ok(json!("ann PrivilegedOps")));
    assert_eq!(whoami(Caller::anonymous()).await, Ok(json!("- Anonymous")));
    guard.drain(GRACE).await;
}

async fn time_limits_end_calls(nodes: &Nodes) {
    let mut served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let call = Call::new("test.node:1.1:wait", ()).expect("it is a call");
    let error = nodes.caller.call(call.within(Duration::from_secs(2))).await;
    let error = error.expect_err("nothing ends it");
    assert_eq!((error.code(), error.outcome()), (codes::COMM_ERROR, Outcome::Unknown));
    // the node ends it too
    assert_eq!(served.next_event().await, "wait begins");
    assert_eq!(served.next_event().await, "wait is cancelled");
    guard.drain(GRACE).await;
}

async fn dropped_calls_are_cancelled(nodes: &Nodes) {
    let mut served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let call = Call::new("test.node:1.1:wait", ()).expect("it is a call");
    let mut waits = nodes.caller.call(call);
    let begun = tokio::select! {
        _ = &mut waits => "ended",
        event = served.next_event() => event,
    };
    assert_eq!(begun, "wait begins");
    drop(waits);
    assert_eq!(served.next_event().await, "wait is cancelled");
    guard.drain(GRACE).await;
}

async fn draining_loses_nothing(nodes: &Nodes) {
    let (mut one, two) = (node("1.1", "one"), node("1.1", "two"));
    let guard = serve(&nodes.first, &one).await;
    let call_gate = Call::new("test.node:1.1:gate", ()).expect("it is a call");
    let mut under_way = nodes.caller.call(call_gate);
    let begun = tokio::select! {
        _ = &mut under_way => "ended",
        event = one.next_event() => event,
    };
    assert_eq!(begun, "gate begins");
    let other = serve(&nodes.second, &two).await;
    let mut drains = Box::pin(guard.drain(GRACE));
    // while one waits for its last call, the other takes the next
    while (&mut drains).now_or_never().is_none() {
        let name = call(nodes, "test.node:1.1:name", json!({})).await;
        if name.expect("it is served") == "two" {
            break;
        }
    }
    one.open_gate();
    assert_eq!(under_way.await.map(Response::into_value), Ok(json!("through")));
    assert_eq!(drains.await.cancelled, 0);
    other.drain(GRACE).await;
}

async fn the_end_of_the_grace_answers(nodes: &Nodes) {
    let mut served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let call = Call::new("test.node:1.1:wait", ()).expect("it is a call");
    let mut waits = nodes.caller.call(call);
    let begun = tokio::select! {
        _ = &mut waits => "ended",
        event = served.next_event() => event,
    };
    assert_eq!(begun, "wait begins");
    let (answer, drained) = tokio::join!(waits, guard.drain(Duration::ZERO));
    let error = answer.expect_err("it was cancelled");
    assert_eq!(error.to_string(), "InternalError: Request was cancelled");
    assert_eq!((drained.finished, drained.cancelled), (0, 1));
    assert_eq!(served.next_event().await, "wait is cancelled");
}

async fn calls_carry_the_tokens_of_locks(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let (stock, odd) =
        (FencingToken::new("stock", "apples", 7), FencingToken::new("a, b", "\n;%ä", u64::MAX));
    let tokens = |result: Result<Response, CallError>| {
        result.map(Response::into_value).map(|tokens| tokens.to_string())
    };
    let fences = "test.node:1.1:fences";
    let call = Call::new(fences, ()).expect("it is a call");
    assert_eq!(tokens(nodes.caller.call(call.clone()).await).expect("it is served"), r#""""#);
    let call = call.with_fences(vec![stock.clone(), odd.clone()]);
    let both = format!("\"{stock} {odd}\"");
    assert_eq!(tokens(nodes.caller.call(call).await).expect("it is served"), both);
    // a step of a section hands on what it holds, and what its caller holds
    let held = stock.clone();
    let in_section = Template::build(move |asi| {
        let held = held.clone();
        asi.add(move |asi, ()| {
            let fence = HeldFence::default();
            fence.set(held.clone());
            asi.stack(fence);
            asi.call::<Value>(fences, ())?;
            asi.add(|asi, (result,): (Value,)| asi.reply(result));
            Ok(())
        });
    });
    let definition = definition(&json!({
        "iface": "test.section", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "enter": { "result": "string" } }, "requires": ["AllowAnonymous"],
    }));
    let client = Client::new(Arc::clone(&nodes.caller));
    let builder = Executor::builder().invoker(client).interface(definition, |functions| {
        functions.add("enter", &in_section);
    });
    let front = builder.build().expect("an executor");
    let name = "test.section:1.0:enter".parse().expect("a name");
    let invocation = Invocation::new(name, (), Caller::anonymous()).expect("no parameters");
    let answer = front.invoke(invocation.with_fences(vec![odd])).await.expect("it is served");
    assert_eq!(answer.expect("a result").to_string(), both);
    guard.drain(GRACE).await;
}

/// A function that calls another one in a step, which is tried again.
fn front(client: Client) -> Executor {
    let forward = Template::build(|asi| {
        asi.add(|asi, ()| {
            let function: String = asi.param("function")?;
            let params: Value = asi.param("params")?;
            asi.call::<Value>(&function, params)?.timeout(GRACE);
            asi.add(|asi, (result,): (Value,)| asi.reply(result));
            Ok(())
        })
        .retry(Retry::attempts(2));
    });
    let definition = definition(&json!({
        "iface": "test.front", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "forward": {
            "params": { "function": "string", "params": "any" }, "result": "any",
            "throws": ["Declared"],
        } },
        "requires": ["AllowAnonymous"],
    }));
    let builder = Executor::builder().invoker(client).interface(definition, |functions| {
        functions.add("forward", &forward);
    });
    builder.build().expect("an executor")
}

async fn steps_call_other_nodes(nodes: &Nodes) {
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let client = Client::new(Arc::clone(&nodes.caller))
        .policy("test.node:1.1:name", CallPolicy::new().hedge_after(GRACE));
    let front = front(client);
    let forward = |function: &str, params: Value| {
        let params = json!({ "function": function, "params": params });
        let ann = Caller::from(&User::new("ann", SecurityLevel::SafeOps));
        front.call_for::<Value>(ann, "test.front:1.0:forward", params)
    };
    let echo = forward("test.node:1.1:echo", json!({ "text": "hi" })).await;
    assert_eq!(echo.expect("it is served"), "hi");
    assert_eq!(forward("test.node:1.1:name", json!({})).await.expect("it is served"), "one");
    let whoami = forward("test.node:1.1:whoami", json!({})).await;
    assert_eq!(whoami.expect("it is served"), "ann SafeOps", "it acts for the user of the request");
    let error = forward("test.node:1.1:fail", json!({ "code": "Declared" })).await;
    assert_eq!(error.expect_err("it fails").code(), "Declared");
    // a mistake of the function in the middle is not one of its caller
    let error = forward("test.node:1.1:echo", json!({})).await.expect_err("a parameter is missing");
    assert_eq!(error.code(), codes::INTERNAL_ERROR);
    let error = front.call_as_system::<Value>("test.node:1.1:fail", json!({ "code": "Declared" }));
    let error = error.await.expect_err("it fails");
    assert!(error.find::<FailedCall>().is_some() || error.code() == codes::SECURITY_ERROR);
    let error = front.call_as_system::<Value>("test.none:1.0:f", ()).await;
    assert_eq!(error.expect_err("nothing serves it").code(), codes::CONNECT_ERROR);
    guard.drain(GRACE).await;
}

async fn large_messages_are_refused(nodes: &Nodes) {
    let Some(max) = nodes.caller.capabilities().max_message else { return };
    let served = node("1.1", "one");
    let guard = serve(&nodes.first, &served).await;
    let error = call(nodes, "test.node:1.1:echo", json!({ "text": "x".repeat(max) })).await;
    let error = error.expect_err("it is too large");
    assert_eq!((error.code(), error.outcome()), ("InvalidRequest", Outcome::NotCarriedOut));
    guard.drain(GRACE).await;
}

async fn nodes_can_be_listed_and_called(nodes: &Nodes) {
    let (one, two) = (node("1.1", "one"), node("1.2", "two"));
    let guards = (serve(&nodes.first, &one).await, serve(&nodes.second, &two).await);
    let listed = nodes.caller.nodes().await.expect("they answer");
    let mut served: Vec<_> = listed.iter().flat_map(|node| node.interfaces.clone()).collect();
    served.sort_unstable();
    assert_eq!(served, ["test.node:1.1", "test.node:1.2"]);
    for node in &listed {
        let id = node.node.parse().expect("it is a name");
        let call = Call::new("test.node:1.0:name", ()).expect("it is a call").on_node(id);
        let name = nodes.caller.call(call).await.expect("it is served").into_value();
        let expected = if node.interfaces == ["test.node:1.1"] { "one" } else { "two" };
        assert_eq!(name, expected);
    }
    let call = Call::new("test.node:1.0:name", ()).expect("it is a call");
    let call = call.on_node("none".parse().expect("it is a name"));
    let error = nodes.caller.call(call).await.expect_err("there is no such node");
    assert_eq!(error.code(), codes::CONNECT_ERROR);
    guards.0.drain(GRACE).await;
    guards.1.drain(GRACE).await;
}
