//! The promise: every request belongs to a trace: that of its caller, over HTTP and WebSocket by the header
//! `traceparent`, or one that begins with it. The lines of its log say so, its function can hand the trace
//! on, and what it calls in the process is in the same one. Those that are sampled are exported.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use asyncsteps_core::{Error, Template, sleep};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::observe::{
    CallerFlag, Exporter, RequestRecord, Retention, Sampling, TraceParent,
};
use asyncsteps_executor::{Builder, CallSteps as _, Executor, Incoming, RequestSteps as _};
use asyncsteps_support::definition;
use asyncsteps_support::log::Log;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

const HAND_ON: &str = "test.trace:1.0:handOn";

const DEFINITION: &str = r#"{
    "iface": "test.trace",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": { "handOn": { "result": "string" }, "calls": { "result": "any" } },
    "requires": [ "AllowAnonymous" ]
}"#;

/// `handOn` answers with the header for calls that it would make, `calls` with those of all calls that a
/// function can make, and its own.
fn executor(change: impl FnOnce(Builder) -> Builder) -> Executor {
    let hand_on = Template::build(|asi| {
        asi.add(|asi, ()| {
            tracing::info!("a line of the function");
            let trace = asi.request()?.handle().trace();
            asi.reply(trace.to_string())
        });
    });
    let calls = Template::build(|asi| {
        asi.add(|asi, ()| {
            let own = asi.request()?.handle();
            asi.call::<String>(HAND_ON, ())?;
            asi.add(|asi, first: String| {
                asi.call_as_system::<String>(HAND_ON, ())?;
                asi.add(move |asi, second: String| asi.success((first, second)));
                Ok(())
            });
            asi.add(move |asi, (first, second): (String, String)| {
                asi.await_(async move {
                    sleep(std::time::Duration::from_millis(1)).await;
                    let third: String = own.call(HAND_ON, ()).await?;
                    let fourth = own.executor().call_as_system::<String>(HAND_ON, ()).await?;
                    Ok::<_, Error>(([first, second, third, fourth, own.trace().to_string()],))
                });
            });
            asi.add(|asi, (all,): ([String; 5],)| asi.reply(json!(all)));
            Ok(())
        });
    });
    let builder =
        Executor::builder().interface(definition("test.trace:1.0", DEFINITION), |functions| {
            functions.add("handOn", &hand_on).add("calls", &calls);
        });
    change(builder.record(Retention::ALL)).build().expect("a right configuration")
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

fn header(flag: &str) -> String {
    format!("00-{TRACE}-{SPAN}-{flag}")
}

async fn call(executor: &Executor, kind: ChannelKind, f: &str, header: &str) -> Value {
    let message = json!({ "f": f, "p": {}, "rid": "C7" }).to_string();
    let request = Request::parse(message.as_bytes()).expect("a request");
    let incoming = Incoming::new(request, Channel::new(kind))
        .with_headers(Rc::new(OneHeader(header.to_owned())));
    let answer = executor.dispatch(incoming).await.into_bytes().expect("an answer");
    serde_json::from_slice(&answer).expect("JSON")
}

/// What `handOn` answers.
async fn handed_on(executor: &Executor, kind: ChannelKind, header: &str) -> TraceParent {
    let answer = call(executor, kind, HAND_ON, header).await;
    answer["r"].as_str().expect("a text").parse().expect("a trace")
}

#[actix::test]
async fn a_request_belongs_to_the_trace_of_its_header() {
    let log = Log::default();
    let open = log.open_with_spans();
    let executor = executor(|builder| builder);
    let own = handed_on(&executor, ChannelKind::Http, &header("01")).await;
    assert_eq!(own.trace_id(), TRACE);
    assert_ne!(own.span_id(), SPAN);
    call(&executor, ChannelKind::Http, "test.none:1.0:handOn", &header("01")).await;
    drop(open);
    let text = log.take();
    let told = format!("trace=\"{TRACE}\"");
    for line in ["a line of the function", "close", "request refused"] {
        let found = text.lines().find(|found| found.contains(line));
        let tells = |found: &str| found.contains(&told) && found.contains("rid=\"C7\"");
        assert!(found.is_some_and(tells), "{line}: {text}");
    }
    let [record] = &executor.recent()[..] else { panic!("one request is kept") };
    assert_eq!(record.trace, own);
    assert_eq!(record.parent.map(TraceParent::span_id), Some(SPAN.to_owned()));
}

#[actix::test]
async fn the_messages_of_a_websocket_belong_to_the_trace_of_its_upgrade() {
    let executor = executor(|builder| builder);
    let first = handed_on(&executor, ChannelKind::WebSocket, &header("01")).await;
    let second = handed_on(&executor, ChannelKind::WebSocket, &header("01")).await;
    assert_eq!([first.trace_id(), second.trace_id()], [TRACE, TRACE]);
    assert_ne!(first.span_id(), second.span_id());
}

#[actix::test]
async fn a_request_whose_caller_names_no_trace_begins_one() {
    let executor = executor(|builder| builder);
    let mut traces = Vec::new();
    for header in ["", "00-junk"] {
        traces.push(handed_on(&executor, ChannelKind::Http, header).await.trace_id());
    }
    assert_ne!(traces[0], traces[1]);
    assert!(executor.recent().iter().all(|record| record.parent.is_none()));
}

#[actix::test]
async fn what_a_request_calls_in_the_process_is_in_its_trace() {
    tokio::time::pause();
    for flag in ["01", "00"] {
        let executor = executor(|builder| builder);
        let answer =
            call(&executor, ChannelKind::Http, "test.trace:1.0:calls", &header(flag)).await;
        let answers: Vec<String> = serde_json::from_value(answer["r"].clone()).expect("texts");
        let spans: Vec<TraceParent> =
            answers.iter().map(|span| span.parse().expect("a trace")).collect();
        assert_eq!(spans.len(), 5, "{answer}");
        for span in &spans {
            assert_eq!(span.trace_id(), TRACE);
            assert_eq!(span.is_sampled(), flag == "01");
        }
        let own = spans[4];
        let records = executor.recent();
        for called in &spans[..4] {
            let record = records.iter().find(|record| record.trace == *called);
            assert_eq!(record.and_then(|record| record.parent), Some(own), "{called}");
        }
    }
}

/// Keeps what is exported.
#[derive(Clone, Default)]
struct Exported(Arc<Mutex<Vec<Arc<RequestRecord>>>>);

impl Exporter for Exported {
    fn export(&self, request: Arc<RequestRecord>) {
        self.0.lock().expect("nothing panics").push(request);
    }
}

impl Exported {
    fn take(&self) -> Vec<Arc<RequestRecord>> {
        std::mem::take(&mut *self.0.lock().expect("nothing panics"))
    }
}

#[actix::test]
async fn requests_that_are_sampled_are_exported() {
    let exported = Exported::default();
    for (sampling, header, count) in [
        (Sampling::default(), String::new(), 1),
        (Sampling::share(0.0), String::new(), 0),
        (Sampling::share(0.0), header("01"), 1),
        (Sampling::default(), header("00"), 0),
        (Sampling { share: 0.0, flag: CallerFlag::Ignored }, header("01"), 0),
    ] {
        // whether others are kept or not
        for keep in [Retention::ALL, Retention::NONE] {
            let executor =
                executor(|builder| builder.record(keep).sample(sampling).export(exported.clone()));
            call(&executor, ChannelKind::Http, HAND_ON, &header).await;
            let all = exported.take();
            assert_eq!(all.len(), count, "{sampling:?} {header:?}");
            let kept = if keep == Retention::ALL { 1 } else { 0 };
            assert_eq!(executor.recent().len(), kept);
            for request in all {
                assert!(request.started.is_some_and(|started| started <= request.total));
                assert!(!request.steps.events.is_empty());
            }
        }
    }
}

#[actix::test]
async fn requests_that_are_refused_are_exported_without_steps() {
    let exported = Exported::default();
    let executor = executor(|builder| builder.unrecorded().export(exported.clone()));
    for f in ["test.none:1.0:handOn", "test.trace:1.0:none", "no name"] {
        call(&executor, ChannelKind::Http, f, &header("01")).await;
    }
    let all = exported.take();
    let told: Vec<_> = all.iter().map(|it| (it.function.as_str(), &*it.outcome)).collect();
    assert_eq!(
        told,
        [("test.none:1.0:handOn", "UnknownInterface"), ("test.trace:1.0:none", "InvalidRequest"),]
    );
    for request in all {
        assert_eq!((request.started, request.steps.events.len()), (None, 0));
        assert_eq!(request.trace.trace_id(), TRACE);
    }
}
