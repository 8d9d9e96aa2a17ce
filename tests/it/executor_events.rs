//! The promise: an executor gives results as FTN6 §2.9 says, tells its hooks what happens, and keeps
//! to the sizes and times that are declared.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Error, Template};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::iface::{Loader, Source};
use asyncsteps_executor::message::{Request, Response};
use asyncsteps_executor::{
    Builder, Direction, Executor, Hooks, Incoming, RefusalReason, ReplyBody, RequestSteps,
};
use asyncsteps_support::conform;
use expect_test::expect;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

fn main_with(builder: Builder, function: &str, template: &Template) -> Executor {
    builder
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
            functions.add(function, template);
        })
        .build()
        .expect("a right configuration")
}

fn incoming(function: &str, params: &Value) -> Incoming {
    let message = json!({ "f": format!("conform.main:1.2:{function}"), "p": params }).to_string();
    let request = Request::parse(message.as_bytes()).expect("a message");
    Incoming::new(request, Channel::new(ChannelKind::Http)).with_size(message.len())
}

async fn answer(executor: &Executor, incoming: Incoming) -> String {
    let bytes = executor.dispatch(incoming).await.into_bytes().expect("a message");
    String::from_utf8(bytes).expect("JSON is text")
}

#[actix::test]
async fn results_are_merged_in_their_order() {
    let steps = |returned: Option<Value>, replaced: Option<Value>| {
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let variables = asi.request_mut()?.result_mut();
                variables.insert("msg".into(), "map".into());
                variables.insert("n".into(), 1.into());
                variables.insert("opt".into(), "map".into());
                if let Some(replaced) = &replaced {
                    asi.reply(replaced)?;
                }
                match &returned {
                    Some(returned) => asi.success((returned.clone(),)),
                    None => Ok(()),
                }
            });
        })
    };
    let returned = json!({ "msg": "returned", "n": 2 });
    let replaced = json!({ "msg": "replaced", "n": 3, "opt": null });
    let part = json!({ "opt": "part" });
    let mut out = String::new();
    for (returned, replaced) in [
        (None, None),
        (Some(&returned), None),
        (None, Some(&replaced)),
        (Some(&returned), Some(&replaced)),
        // what one says of a variable goes with what the others say of others
        (Some(&returned), Some(&part)),
        (Some(&part), None),
    ] {
        let template = steps(returned.cloned(), replaced.cloned());
        let executor = main_with(Executor::builder(), "echo", &template);
        out += &answer(&executor, incoming("echo", &json!({ "msg": "" }))).await;
        out.push('\n');
    }
    expect![[r#"
        {"r":{"msg":"map","n":1,"opt":"map"}}
        {"r":{"msg":"returned","n":2,"opt":"map"}}
        {"r":{"msg":"replaced","n":3,"opt":null}}
        {"r":{"msg":"replaced","n":3,"opt":null}}
        {"r":{"msg":"returned","n":2,"opt":"part"}}
        {"r":{"msg":"map","n":1,"opt":"part"}}
    "#]]
    .assert_eq(&out);
}

/// An executor whose functions end with a step that returns what a name says, with and without a
/// result variable beside it.
fn returning() -> Executor {
    const DEFINITION: &str = r#"{
        "iface": "test.returns", "version": "1.0", "ftn3rev": "1.9",
        "funcs": {
            "alone": { "params": { "what": "string" }, "result": "any" },
            "beside": { "params": { "what": "string" }, "result": { "n": "integer", "s": "string" } }
        },
        "requires": [ "AllowAnonymous" ]
    }"#;
    let returns = |asi: &mut AsyncSteps| match asi.param::<String>("what")?.as_str() {
        "map" => asi.success((Map::from_iter([("s".to_owned(), json!("map"))]),)),
        "number" => asi.success(7i32),
        "text" => asi.success("text"),
        "bool" => asi.success(true),
        "type" => asi.success((Duration::ZERO,)),
        _ => Ok(()),
    };
    let alone = Template::build(|asi| {
        asi.add(move |asi, ()| returns(asi));
    });
    let beside = Template::build(|asi| {
        asi.add(move |asi, ()| {
            let variables = asi.request_mut()?.result_mut();
            variables.insert("n".into(), 1.into());
            variables.insert("s".into(), "variable".into());
            returns(asi)
        });
    });
    let source = Source::texts([("test.returns-1.0-iface.json", DEFINITION)]);
    let definition = Loader::new([source]).load(&"test.returns:1.0".parse().expect("a name"));
    Executor::builder()
        .interface(definition.expect("a definition"), |functions| {
            functions.add("alone", &alone).add("beside", &beside);
        })
        .build()
        .expect("a right configuration")
}

