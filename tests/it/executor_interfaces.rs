//! The promise: an interface is called under its own name and those that it inherits from, under each
//! with the conditions of that name, and strangers learn nothing of private ones (FTN3 §2.3, §2.4).

use std::sync::Arc;

use asyncsteps_core::Template;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Executor, Incoming, RequestSteps};
use expect_test::expect;
use serde_json::{Value, json};

/// `test.base:1.3`, which is private, and two public interfaces that inherit from it.
fn load(id: &str) -> Arc<Definition> {
    let hello = json!({ "result": "string" });
    let base = json!({ "iface": "test.base", "version": "1.3", "ftn3rev": "1.9",
        "funcs": { "hello": hello } });
    let derived = |name: &str| {
        json!({ "iface": name, "version": "1.0", "ftn3rev": "1.9", "inherit": "test.base:1.3",
            "funcs": { "more": hello }, "requires": ["AllowAnonymous"] })
    };
    let newer = json!({ "iface": "test.base", "version": "1.4", "ftn3rev": "1.9",
        "funcs": { "hello": hello } });
    let files = [
        ("test.base-1.3-iface.json", base),
        ("test.base-1.4-iface.json", newer),
        ("test.one-1.0-iface.json", derived("test.one")),
        ("test.two-1.0-iface.json", derived("test.two")),
    ];
    let source = Source::texts(files.map(|(name, file)| (name, file.to_string())));
    Loader::new([source]).load(&id.parse().expect("a name")).expect("a definition")
}

fn hello() -> Template {
    Template::build(|asi| {
        asi.add(|asi, ()| asi.reply("hello"));
    })
}

fn executor(id: &str) -> Executor {
    let builder = Executor::builder().interface(load(id), |functions| {
        functions.others_not_implemented();
        functions.add("hello", &hello());
    });
    builder.build().expect("a right configuration")
}

/// What an anonymous caller gets for each function.
async fn answers(executor: &Executor, functions: &[&str]) -> String {
    let mut out = String::new();
    for function in functions {
        let request =
            Request::parse(json!({ "f": function }).to_string().as_bytes()).expect("a message");
        let reply =
            executor.dispatch(Incoming::new(request, Channel::new(ChannelKind::Http))).await;
        out += &String::from_utf8(reply.into_bytes().expect("a message")).expect("text");
        out.push('\n');
    }
    out
}

