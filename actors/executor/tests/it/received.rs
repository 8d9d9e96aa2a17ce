//! The promise: the body of a typed function sees what came with its request (FTN6 §2.2, FTN5 §3.6).

use std::net::SocketAddr;
use std::rc::Rc;

use asyncsteps_actors::clock;
use asyncsteps_core::BodyResult;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::raw::RawInput;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Incoming, KeyPolicy, ReplyBody};
use bytes::Bytes;
use futures_util::stream;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Note {
    title: String,
}

async fn note(cx: &Cx<(), Note>) -> BodyResult<String> {
    let received = cx.request().received()?;
    assert_eq!(received.begun(), clock::now());
    assert_eq!(
        received.source_address().map(|from| from.to_string()).as_deref(),
        Some("IPv4:192.0.2.7:80")
    );
    assert_eq!((received.header("x-trial"), received.has_header("x-other")), (Some("one"), false));
    assert_eq!(received.headers().count(), 3);
    assert_eq!((received.cookie("seat"), received.cookie("row")), (Some("7"), None));
    assert_eq!(received.idempotency_key()?, Some(("a key", KeyPolicy::Return)));
    assert_eq!(received.transport::<Upgrade>().map(|it| it.0), Some("certificate"));
    assert!(!received.expects_raw_output());
    let message = cx.request().raw_request().await?;
    assert_eq!((message.f(), message.rid().is_some()), ("test.notes:1.0:note", true));
    assert!(received.has_raw_input());
    let mut input = cx.raw_input()?;
    let mut text = cx.params.title.clone();
    while let Some(chunk) = input.read().await? {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(!received.has_raw_input() && cx.raw_input().is_err(), "it is taken once");
    Ok(text)
}

struct Upgrade(&'static str);

struct Head(Upgrade);

const HEADERS: [(&str, &str); 3] =
    [("x-trial", "one"), ("cookie", "theme=dark; seat=7"), ("idempotency-key", "a key")];

impl Headers for Head {
    fn header(&self, name: &str) -> Option<&str> {
        HEADERS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(HEADERS.into_iter())
    }

    fn transport(&self) -> Option<&dyn std::any::Any> {
        Some(&self.0)
    }
}

#[actix::test]
async fn an_upload_ends_where_it_is_too_long() {
    tokio::time::pause();
    let mut interface = Interface::new("test.notes:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    interface.function::<Note, String>("note").rawupload();
    let builder = Executor::builder().max_upload(10).service(interface, (), |functions| {
        functions.on("note", note);
    });
    let executor = builder.build().expect("it is complete");
    let note = async |chunks: &[&'static str], length| {
        let text = json!({ "f": "test.notes:1.0:note", "p": { "title": "" }, "rid": "C1" });
        let request = Request::parse(text.to_string().as_bytes()).expect("it is a message");
        let chunks: Vec<_> =
            chunks.iter().map(|it| Ok::<_, std::io::Error>((*it).into())).collect();
        let input = RawInput::new(stream::iter(chunks)).with_length(length);
        let peer = SocketAddr::from(([192, 0, 2, 7], 80));
        let incoming = Incoming::new(request, Channel::new(ChannelKind::Http).with_peer(peer))
            .with_headers(Rc::new(Head(Upgrade("certificate"))))
            .with_input(input);
        let (_, body) = executor.dispatch(incoming).await.into_parts();
        let ReplyBody::Message(message) = body else { panic!("it has an answer") };
        message
            .response()
            .clone()
            .into_result()
            .map_err(|error| error.description.unwrap_or_default())
    };
    assert_eq!(note(&["12345", "67890"], None).await, Ok(json!("1234567890")));
    let long = note(&["12345", "678901"], None).await.expect_err("it is too long");
    assert!(long.contains("the upload has more than 10 bytes"), "{long}");
    assert_eq!(note(&[], Some(11)).await, Err(long));
}

#[actix::test]
async fn a_body_sees_headers_cookies_time_address_and_raw_data() {
    tokio::time::pause();
    let mut interface = Interface::new("test.notes:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    interface.function::<Note, String>("note").rawupload();
    let builder = Executor::builder().service(interface, (), |functions| {
        functions.on("note", note);
    });
    let executor = builder.build().expect("it is complete");
    let peer: SocketAddr = "192.0.2.7:80".parse().expect("an address");
    let text = json!({ "f": "test.notes:1.0:note", "p": { "title": "One: " }, "rid": "C1" });
    let request = Request::parse(text.to_string().as_bytes()).expect("it is a message");
    let chunks = ["two, ", "three"].map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
    let incoming = Incoming::new(request, Channel::new(ChannelKind::Http).with_peer(peer))
        .with_headers(Rc::new(Head(Upgrade("certificate"))))
        .with_input(RawInput::new(stream::iter(chunks)));
    let answer = async |incoming| {
        let (_, body) = executor.dispatch(incoming).await.into_parts();
        let ReplyBody::Message(message) = body else { panic!("it has an answer") };
        message.response().clone().into_result()
    };
    assert_eq!(answer(incoming).await.expect("it is right"), json!("One: two, three"));
}
