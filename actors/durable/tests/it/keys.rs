//! The keys that callers send with their requests.

use std::any::Any;
use std::rc::Rc;

use asyncsteps_durable::Durable;
use asyncsteps_executor::channel::{Channel, ChannelKind};
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Caller, Executor, Incoming, ReplyBody, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::request::Query;
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
    let request = Request::new("test.counter:1.0:count", Map::new());
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
