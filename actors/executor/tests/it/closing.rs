//! An executor that closes lets its requests end, with all that they call.

use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{CallSteps as _, Cx, Executor, Returns, Service, Steps};
use futures_util::future::join;
use tokio::sync::Semaphore;

const OUTER: &str = "test.nested:1.0:outer";
const STEP: &str = "test.nested:1.0:step";
const INNER: &str = "test.nested:1.0:inner";

/// A function that waits before it calls another one.
struct Nested {
    began: Arc<Semaphore>,
    goes_on: Arc<Semaphore>,
}

impl Service for Nested {
    type Errors = ();
}

impl Nested {
    async fn waits(&self) -> BodyResult<()> {
        self.began.add_permits(1);
        self.goes_on.acquire().await?.forget();
        Ok(())
    }

    async fn outer(cx: &Cx<Self, ()>) -> BodyResult<i32> {
        cx.waits().await?;
        Ok(cx.request().call::<i32>(INNER, ()).await? + 1)
    }

    fn step(steps: &Steps<Self, ()>) -> Returns<i32> {
        steps
            .run("wait", async |cx, ()| cx.waits().await)
            .then_asi::<i32>("inner", |asi, _, ()| {
                asi.call::<i32>(INNER, ())?;
                Ok(())
            })
            .returns()
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn inner(_: &Cx<Self, ()>) -> BodyResult<i32> {
        Ok(7)
    }
}

#[actix::test]
async fn requests_in_flight_end_with_what_they_call() {
    let (began, goes_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let nested = Nested { began: Arc::clone(&began), goes_on: Arc::clone(&goes_on) };
    let interface = Interface::new("test.nested:1.0".parse().expect("a name"));
    let executor = Executor::builder().service(interface, nested, |functions| {
        let functions = functions.on("outer", Nested::outer).on("step", Nested::step);
        functions.on("inner", Nested::inner);
    });
    let executor = executor.build().expect("it is complete");
    let call = async |function| executor.call_as_system::<i32>(function, ()).await;
    let close = async {
        began.acquire_many(2).await.expect("it is open").forget();
        let closed = executor.close(Duration::from_secs(60));
        let outside = async {
            executor.closing().await;
            let refused = call(INNER).await.expect_err("it is closing");
            assert_eq!(refused.info(), Some("Executor is closing"));
            goes_on.add_permits(2);
        };
        join(closed, outside).await.0
    };
    let ((outer, step), closed) = join(join(call(OUTER), call(STEP)), close).await;
    assert_eq!((outer.expect("it ends"), step.expect("it ends")), (8, 7));
    assert_eq!((closed.finished, closed.cancelled), (4, 0));
}
