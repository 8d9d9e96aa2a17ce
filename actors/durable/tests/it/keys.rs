//! The keys that callers send with their requests.

use std::any::Any;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use asyncsteps_core::Error;
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{
    Caller, Executor, Incoming, KeyPolicy, ReplyBody, Returns, Service, Steps,
};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::Query;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::jobs::ask as ask_jobs;
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
                    assert_eq!(answer["uid"], json!(uid.to_string()), "{cart}");
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

/// It fails twice.
#[derive(Default)]
struct Flaky(AtomicU32);

impl Service for Flaky {
    type Errors = ();
}

fn try_it(steps: &Steps<Flaky, Cart>) -> Returns<i32> {
    let tried = steps.run("try", async |cx, ()| match cx.0.fetch_add(1, Ordering::Relaxed) {
        0..2 => Err(Error::new("Busy").into()),
        tries => Ok(i32::try_from(tries).expect("a few")),
    });
    tried.recorded().returns()
}

/// A call with this header; returns the answer, and the name of the earlier request that it is of.
async fn try_with(executor: &Executor, header: &'static str) -> (String, Option<String>) {
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let params = equal_carts()[0].as_object().cloned().expect("an object");
    let request = Request::new("test.flaky:1.0:try", params);
    let channel = Channel::new(ChannelKind::Http);
    let incoming = Incoming::new(request, channel).with_caller(Caller::from(&ann));
    let reply = executor.dispatch(incoming.with_headers(Rc::new(Key(Some(header))))).await;
    let (head, ReplyBody::Message(message)) = reply.into_parts() else { panic!("no message") };
    let replayed = head.and_then(|head| {
        let mut headers = head.headers().map(|(name, value)| (name.to_owned(), value.to_owned()));
        headers.find(|(name, _)| name == "idempotency-replayed").map(|(_, value)| value)
    });
    let answer = match message.response().clone().into_result() {
        Ok(result) => json!(result).to_string(),
        Err(error) => format!("{}: {}", error.code, error.description.unwrap_or_default()),
    };
    (answer, replayed)
}

#[test]
fn a_policy_says_what_becomes_of_a_key_whose_request_has_failed() {
    run(async {
        let durable = Durable::new(Memory::new(TokioClock::start()));
        let interface = Interface::new("test.flaky:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, Flaky::default(), |functions| {
            durable.on(functions, "try", try_it);
        });
        let jobs = Jobs::new(durable.clone()).allow([JobsFunction::Submit]);
        let executor = jobs.host(executor).build().expect("the interface is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let failed = "InternalError: Not expected error";
        let job = async |policy: Option<&str>| {
            let job = json!({
                "function": "test.flaky:1.0:try", "params": equal_carts()[1], "key": "k",
                "policy": policy,
            });
            ask_jobs(&executor, crate::jobs::ANN, "submit", job).await
        };

        assert_eq!(try_with(&executor, "k").await, (failed.to_owned(), None));
        let known = job(None).await.expect("it is known");
        let first = known["uid"].as_str().expect("a name").to_owned();
        assert_eq!(known, json!({ "uid": first, "earlier": true, "outcome": "InternalError" }));
        assert_eq!(try_with(&executor, "k").await, (failed.to_owned(), Some(first.clone())));
        let (refused, _) = try_with(&executor, "k; policy=reject").await;
        let taken =
            format!("the request {first} has the key already, and has ended with InternalError");
        assert_eq!(refused, format!("InvalidRequest: {taken}"));
        let refused = job(Some("reject")).await.expect_err("it is taken");
        assert_eq!((refused.code(), refused.info()), ("KeyTaken", Some(&*taken)));

        // again, in another form of the parameters, and from the program
        let second = job(Some("rerun_failed")).await.expect("it is new");
        assert_eq!((&second["earlier"], &second["outcome"]), (&json!(false), &json!("")));
        let second = second["uid"].as_str().and_then(|uid| uid.parse().ok()).expect("a name");
        let failure = durable.result::<u32>(second).await.expect_err("it fails again");
        assert_eq!(failure.code(), "InternalError");
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let rerun = async |cart: &Value| {
            let options = Options::default().caller(&ann).key("k");
            let options = options.key_policy(KeyPolicy::RerunFailed);
            durable.submit("test.flaky:1.0:try", cart, options).await.expect("it is stored")
        };
        let third = rerun(&equal_carts()[2]).await;
        assert_eq!(durable.result::<u32>(third).await.expect("it has a result"), 2);
        assert_eq!(rerun(&equal_carts()[3]).await, third);
        for header in ["k", "k;policy=rerun_failed", "k; policy=return"] {
            let answer = ("2".to_owned(), Some(third.to_string()));
            assert_eq!(try_with(&executor, header).await, answer, "{header}");
        }
        for wrong in ["k; policy=other", "k; policy=", "; policy=reject", " ;policy=return"] {
            let (refused, _) = try_with(&executor, wrong).await;
            assert!(refused.starts_with("InvalidRequest: The "), "{wrong}: {refused}");
        }
        let all = Query { key: Some("k".to_owned()), limit: 9, ..Query::default() };
        assert_eq!(durable.list(all).await.expect("a list").len(), 3);
    });
}
