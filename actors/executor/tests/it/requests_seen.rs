//! The promise: a function sees its request, and calls for its caller.

use std::rc::Rc;

use asyncsteps_core::BodyResult;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Incoming, RequestSteps as _, Returns, Service, Steps};
use expect_test::expect;
use serde_json::{Map, json};

use super::functions::{StatusOf, check, definition};

/// What a function sees of its request, and a call that it makes.
struct Requests;

impl Service for Requests {
    type Errors = ();
}

impl Requests {
    async fn status(cx: &Cx<Self, StatusOf>) -> BodyResult<String> {
        let request = cx.request();
        if cx.params.charge == "inner" {
            return Ok(format!("{:?}", request.user().map(|user| user.local_id().to_owned())));
        }
        let inner: String =
            request.call("acme.payments:1.0:status", json!({ "charge": "inner" })).await?;
        let left = request.time_left().expect("requests have a limit");
        Ok(format!("{} {inner} {left:?} {:?}", request.function().func(), request.level()))
    }
}

#[actix::test]
async fn a_function_sees_its_request_and_calls_for_its_caller() {
    tokio::time::pause();
    let executor = Executor::builder()
        .service(definition(), Requests, |functions| {
            functions.on("status", Requests::status).others_not_implemented();
        })
        .build()
        .expect("the types fit");
    let ann = User::new("ann", SecurityLevel::SafeOps);
    let called = executor.call_for(&ann, "acme.payments:1.0:status", json!({ "charge": "outer" }));
    check(called.await, expect![[r#""status Some(\"ann\") 5s SafeOps""#]]);
}

/// A header as transports have it, and one that is no text.
struct Language;

impl Headers for Language {
    fn header(&self, name: &str) -> Option<&str> {
        (name == "accept-language").then_some("de")
    }

    fn has_header(&self, name: &str) -> bool {
        ["accept-language", "x-raw"].contains(&name)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new([("accept-language", "de")].into_iter())
    }
}

#[actix::test]
async fn a_header_is_found_by_its_name_in_any_case() {
    fn language(steps: &Steps<(), ()>) -> Returns<String> {
        let names = ["accept-language", "Accept-Language", "ACCEPT-LANGUAGE", "X-Raw", "X-None"];
        steps
            .asi::<String>("look", move |asi, _, ()| {
                let request = asi.request()?;
                let found = names.map(|name| (request.header(name), request.has_header(name)));
                let found = format!("{found:?}");
                asi.success(found)
            })
            .returns()
    }
    let mut interface = Interface::new("acme.page:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    let executor = Executor::builder().service(interface, (), |functions| {
        functions.on("language", language);
    });
    let executor = executor.build().expect("the types fit");
    let request = Request::new("acme.page:1.0:language", Map::new());
    let incoming = Incoming::new(request, Channel::local()).with_headers(Rc::new(Language));
    let reply = executor.dispatch(incoming).await.into_bytes().expect("it is right");
    expect![[r#"{"r":"[(Some(\"de\"), true), (Some(\"de\"), true), (Some(\"de\"), true), (None, true), (None, false)]"}"#]].assert_eq(&String::from_utf8_lossy(&reply));
}
