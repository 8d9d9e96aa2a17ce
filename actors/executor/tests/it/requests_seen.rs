//! The promise: a function sees its request, and calls for its caller.

use asyncsteps_core::BodyResult;
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::{Cx, Executor, Service};
use expect_test::expect;
use serde_json::json;

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