#[actix::test]
async fn an_anonymous_caller_learns_nothing_of_a_private_interface() {
    let functions = [
        "test.base:1.3:hello",
        "test.base:1.3:noSuch",
        "test.base:1.4:hello",
        "test.base:2.0:hello",
        "test.none:1.0:hello",
    ];
    expect![[r#"
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"UnknownInterface","edesc":"Unknown interface: test.none"}
    "#]]
    .assert_eq(&answers(&executor("test.base:1.3"), &functions).await);
}

#[actix::test]
async fn a_private_parent_stays_private_under_its_name() {
    let executor = executor("test.one:1.0");
    let functions = ["test.one:1.0:hello", "test.base:1.3:hello", "test.base:1.3:more"];
    expect![[r#"
        {"r":"hello"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
        {"e":"SecurityError","edesc":"Anonymous not allowed"}
    "#]]
    .assert_eq(&answers(&executor, &functions).await);
    let known: Value = executor.call_as_system("test.base:1.3:hello", ()).await.unwrap();
    assert_eq!(known, "hello");
}

#[actix::test]
async fn a_level_that_is_not_known_counts_as_the_highest_and_is_named() {
    let file = json!({ "iface": "test.level", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "f": { "seclvl": "BiometricOps", "result": "string" } },
        "requires": ["AllowAnonymous"] });
    let source = Source::texts([("test.level-1.0-iface.json", file.to_string())]);
    let definition = Loader::new([source]).load(&"test.level:1.0".parse().unwrap()).unwrap();
    let executor = Executor::builder()
        .interface(definition, |functions| {
            functions.others_not_implemented();
            functions.add("f", &hello());
        })
        .build()
        .unwrap();
    expect![[r#"
        {"e":"PleaseReauth","edesc":"BiometricOps"}
    "#]]
    .assert_eq(&answers(&executor, &["test.level:1.0:f"]).await);
    assert!(executor.call_as_system::<Value>("test.level:1.0:f", ()).await.is_ok());
}

#[actix::test]
async fn a_name_leads_to_one_interface() {
    let builder = |ids: &[&str]| {
        ids.iter().fold(Executor::builder(), |builder, id| {
            builder.interface(load(id), |functions| {
                functions.others_not_implemented();
            })
        })
    };
    let mut out = String::new();
    for ids in [
        &["test.one:1.0", "test.two:1.0"][..],
        &["test.base:1.3", "test.one:1.0", "test.two:1.0"],
        &["test.one:1.0", "test.one:1.0"],
        &["test.base:1.3", "test.base:1.3"],
    ] {
        let error = builder(ids).build().expect_err("a name is taken");
        out += &format!("{error}\n");
    }
    expect![[r#"
        test.two:1.0 inherits from test.base:1.3, as another hosted interface does
        test.two:1.0 inherits from test.base:1.3, as another hosted interface does
        test.one:1.0 inherits from test.base:1.3, as another hosted interface does
        test.base:1.3 is registered already
    "#]]
    .assert_eq(&out);
    // an interface that is refused takes none of its names
    let executor = builder(&["test.one:1.0"]).build().unwrap();
    assert!(executor.register(load("test.two:1.0"), |_| {}).is_err());
    expect![[r#"
        {"e":"UnknownInterface","edesc":"Unknown interface: test.two"}
    "#]]
    .assert_eq(&answers(&executor, &["test.two:1.0:hello"]).await);
}

#[actix::test]
async fn an_interface_that_is_hosted_by_itself_keeps_its_name() {
    let orders = [
        ["test.base:1.3", "test.one:1.0"],
        ["test.one:1.0", "test.base:1.3"],
        ["test.one:1.0", "test.base:1.4"],
    ];
    for ids in orders {
        let executor = ids.into_iter().fold(Executor::builder(), |builder, id| {
            let name = Template::build(|asi| {
                asi.add(move |asi, ()| asi.reply(id));
            });
            builder.interface(load(id), |functions| {
                functions.others_not_implemented();
                functions.add("hello", &name);
            })
        });
        let executor = executor.build().expect("a right configuration");
        for id in ids {
            let called: Value = executor.call_as_system(&format!("{id}:hello"), ()).await.unwrap();
            assert_eq!(called, id);
        }
        let older: Value = executor.call_as_system("test.base:1.3:hello", ()).await.unwrap();
        assert!(ids.contains(&older.as_str().unwrap()) && older != "test.one:1.0", "{older}");
    }
}

#[actix::test]
async fn an_interface_with_binary_data_takes_binary_codings_only() {
    const NAME: &str = "test.bin:1.0:hello";
    let file = json!({ "iface": "test.bin", "version": "1.0", "ftn3rev": "1.9",
        "funcs": { "hello": { "result": "string" } },
        "requires": ["AllowAnonymous", "BinaryData"] });
    let source = Source::texts([("test.bin-1.0-iface.json", file.to_string())]);
    let definition =
        Loader::new([source]).load(&"test.bin:1.0".parse().expect("a name")).expect("a definition");
    let builder = Executor::builder().interface(definition, |functions| {
        functions.add("hello", &hello());
    });
    let executor = builder.build().expect("a right configuration");
    let json = answers(&executor, &[NAME]).await;
    let refused = r#"{"e":"InvalidRequest","edesc":"Binary message coding is required: CBOR or MessagePack"}"#;
    assert_eq!(json.trim_end(), refused);
    // a map of one text, and the text of 18 bytes
    for (mark, head) in [("CBOR", b"\xa1\x61f\x72"), ("MPCK", b"\x81\xa1f\xb2")] {
        let message = [mark.as_bytes(), head, NAME.as_bytes()].concat();
        let request = Request::parse(&message).expect("a message");
        let channel = Channel::new(ChannelKind::Http);
        let reply = executor.dispatch(Incoming::new(request, channel)).await;
        let answer = reply.into_bytes().expect("a message");
        assert!(answer.starts_with(mark.as_bytes()) && answer.ends_with(b"hello"), "{answer:?}");
    }
    let within = executor.call_as_system::<Value>(NAME, json!({})).await;
    assert_eq!(within.expect("values within the process have no coding"), json!("hello"));
}
