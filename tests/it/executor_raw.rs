//! The promise: raw data flows through a request piece by piece, no faster than the slower side, and
//! each side notices when the other breaks it off (FTN3 §1.1, FTN6 §2.2).

use std::time::Duration;

use asyncsteps_core::Code;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::raw::{RawBody, RawInput, RawOutput};
use asyncsteps_executor::{Executor, Incoming, ReplyBody, Returns, Service, Steps};
use asyncsteps_support::conform;
use asyncsteps_support::log::Log;
use bytes::Bytes;
use expect_test::expect;
use futures_util::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

type Upload = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// What `upload` returns.
#[derive(Serialize, JsonSchema)]
struct Uploaded {
    size: i32,
    sum: i32,
    name: String,
    n: i32,
}

#[derive(Deserialize, JsonSchema)]
struct Download {
    n: i32,
    status: i32,
}

#[derive(Debug, Code, thiserror::Error)]
#[error("an error of mine")]
enum RawError {
    #[code("MyError", public)]
    #[error("Negative size")]
    Negative,
    #[code("MyError")]
    #[error("at the end")]
    AtEnd,
}

struct Raw;

impl Service for Raw {
    type Errors = (RawError,);
}

fn upload_of(steps: &Steps<Raw, Value, RawInput>) -> Returns<Uploaded> {
    steps
        .run("read", async |_, mut input| {
            let mut size = 0;
            while let Some(chunk) = input.read().await? {
                size += i32::try_from(chunk.len())?;
            }
            Ok(size)
        })
        .then("tell", async |_, size| Ok(Uploaded { size, sum: 0, name: String::new(), n: 0 }))
        .returns()
}

fn pipe_of(steps: &Steps<Raw, Value, RawInput>) -> Returns<RawOutput> {
    steps
        .run("pipe", async |cx, mut input| {
            let mut output = cx.raw_output("application/octet-stream")?;
            while let Some(chunk) = input.read().await? {
                output.write(chunk).await?;
            }
            Ok(output)
        })
        .returns()
}

fn download_of(steps: &Steps<Raw, Download>) -> Returns<RawOutput> {
    steps
        .run("write", async |cx, ()| {
            let Download { n, status } = *cx.params;
            if n < 0 {
                return Err(RawError::Negative.into());
            }
            let status = if status == 500 { 200 } else { status };
            cx.head(|head| head.set_status(status.try_into().expect("a status")).map(|_| ()))?;
            let mut output = cx.raw_output("text/x-test")?;
            for _ in 0..n {
                output.write("chunk").await?;
            }
            Ok(output)
        })
        .then(
            "end",
            async |cx, output| {
                if cx.params.status == 500 { Err(RawError::AtEnd.into()) } else { Ok(output) }
            },
        )
        .returns()
}

/// `upload` and `pipe` of `conform.main`; `download` writes its chunks `n` times and then fails if
/// `status` is 500.
fn executor() -> Executor {
    Executor::builder()
        .service(conform::definition("conform.main:1.2"), Raw, |functions| {
            functions.others_not_implemented();
            functions.on("upload", upload_of).on("pipe", pipe_of).on("download", download_of);
        })
        .build()
        .expect("a right configuration")
}

fn request(function: &str, params: &Value) -> Incoming {
    let message = json!({ "f": format!("conform.main:1.2:{function}"), "p": params }).to_string();
    let request = Request::parse(message.as_bytes()).expect("a message");
    Incoming::new(request, Channel::new(ChannelKind::Http))
}

/// An upload that a test feeds; one chunk may wait.
fn upload() -> (Upload, RawInput) {
    let (chunks, stream) = mpsc::channel(1);
    (
        chunks,
        RawInput::new(stream::unfold(stream, async |mut stream| {
            Some((stream.recv().await?, stream))
        })),
    )
}

async fn raw(executor: &Executor, incoming: Incoming) -> RawBody {
    match executor.dispatch(incoming).await.into_parts().1 {
        ReplyBody::Raw(body) => body,
        other @ (ReplyBody::Message(_) | ReplyBody::Nothing) => panic!("{other:?}"),
    }
}

