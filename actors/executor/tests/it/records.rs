//! The promise: the record of a request is small, whatever its caller sends.

use asyncsteps_core::Template;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::observe::Retention;
use asyncsteps_executor::{Executor, Incoming, RequestSteps as _};
use serde_json::json;

const DEFINITION: &str = r#"{
    "iface": "test.till",
    "version": "1.0",
    "ftn3rev": "1.9",
    "funcs": { "pay": { "result": "boolean" } },
    "requires": [ "AllowAnonymous" ]
}"#;

fn executor() -> Executor {
    let source = Source::texts([("test.till-1.0-iface.json", DEFINITION)]);
    let name = "test.till:1.0".parse().expect("a name");
    let definition = Loader::new([source]).load(&name).expect("a definition");
    let pay = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(true));
    });
    let builder = Executor::builder().interface(definition, |functions| {
        functions.add("pay", &pay);
    });
    builder.record(Retention::ALL).build().expect("a right configuration")
}

/// The number of the request in the record of a request that has this number.
async fn recorded(rid: &str) -> String {
    let executor = executor();
    let message = json!({ "f": "test.till:1.0:pay", "p": {}, "rid": rid });
    let request = Request::parse(message.to_string().as_bytes()).expect("a request");
    let incoming = Incoming::new(request, Channel::new(ChannelKind::Http));
    let answer = executor.dispatch(incoming).await.into_bytes().expect("an answer");
    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
    assert_eq!(answer["rid"], rid, "the caller gets its own back");
    let [record] = &executor.recent()[..] else { panic!("one request is kept: {answer}") };
    record.rid.clone().expect("it has one")
}

#[actix::test]
async fn a_long_number_of_a_request_is_cut_between_characters() {
    let fits = format!("C{}", "é".repeat(1_023));
    assert_eq!(recorded(&fits).await, fits);
    let long = format!("C{}", "é".repeat(30_000));
    let cut = recorded(&long).await;
    let kept = cut.strip_suffix("… (60001 bytes)").expect("it says that it was cut");
    assert_eq!(kept, fits);
}
