//! The keys that callers send with their requests.

use std::any::Any;
use std::rc::Rc;

use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Caller, Executor, Incoming, ReplyBody, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::Query;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::lab::Nothing;
use crate::node::run;
use asyncsteps_journal::TokioClock;

struct Counter;

impl Service for Counter {
    type Errors = ();
}

fn count(steps: &Steps<Counter, Nothing>) -> Returns<i32> {
    steps.run("count", async |_, ()| Ok(1)).recorded().returns()
}

/// The header of the key; none that is text if it is empty.
struct Key(Option<&'static str>);

impl Headers for Key {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.filter(|_| self.has_header(name))
    }

    fn has_header(&self, name: &str) -> bool {
        name == "idempotency-key"
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.0.into_iter().map(|key| ("idempotency-key", key)))
    }

    fn transport(&self) -> Option<&dyn Any> {
        None
    }
}

/// Sends a request with the header; gives the answer.
async fn send(executor: &Executor, kind: ChannelKind, key: Option<&'static str>) -> Value {
    send_with(executor, kind, Key(key)).await
}

async fn send_with(
    executor: &Executor,
    kind: ChannelKind,
    headers: impl Headers + 'static,
) -> Value {
    ask_over(executor, kind, Request::new("test.counter:1.0:count", Map::new()), headers).await
}

async fn ask(executor: &Executor, request: Request, key: Key) -> Value {
    ask_over(executor, ChannelKind::Http, request, key).await
}

async fn ask_over(
    executor: &Executor,
    kind: ChannelKind,
    request: Request,
    headers: impl Headers + 'static,
) -> Value {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let incoming = Incoming::new(request, Channel::new(kind)).with_caller(Caller::from(&ann));
    let reply = executor.dispatch(incoming.with_headers(Rc::new(headers))).await;
    let ReplyBody::Message(message) = reply.into_parts().1 else { panic!("no message") };
    match message.response().clone().into_result() {
        Ok(result) => json!(result),
        Err(error) => json!(format!("{}: {}", error.code, error.description.unwrap_or_default())),
    }
}

fn process() -> (Durable, Executor) {
    let clock = TokioClock::start();
    let durable = Durable::new(Memory::new(clock));
    let interface = Interface::new("test.counter:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Counter, |functions| {
        durable.on(functions, "count", count);
    });
    (durable, executor.build().expect("the interface is complete"))
}

#[test]
fn a_key_in_the_header_is_of_a_request_and_not_of_a_connection() {
    run(async {
        for (kind, requests) in [(ChannelKind::Http, 1), (ChannelKind::WebSocket, 2)] {
            let (durable, executor) = process();
            let _node = durable.start(&executor).await.expect("the journal gives a lease");
            for _ in 0..2 {
                assert_eq!(send(&executor, kind, Some("key 1")).await, json!(1), "{kind:?}");
            }
            let all = Query { limit: 9, ..Query::default() };
            assert_eq!(durable.list(all).await.expect("a list").len(), requests, "{kind:?}");
        }
    });
}