async fn message(executor: &Executor, incoming: Incoming) -> String {
    let bytes = executor.dispatch(incoming).await.into_bytes().expect("a message");
    String::from_utf8(bytes).expect("JSON is text")
}

#[actix::test]
async fn an_upload_is_read_to_its_end() {
    let executor = executor();
    let (chunks, input) = upload();
    let feed = actix_rt::spawn(async move {
        for chunk in ["one", "", "three"] {
            chunks.send(Ok(chunk.into())).await.unwrap();
        }
    });
    let incoming = request("upload", &json!({ "name": "x" })).with_input(input);
    expect![[r#"{"r":{"n":0,"name":"","size":8,"sum":0}}"#]]
        .assert_eq(&message(&executor, incoming).await);
    feed.await.unwrap();
}

#[actix::test]
async fn an_upload_that_breaks_off_fails() {
    let (executor, log) = (executor(), Log::default());
    let _guard = log.open();
    let (chunks, input) = upload();
    chunks.send(Err(std::io::ErrorKind::ConnectionReset.into())).await.unwrap();
    let incoming = request("upload", &json!({ "name": "x" })).with_input(input);
    expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]]
        .assert_eq(&message(&executor, incoming).await);
    // it is no fault of the service
    let log = log.take();
    assert!(log.contains("the client broke its upload off") && !log.contains("ERROR"), "{log}");
}

