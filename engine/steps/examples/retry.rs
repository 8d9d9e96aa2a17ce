//! Retry with back-off: an unreliable call is tried again after a pause that doubles each time.
//!
//! Each iteration of a loop is an attempt. The error handler decides whether there is another one, and
//! a success breaks the loop. Errors that a retry cannot help with go on at once.

use std::cell::Cell;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::time::Duration;

use asyncsteps::tool::{AsyncTool, Manual};
use asyncsteps::{Error, Flow, Time, codes};

const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A service that fails until the call with this number.
#[derive(Clone)]
struct Service {
    calls: Rc<Cell<u32>>,
    answers: u32,
}

impl Service {
    /// The call of a client: a future.
    fn call(&self) -> Ready<Result<String, Error>> {
        let call = self.calls.get() + 1;
        self.calls.set(call);
        if call < self.answers {
            let error = Error::with_info(codes::COMM_ERROR, format!("call {call} failed"));
            return ready(Err(error));
        }
        ready(Ok(format!("answer to call {call}")))
    }
}

fn with_retry(service: Service) -> Flow {
    let mut flow = Flow::new();
    flow.add(move |asi, ()| {
        let answer = asi.stack(None);
        let mut attempt = 0;
        asi.make_loop(move |asi| {
            attempt += 1;
            let service = service.clone();
            asi.add(move |asi, ()| {
                asi.await_(service.call());
                asi.add(move |asi, text: String| {
                    asi[answer] = Some(text);
                    asi.break_loop(None)
                });
            })
            .on_error(move |asi, error| {
                if error.code() == codes::COMM_ERROR && attempt < ATTEMPTS {
                    // a step in a handler replaces the failed one; then the loop goes on
                    asi.sleep(FIRST_PAUSE * 2u32.pow(attempt - 1));
                }
            });
        });
        asi.add(move |asi, ()| {
            let answer: Option<String> = asi[answer].take();
            asi.success(answer)
        });
    });
    flow
}

/// Runs the flow; gives its result and how long it took.
fn run(answers: u32) -> (Result<Option<String>, Error>, Duration) {
    let tool = Manual::new(Time::ZERO);
    let service = Service { calls: Rc::default(), answers };
    let promise = with_retry(service).promise(&tool);
    let result = tool.complete(promise).expect("it needs no other thread");
    (result, tool.now().since_epoch())
}

fn main() {
    let (result, took) = run(1);
    assert_eq!(result.expect("at once").as_deref(), Some("answer to call 1"));
    assert_eq!(took, Duration::ZERO);

    let (result, took) = run(4);
    assert_eq!(result.expect("after three pauses").as_deref(), Some("answer to call 4"));
    assert_eq!(took, Duration::from_millis(100 + 200 + 400));

    let (result, took) = run(6);
    let error = result.expect_err("five attempts are enough");
    assert_eq!((error.code(), error.info()), (codes::COMM_ERROR, Some("call 5 failed")));
    assert_eq!(took, Duration::from_millis(100 + 200 + 400 + 800));
}
