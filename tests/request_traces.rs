//! The promise: a request over HTTP belongs to the trace that its header `traceparent` names: the lines
//! of its log say so, and its function can hand the trace on.

use std::rc::Rc;

use asyncsteps::Template;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::observe::Keep;
use asyncsteps_executor::{Executor, Incoming, RequestSteps as _};
use asyncsteps_support::definition;
use asyncsteps_support::log::Log;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

const DEFINITION: &str = r#"{
    "iface": "test.trace",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": { "handOn": { "result": "string" } },
    "requires": [ "AllowAnonymous" ]
}"#;

/// Answers with the header for calls that it would make.
fn executor() -> Executor {
    let hand_on = Template::build(|asi| {
        asi.add(|asi, ()| {
            tracing::info!("a line of the function");
            let trace = asi.request()?.handle().trace();
            asi.reply(trace.map(|trace| trace.below(0xab).to_string()).unwrap_or_default())
        });
    });
    let builder = Executor::builder().record(Keep::ALL).interface(
        definition("test.trace:1.0", DEFINITION),
        |functions| {
            functions.add("handOn", &hand_on);
        },
    );
    builder.build().expect("a right configuration")
}

/// The headers of a request.
struct OneHeader(String);

impl Headers for OneHeader {
    fn header(&self, name: &str) -> Option<&str> {
        (name == "traceparent").then_some(&self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new([("traceparent", &*self.0)].into_iter())
    }
}

async fn call(executor: &Executor, kind: ChannelKind, f: &str, header: &str) -> Value {
    let message = json!({ "f": f, "p": {} }).to_string();
    let request = Request::parse(message.as_bytes()).expect("a request");
    let incoming = Incoming::new(request, Channel::new(kind))
        .with_headers(Rc::new(OneHeader(header.to_owned())));
    let answer = executor.dispatch(incoming).await.into_bytes().expect("an answer");
    serde_json::from_slice(&answer).expect("JSON")
}

#[actix::test]
async fn a_request_belongs_to_the_trace_of_its_header() {
    let log = Log::default();
    let open = log.open_with_spans();
    let executor = executor();
    let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let answer = call(&executor, ChannelKind::Http, "test.trace:1.0:handOn", &header).await;
    assert_eq!(answer["r"], format!("00-{TRACE}-00000000000000ab-01"));
    call(&executor, ChannelKind::Http, "test.none:1.0:handOn", &header).await;
    drop(open);
    let text = log.take();
    let told = format!("trace=\"{TRACE}\"");
    for line in ["a line of the function", "close", "request refused"] {
        let found = text.lines().find(|found| found.contains(line));
        assert!(found.is_some_and(|found| found.contains(&told)), "{line}: {text}");
    }
    let [record] = &executor.recent()[..] else { panic!("one request is kept") };
    assert_eq!(record.trace.map(|trace| trace.trace_id()), Some(TRACE.to_owned()));
}

#[actix::test]
async fn what_is_no_trace_is_no_harm_and_a_websocket_has_none() {
    let executor = executor();
    let header = format!("00-{TRACE}-00f067aa0ba902b7-01");
    for (kind, header) in
        [(ChannelKind::Http, "00-junk"), (ChannelKind::Http, ""), (ChannelKind::WebSocket, &header)]
    {
        let answer = call(&executor, kind, "test.trace:1.0:handOn", header).await;
        assert_eq!(answer["r"], "", "{kind:?} {header}");
    }
    assert!(executor.recent().iter().all(|record| record.trace.is_none()));
}