#[actix::test]
async fn what_a_handler_may_not_set_is_told_to_the_log_alone() {
    let (executor, log) = (executor(), Log::default());
    let _guard = log.open();
    let incoming = request("download", &json!({ "n": 1, "status": 600 }));
    expect![[r#"{"e":"InternalError","edesc":"Not expected error"}"#]]
        .assert_eq(&message(&executor, incoming).await);
    let log = log.take();
    assert!(log.contains("600 is no status of an answer"), "{log}");
}

#[actix::test]
async fn raw_data_that_is_not_declared_is_refused() {
    let executor = executor();
    let (_chunks, input) = upload();
    let incoming = request("download", &json!({ "n": 1 })).with_input(input);
    expect![[r#"{"e":"InvalidRequest","edesc":"Raw upload is not allowed: parameters are in the query of the URL, or an object in a body of the type application/json"}"#]]
        .assert_eq(&message(&executor, incoming).await);
    let without = request("upload", &json!({ "name": "x" }));
    expect![[r#"{"e":"InternalError","edesc":"Raw input is not available"}"#]]
        .assert_eq(&message(&executor, without).await);
    let frame = json!({ "f": "conform.main:1.2:download", "p": { "n": 1 } }).to_string();
    let frame = Request::parse(frame.as_bytes()).unwrap();
    let frame = Incoming::new(frame, Channel::new(ChannelKind::WebSocket));
    expect![[r#"{"e":"InternalError","edesc":"Raw result is not supported by this channel"}"#]]
        .assert_eq(&message(&executor, frame).await);
}

#[actix::test]
async fn a_raw_result_has_a_head_and_a_body() {
    let executor = executor();
    let incoming = request("download", &json!({ "n": 3, "status": 201 }));
    let (head, body) = executor.dispatch(incoming).await.into_parts();
    let head = head.expect("a head");
    assert_eq!(head.status(), Some(201));
    assert_eq!(head.headers().collect::<Vec<_>>(), [("content-type", "text/x-test")]);
    let ReplyBody::Raw(body) = body else { panic!("{body:?}") };
    let chunks: Vec<_> = body.map(|chunk| chunk.expect("a chunk")).collect().await;
    assert_eq!(chunks, ["chunk", "chunk", "chunk"]);
    assert_eq!(executor.in_flight_count(), 0);
}

#[actix::test]
async fn an_error_before_the_first_byte_is_a_message() {
    let incoming = request("download", &json!({ "n": -1 }));
    expect![[r#"{"e":"MyError","edesc":"Negative size"}"#]]
        .assert_eq(&message(&executor(), incoming).await);
}

#[actix::test]
async fn an_error_later_breaks_the_body_off() {
    let executor = executor();
    let incoming = request("download", &json!({ "n": 1, "status": 500 }));
    let mut body = raw(&executor, incoming).await;
    assert_eq!(body.next().await.unwrap().unwrap(), "chunk");
    assert!(body.next().await.unwrap().is_err());
}

#[actix::test]
async fn a_handler_writes_no_faster_than_its_client_reads() {
    tokio::time::pause();
    let executor = executor();
    let (chunks, input) = upload();
    let mut body = raw(&executor, request("pipe", &json!({})).with_input(input)).await;
    // more than the request's time in all, but never so long without data
    for n in 0_u8..20 {
        chunks.send(Ok(vec![n; 1_100].into())).await.unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(body.next().await.unwrap().unwrap(), [n; 1_100].as_slice());
    }
    // the client has stopped reading: the buffer between takes some chunks, and no more
    let mut taken = 0;
    while tokio::time::timeout(Duration::from_secs(1), chunks.reserve()).await.is_ok() {
        chunks.send(Ok("x".into())).await.unwrap();
        taken += 1;
        assert!(taken < 10, "the handler does not wait");
    }
}

#[actix::test]
async fn data_that_stands_still_ends_the_request() {
    tokio::time::pause();
    let executor = executor();
    let (_chunks, input) = upload();
    let incoming = request("upload", &json!({ "name": "x" })).with_input(input);
    expect![[r#"{"e":"InternalError"}"#]].assert_eq(&message(&executor, incoming).await);
}

#[actix::test]
async fn an_upload_that_trickles_ends_and_one_that_is_fast_enough_does_not() {
    tokio::time::pause();
    let executor = executor();
    for (length, expected) in [
        (1, r#"{"e":"InternalError"}"#),
        (1_100, r#"{"r":{"n":0,"name":"","size":33000,"sum":0}}"#),
    ] {
        let (chunks, input) = upload();
        let feed = actix_rt::spawn(async move {
            for n in 0..30 {
                if chunks.send(Ok(vec![0; length].into())).await.is_err() {
                    return n;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            30
        });
        let incoming = request("upload", &json!({ "name": "x" })).with_input(input);
        assert_eq!(message(&executor, incoming).await, expected);
        // the request has five seconds; the chunk of the last moment may be taken or not
        let taken = feed.await.expect("no panic");
        assert!(if length == 1 { (5..=6).contains(&taken) } else { taken == 30 }, "{taken}");
    }
}

#[actix::test]
async fn a_slow_client_gets_all_and_one_that_stops_is_given_up() {
    tokio::time::pause();
    let executor = executor();
    let download = || request("download", &json!({ "n": 6, "status": 200 }));
    let mut slow = raw(&executor, download()).await;
    for _ in 0..6 {
        // far more than the time of the request
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(slow.next().await.expect("a chunk").expect("no error"), "chunk");
    }
    assert!(slow.next().await.is_none(), "that is all");
    assert_eq!(executor.in_flight_count(), 0);

    let mut stopped = raw(&executor, download()).await;
    tokio::time::advance(Duration::from_secs(61)).await;
    let mut rest = Vec::new();
    while let Some(chunk) = stopped.next().await {
        rest.push(chunk.is_ok());
    }
    assert_eq!(rest, [true, true, false], "what was on its way, then the end");
    assert_eq!(executor.in_flight_count(), 0);
}

#[actix::test]
async fn a_client_that_goes_away_ends_the_flow() {
    let executor = executor();
    let (chunks, input) = upload();
    let incoming = request("pipe", &json!({})).with_input(input);
    let body = raw(&executor, incoming).await;
    assert_eq!(executor.in_flight_count(), 1);
    drop(body);
    // the upload ends because the flow that read it is gone
    chunks.closed().await;
    assert_eq!(executor.in_flight_count(), 0);
}