/// Two headers of one name.
struct TwoKeys([&'static str; 2]);

impl Headers for TwoKeys {
    fn header(&self, name: &str) -> Option<&str> {
        (name == "idempotency-key").then_some(self.0[0])
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(self.0.iter().map(|key| ("idempotency-key", *key)))
    }
}

#[test]
fn two_keys_in_headers_are_refused_and_none_of_them_counts() {
    run(async {
        let (durable, executor) = process();
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        for keys in [["one", "two"], ["two", "one"], ["one", "one"]] {
            let answer = send_with(&executor, ChannelKind::Http, TwoKeys(keys)).await;
            let text = answer.as_str().unwrap_or_default();
            assert!(text.starts_with("InvalidRequest: The one header"), "{answer}");
        }
        let all = Query { limit: 9, ..Query::default() };
        assert_eq!(durable.list(all).await.expect("a list").len(), 0);
    });
}

#[test]
fn a_key_in_the_header_that_is_too_long_or_no_text_is_refused() {
    run(async {
        let (durable, executor) = process();
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let (longest, longer) = ("k".repeat(128).leak(), "k".repeat(129).leak());
        for wrong in [None, Some(""), Some("  "), Some("a\tb"), Some("k\u{e4}"), Some(&*longer)] {
            let answer = send(&executor, ChannelKind::Http, wrong).await;
            let text = answer.as_str().unwrap_or_default();
            assert!(text.starts_with("InvalidRequest: The one header Idempotency-Key"), "{answer}");
            assert_eq!(send(&executor, ChannelKind::WebSocket, wrong).await, json!(1));
        }
        assert_eq!(send(&executor, ChannelKind::Http, Some(longest)).await, json!(1));
    });
}

#[derive(Deserialize, JsonSchema)]
struct Line {
    #[expect(dead_code, reason = "it is compared")]
    sku: String,
    #[expect(dead_code, reason = "it is compared")]
    qty: f64,
    #[expect(dead_code, reason = "it is compared")]
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Cart {
    #[expect(dead_code, reason = "it is compared")]
    lines: Vec<Line>,
    #[expect(dead_code, reason = "it is compared")]
    coupon: Option<String>,
}

/// The same in a later version.
#[derive(Deserialize, JsonSchema)]
struct LaterCart {
    #[expect(dead_code, reason = "it is compared")]
    lines: Vec<Line>,
    #[expect(dead_code, reason = "it is compared")]
    coupon: Option<String>,
    #[expect(dead_code, reason = "it is compared")]
    gift: Option<bool>,
}

fn buy<P: 'static>(steps: &Steps<Counter, P>) -> Returns<i32> {
    steps.run("buy", async |_, _| Ok(1)).recorded().returns()
}

/// A program in which `buy` takes these parameters.
fn shop<P: serde::de::DeserializeOwned + JsonSchema + 'static>(
    journal: &Memory,
    version: &str,
) -> (Durable, Executor) {
    let durable = Durable::new(journal.clone());
    let interface = Interface::new(format!("test.counter:{version}").parse().expect("a name"));
    let executor = Executor::builder().service(interface, Counter, |functions| {
        durable.on(functions, "buy", buy::<P>);
    });
    let executor = Jobs::new(durable.clone()).allow([JobsFunction::Submit]).host(executor);
    (durable.clone(), executor.build().expect("the interface is complete"))
}

/// Parameters that are equal.
fn equal_carts() -> [Value; 4] {
    [
        json!({ "lines": [{ "sku": "a", "qty": 1 }] }),
        json!({ "lines": [{ "qty": 1.0, "sku": "a", "note": null }], "coupon": null }),
        json!({ "coupon": null, "lines": [{ "sku": "a", "qty": 1, "unknown": 7 }] }),
        json!({ "lines": [{ "sku": "a", "qty": 1e0 }] }),
    ]
}

#[test]
fn equal_parameters_are_one_request_on_all_ways_and_in_later_versions() {
    for first in 0..equal_carts().len() {
        run(async {
            let journal = Memory::new(TokioClock::start());
            let ann = User::new("ann", SecurityLevel::SafeOps);
            let options = || Options::default().caller(&ann).key("k");
            // not built: it stores what it gets, as earlier programs did
            let former = Durable::new(journal.clone());
            let interface = Interface::new("test.counter:1.0".parse().expect("a name"));
            let _unbuilt = Executor::builder().service(interface, Counter, |functions| {
                former.on(functions, "buy", buy::<Cart>);
            });
            let cart = equal_carts()[first].clone();
            let uid = former.submit("test.counter:1.0:buy", cart, options()).await;
            let uid = uid.expect("it is stored");
            let programs = [shop::<Cart>(&journal, "1.0"), shop::<LaterCart>(&journal, "1.1")];
            for (durable, executor) in &programs {
                let _node = durable.start(executor).await.expect("the journal gives a lease");
                for cart in equal_carts() {
                    let by_program = durable.submit("test.counter:1.0:buy", &cart, options()).await;
                    assert_eq!(by_program.expect("it is known"), uid, "{cart}");
                    let Value::Object(params) = cart.clone() else { panic!("an object") };
                    let call = Request::new("test.counter:1.0:buy", params.clone());
                    assert_eq!(ask(executor, call, Key(Some("k"))).await, json!(1), "{cart}");
                    let job = json!({ "function": "test.counter:1.0:buy", "params": params });
                    let Value::Object(job) = job else { panic!("an object") };
                    let job = Request::new("asyncsteps.jobs:1.0:submit", job);
                    let answer = ask(executor, job, Key(Some("k"))).await;
                    assert_eq!(answer, json!({ "uid": uid.to_string() }), "{cart}");
                }
                let other = json!({ "lines": [{ "sku": "a", "qty": 2 }] });
                let other = durable.submit("test.counter:1.0:buy", other, options()).await;
                let error = other.expect_err("it is another request");
                assert!(error.to_string().contains("used for something else"), "{error}");
            }
            let all = Query { limit: 9, ..Query::default() };
            assert_eq!(programs[0].0.list(all).await.expect("a list").len(), 1);
        });
    }
}
