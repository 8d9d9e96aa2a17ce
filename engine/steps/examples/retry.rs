//! Retry with back-off: an unreliable call is tried again after a pause that doubles each time.
//!
//! What belongs to the step is said behind it: how often it is tried, with which errors, and how long
//! one attempt may take. Errors that a retry cannot help with go on at once.

use std::cell::Cell;
use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::tool::{AsyncTool, Manual};
use asyncsteps_core::{Error, Flow, Retry, Time, codes};

/// A service that fails until the call with this number.
struct Service {
    calls: Rc<Cell<u32>>,
    answers: u32,
}

impl Service {
    async fn call(&self, question: &str) -> Result<String, Error> {
        let call = self.calls.get() + 1;
        self.calls.set(call);
        let answer = if call < self.answers {
            Err(Error::with_info(codes::COMM_ERROR, format!("call {call} failed")))
        } else {
            Ok(format!("{question}: answer to call {call}"))
        };
        // the answer of a network would take longer
        ready(answer).await
    }
}

fn with_retry(service: Service) -> Flow {
    let mut flow = Flow::new();
    flow.run(async move |question: String| Ok(service.call(&question).await?))
        .named("ask")
        .timeout(Duration::from_secs(1))
        .retry(Retry::attempts(5).backoff(Duration::from_millis(100)).on_code(codes::COMM_ERROR));
    flow.pass("why");
    flow
}

/// Runs the flow; gives its result and how long it took.
fn run(answers: u32) -> (Result<String, Error>, Duration) {
    let tool = Manual::new(Time::ZERO);
    let service = Service { calls: Rc::default(), answers };
    let promise = with_retry(service).promise(&tool);
    let result = tool.complete(promise).expect("it needs no other thread");
    (result, tool.now().since_epoch())
}

fn main() {
    let (result, took) = run(1);
    assert_eq!(result.expect("at once"), "why: answer to call 1");
    assert_eq!(took, Duration::ZERO);

    let (result, took) = run(4);
    assert_eq!(result.expect("after three pauses"), "why: answer to call 4");
    assert_eq!(took, Duration::from_millis(100 + 200 + 400));

    let (result, took) = run(6);
    let error = result.expect_err("five attempts are enough");
    assert_eq!((error.code(), error.info()), (codes::COMM_ERROR, Some("call 5 failed")));
    assert_eq!(error.attempts(), Some(5));
    assert_eq!(took, Duration::from_millis(100 + 200 + 400 + 800));
}