#[actix::test]
async fn the_value_of_the_last_step_is_taken_or_refused_and_never_dropped() {
    let executor = returning();
    let mut out = String::new();
    for function in ["alone", "beside"] {
        for what in ["nothing", "map", "number", "text", "bool", "type"] {
            let message =
                json!({ "f": format!("test.returns:1.0:{function}"), "p": { "what": what } });
            let request = Request::parse(message.to_string().as_bytes()).expect("a message");
            let incoming = Incoming::new(request, Channel::new(ChannelKind::Http));
            out += &format!("{function} {what} {}\n", answer(&executor, incoming).await);
        }
    }
    expect![[r#"
        alone nothing {"r":{}}
        alone map {"r":{"s":"map"}}
        alone number {"r":7}
        alone text {"r":"text"}
        alone bool {"r":true}
        alone type {"e":"InternalError","edesc":"Invalid message: r"}
        beside nothing {"r":{"n":1,"s":"variable"}}
        beside map {"r":{"n":1,"s":"map"}}
        beside number {"e":"InternalError","edesc":"Invalid message: r"}
        beside text {"e":"InternalError","edesc":"Invalid message: r"}
        beside bool {"e":"InternalError","edesc":"Invalid message: r"}
        beside type {"e":"InternalError","edesc":"Invalid message: r"}
    "#]]
    .assert_eq(&out);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().expect("nobody panics").push(line);
    }
}

impl Hooks for Log {
    fn request(&self, request: &Request, channel: &Channel) {
        let function = request.function_name().map(|name| name.to_string());
        self.add(format!("request {} {}", channel.kind().name(), function.unwrap_or_default()));
    }

    fn response(&self, response: &Response, _: &Channel) {
        self.add(format!("response {}", response.code().unwrap_or("success")));
    }

    fn not_expected(&self, function: &str, error: &Error) {
        self.add(format!("notExpected {function} {error}"));
    }

    fn ready(&self) {
        self.add("ready".to_owned());
    }

    fn close(&self) {
        self.add("close".to_owned());
    }

    fn message(&self, bytes: &[u8], way: Direction, _: &Channel) {
        self.add(format!("message {way:?} {}", String::from_utf8_lossy(bytes)));
    }
}

#[actix::test]
async fn hooks_get_the_events_of_the_executor() {
    let log = Log::default();
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.error("Secret", "for the log"));
    });
    let executor = main_with(Executor::builder().hooks(log.clone()), "answer", &template);
    answer(&executor, incoming("answer", &json!({}))).await;
    answer(&executor, incoming("noSuch", &json!({}))).await;
    executor.trace_message(b"{}", Direction::Out, &Channel::local());
    executor.close(Duration::ZERO).await;
    executor.close(Duration::ZERO).await;
    let log = log.0.lock().unwrap().join("\n");
    expect![[r#"
        ready
        request HTTP conform.main:1.2:answer
        notExpected conform.main:1.2:answer Secret: for the log
        response InternalError
        request HTTP conform.main:1.2:noSuch
        response InvalidRequest
        message Out {}
        close"#]]
    .assert_eq(&log);
}

#[actix::test]
async fn sizes_are_those_of_the_function() {
    let big = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply(json!({ "msg": "x".repeat(70_000), "n": 1, "opt": null })));
    });
    let executor = main_with(Executor::builder(), "echo", &big);
    let reply = executor.dispatch(incoming("echo", &json!({ "msg": "x".repeat(70_000) }))).await;
    let (_, ReplyBody::Message(refused)) = reply.into_parts() else { panic!("no message") };
    // HTTP answers it with the status 413
    assert_eq!(refused.refusal_reason(), Some(RefusalReason::TooLarge));
    let refused = String::from_utf8(refused.into_bytes()).expect("JSON");
    assert!(refused.contains("Request size has exceeded the limit"), "{refused}");
    // `echo` may answer 64 KiB
    let executor = main_with(Executor::builder().unchecked_results(), "echo", &big);
    expect![[r#"{"e":"InternalError","edesc":"Response size has exceeded the limit"}"#]]
        .assert_eq(&answer(&executor, incoming("echo", &json!({ "msg": "" }))).await);
}

#[actix::test]
async fn results_go_unchecked_if_that_is_asked_for() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| asi.reply("no integer"));
    });
    let executor = main_with(Executor::builder().unchecked_results(), "answer", &template);
    expect![[r#"{"r":"no integer"}"#]]
        .assert_eq(&answer(&executor, incoming("answer", &json!({}))).await);
}

#[actix::test]
async fn a_step_may_give_its_request_another_time() {
    tokio::time::pause();
    let wait = |limit: u64| {
        Template::build(move |asi| {
            asi.add(move |asi, ()| {
                asi.cancel_after(Duration::from_secs(limit))?;
                asi.sleep(Duration::from_secs(30));
                asi.add(|asi, ()| asi.reply(42));
                Ok(())
            });
        })
    };
    let begin = Instant::now();
    let long = main_with(Executor::builder(), "answer", &wait(0));
    assert_eq!(answer(&long, incoming("answer", &json!({}))).await, r#"{"r":42}"#);
    assert!(begin.elapsed() >= Duration::from_secs(30));
    let begin = Instant::now();
    let short = main_with(Executor::builder(), "answer", &wait(1));
    assert_eq!(answer(&short, incoming("answer", &json!({}))).await, r#"{"e":"InternalError"}"#);
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[actix::test]
async fn the_catalog_has_all_hosted_interfaces() {
    let template = Template::build(|_| {});
    let executor = Executor::builder()
        .interface(conform::definition("conform.derived:1.1"), |functions| {
            functions.others_not_implemented();
            functions.add("bye", &template);
        })
        .interface(conform::definition("conform.main:1.2"), |functions| {
            functions.others_not_implemented();
        })
        .build()
        .unwrap();
    let listing = executor.catalog();
    let names: Vec<&str> =
        listing.interfaces.iter().map(|interface| interface.iface.as_str()).collect();
    assert_eq!(names, ["conform.derived", "conform.main"]);
    let functions = serde_json::to_string_pretty(&listing.interfaces[0].functions).unwrap();
    expect![[r#"
        [
          {
            "name": "bye",
            "params": [],
            "result": "string",
            "throws": [],
            "rawupload": false,
            "rawresult": false,
            "heavy": false,
            "implemented": true
          },
          {
            "name": "hello",
            "params": [
              {
                "name": "name",
                "type": "Name",
                "required": true
              },
              {
                "name": "lang",
                "type": "string",
                "required": false,
                "default": "en"
              }
            ],
            "result": {
              "greeting": "string",
              "lang": "string"
            },
            "throws": [
              "NameError"
            ],
            "rawupload": false,
            "rawresult": false,
            "heavy": false,
            "implemented": false
          }
        ]"#]]
    .assert_eq(&functions);
    // in the form of FTN3, inherited and imported ones too
    let types = listing.interfaces[1].types.iter();
    let types: String = types.map(|(name, kind)| format!("{name}: {kind}\n")).collect();
    expect![[r#"
        BadKind: {"items":["missing","extra","type"],"type":"enum"}
        BaseId: {"min":1,"type":"integer"}
        Code: {"regex":"[0-9]{3}","type":"string"}
        Color: {"items":["red","green","blue",7],"type":"enum"}
        Counters: {"elemtype":"integer","type":"map"}
        Flags: {"items":["r","w","x",1,2],"type":"set"}
        Ident: {"type":["SmallInt","Word"]}
        IntList: {"elemtype":"integer","maxlen":4,"minlen":1,"type":"array"}
        Message: {"maxlen":1024,"type":"string"}
        Point: {"fields":{"label":{"optional":true,"type":"string"},"x":{"optional":false,"type":"integer"},"y":{"optional":false,"type":"integer"}},"type":"map"}
        Ratio: {"max":1.5,"min":0,"type":"number"}
        SmallInt: {"max":10,"min":-10,"type":"integer"}
        UserId: {"max":1000,"type":"BaseId"}
        Word: {"maxlen":8,"minlen":2,"regex":"^[a-z]+$","type":"string"}
        Words: {"elemtype":"Word","type":"array"}
    "#]].assert_eq(&types);
    let function = |name: &str| {
        let mut functions = listing.interfaces[1].functions.iter();
        let function = functions.find(|function| function.name == name).unwrap();
        serde_json::to_string(function).unwrap() + "\n"
    };
    let some = ["variant", "notify", "download", "upload", "answer"].map(function).concat();
    expect![[r#"
        {"name":"variant","params":[{"name":"v","type":["integer","string"],"required":true}],"result":{"v":["integer","string"]},"throws":[],"rawupload":false,"rawresult":false,"heavy":false,"implemented":false}
        {"name":"notify","params":[{"name":"v","type":"integer","required":true}],"throws":[],"rawupload":false,"rawresult":false,"heavy":false,"implemented":false}
        {"name":"download","params":[{"name":"n","type":"integer","required":true},{"name":"status","type":"integer","required":false,"default":200}],"throws":["MyError"],"rawupload":false,"rawresult":true,"heavy":false,"implemented":false}
        {"name":"upload","params":[{"name":"name","type":"string","required":true},{"name":"n","type":"integer","required":false,"default":0}],"result":{"n":"integer","name":"string","size":"integer","sum":"integer"},"throws":[],"rawupload":true,"rawresult":false,"heavy":false,"implemented":false}
        {"name":"answer","params":[],"result":"integer","throws":[],"rawupload":false,"rawresult":false,"heavy":false,"implemented":false}
    "#]].assert_eq(&some);
}
