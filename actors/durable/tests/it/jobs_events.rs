//! The promise: what a job emits is read over HTTP by those who may see its status, in order and from where they were.

use std::rc::Rc;
use std::time::Duration;

use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::plan::Emits;
use asyncsteps_executor::raw::RawBody;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Incoming, ReplyBody, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::jobs::{ANN, BOB, OPERATOR, ask};

#[derive(Deserialize, JsonSchema)]
struct Slow {}

impl Emits for Slow {
    type Event = Value;
}

fn slow(steps: &Steps<(), Slow>) -> Returns<()> {
    steps
        .run("slow", async |cx, ()| {
            cx.emit_as("1", &json!({ "line\nend": 1 })).await?;
            cx.emit_as("2", &json!(null)).await?;
            tokio::time::sleep(Duration::from_secs(40)).await;
            Ok(cx.emit_as("3", &json!("last")).await?)
        })
        .recorded()
        .returns()
}

async fn start() -> (Executor, Node, String) {
    tokio::time::pause();
    let durable = Durable::new(Memory::default());
    let interface = Interface::new("test.slow:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "slow", slow);
    });
    let jobs = Jobs::new(durable.clone()).allow(JobsFunction::ALL);
    let executor = jobs.host(builder).build().expect("it is complete");
    let node = durable.start(&executor).await.expect("a lease");
    let job = json!({ "function": "test.slow:1.0:slow" });
    let job = ask(&executor, ANN, "submit", job).await.expect("it is stored");
    (executor, node, job["uid"].as_str().expect("a name").to_owned())
}

struct LastEventId(&'static str);

impl Headers for LastEventId {
    fn header(&self, name: &str) -> Option<&str> {
        Some(self.0).filter(|_| name == "last-event-id")
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new([("last-event-id", self.0)].into_iter())
    }
}

/// The stream of a job, or the code of the error.
async fn watch(
    executor: &Executor,
    (user, level): (&str, SecurityLevel),
    params: Value,
    last: Option<&'static str>,
) -> Result<RawBody, String> {
    let text = json!({ "f": "asyncsteps.jobs:1.0:events", "p": params, "rid": "C1" });
    let request = Request::parse(text.to_string().as_bytes()).expect("it is a message");
    let user = User::new(user, level);
    let incoming =
        Incoming::new(request, Channel::new(ChannelKind::Http)).with_caller((&user).into());
    let incoming = match last {
        Some(last) => incoming.with_headers(Rc::new(LastEventId(last))),
        None => incoming,
    };
    match executor.dispatch(incoming).await.into_parts().1 {
        ReplyBody::Raw(body) => Ok(body),
        ReplyBody::Message(message) => Err(message.response().code().expect("an error").to_owned()),
        ReplyBody::Nothing => panic!("it has an answer"),
    }
}

async fn read(mut body: RawBody) -> String {
    let mut text = String::new();
    while let Some(chunk) = body.next().await {
        text.push_str(str::from_utf8(&chunk.expect("it is not broken off")).expect("text"));
    }
    text
}

const LAST: &str = "id: 3\nevent: emit\ndata: \"last\"\n\nevent: end\ndata: null\n\n";

#[actix::test]
async fn events_stream_until_the_job_has_ended_and_go_on_behind_the_last_one() {
    let (executor, node, uid) = start().await;
    let body = watch(&executor, ANN, json!({ "uid": uid }), None).await.expect("it is her job");
    let first =
        "id: 1\nevent: emit\ndata: {\"line\\nend\":1}\n\nid: 2\nevent: emit\ndata: null\n\n";
    let text = read(body).await;
    let rest = text.strip_prefix(first).expect(&text);
    let heartbeats = rest.matches(":\n\n").count();
    assert_eq!(rest, ":\n\n".repeat(heartbeats) + LAST);
    assert!(heartbeats >= 2, "one each 15 s at least: {heartbeats}");
    for (caller, params, last) in [
        (ANN, json!({ "uid": uid, "after": 2 }), None),
        (OPERATOR, json!({ "uid": uid }), Some("2")),
        (ANN, json!({ "uid": uid, "after": 0 }), Some("2")),
    ] {
        let body = watch(&executor, caller, params, last).await.expect("it may be seen");
        assert_eq!(read(body).await, LAST);
    }
    let end = watch(&executor, ANN, json!({ "uid": uid, "after": 3 }), None).await;
    assert_eq!(read(end.expect("it is there")).await, "event: end\ndata: null\n\n");
    node.stop().await;
}

#[actix::test]
async fn who_may_not_see_the_status_is_refused_alike() {
    let (executor, node, uid) = start().await;
    let nothing = "0".repeat(32);
    for (caller, uid) in [(BOB, &uid), (ANN, &nothing), (ANN, &"x".to_owned())] {
        let params = json!({ "uid": uid });
        let status = ask(&executor, caller, "status", params.clone()).await.expect_err("refused");
        let events = watch(&executor, caller, params, None).await.expect_err("refused");
        assert_eq!((events.as_str(), status.code()), ("UnknownJob", "UnknownJob"));
    }
    let wrong = watch(&executor, ANN, json!({ "uid": uid }), Some("x")).await;
    assert_eq!(wrong.expect_err("no number"), "InvalidRequest");
    node.stop().await;
}

#[actix::test]
async fn a_stream_ends_when_the_executor_closes() {
    let (executor, node, uid) = start().await;
    let body = watch(&executor, ANN, json!({ "uid": uid }), None).await.expect("it is her job");
    let (text, _) = tokio::join!(read(body), executor.close(Duration::from_secs(60)));
    assert!(text.ends_with("data: null\n\n") && !text.contains("event: end"), "{text}");
    node.stop().await;
}
