//! The promise: a request that waits for a signal gets it once, whenever it comes, and none that is another's.

#![expect(clippy::unused_async, reason = "bodies are async functions")]

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use asyncsteps_actors::clock::wall;
use asyncsteps_core::{BodyResult, Retry};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, NotSignalled, Returns, Service, Steps};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);

/// The ids of the requests, in the order in which they began.
#[derive(Clone, Default)]
struct Post(Arc<Mutex<Vec<String>>>);

impl Service for Post {
    type Errors = ();
}

impl Post {
    async fn begin(cx: &Cx<Self, ()>, (): ()) -> BodyResult<()> {
        assert!(cx.key().starts_with(cx.id()), "{}", cx.key());
        cx.0.lock().expect("no panic").push(cx.id().to_owned());
        Ok(())
    }

    /// The id of the request that began last.
    fn last(&self) -> String {
        self.0.lock().expect("no panic").last().expect("a request").clone()
    }

    fn several(steps: &Steps<Self, ()>) -> Returns<Value> {
        steps
            .run("begin", Self::begin)
            .then_pause("rest", SECOND)
            .then_wait_signal::<i32>("number")
            .then_join("both", |both| {
                (both.pass(), both.wait_signal_within::<String>("word", SECOND))
            })
            .then("end", async |_, both: (i32, Option<String>)| Ok(json!(both)))
            .returns()
    }

    /// Waits for times of day: one that has passed, and one to come.
    fn until(steps: &Steps<Self, ()>) -> Returns<Value> {
        steps
            .run("begin", Self::begin)
            .then_pause_until("passed", |_, ()| SystemTime::UNIX_EPOCH)
            .then_wait_signal_until::<i32>("number", |_, ()| wall() + SECOND)
            .then("end", async |_, number| Ok(json!(number)))
            .returns()
    }

    fn dynamic(steps: &Steps<Self, ()>) -> Returns<i32> {
        steps
            .run("begin", Self::begin)
            .dynamic("later", |steps, ()| steps.wait_signal::<i32>("number"))
            .returns()
    }

    /// Only the request knows that it waits in an attempt.
    fn dynamic_attempt(steps: &Steps<Self, ()>) -> Returns<i32> {
        let wait = |steps: &Steps<Self, ()>, ()| steps.wait_signal::<i32>("number");
        steps
            .nested("tries", move |tries| {
                tries.run("begin", Self::begin).dynamic("later", wait).returns()
            })
            .retry(Retry::attempts(2))
            .returns()
    }

    fn limited(steps: &Steps<Self, ()>) -> Returns<i32> {
        steps.run("begin", Self::begin).then_wait_signal::<i32>("number").timeout(SECOND).returns()
    }

    /// Two wait for one name, and a step behind them waits for the next one.
    fn raced(steps: &Steps<Self, ()>) -> Returns<Vec<i32>> {
        steps
            .run("begin", Self::begin)
            .then_race(
                "first",
                |_, ()| vec![(), ()],
                |steps| steps.wait_signal::<i32>("number").returns(),
            )
            .then_nested("behind", |steps: &Steps<Self, (), Vec<i32>>| {
                steps
                    .join("both", |both| (both.pass(), both.wait_signal::<i32>("number")))
                    .returns()
            })
            .then("end", async |_, (first, second): (Vec<i32>, i32)| Ok(vec![first[0], second]))
            .returns()
    }

    /// It fails at the signal, and its undo takes a while.
    fn undone(steps: &Steps<Self, ()>) -> Returns<i32> {
        steps
            .run("begin", Self::begin)
            .undo(async |_, _| {
                asyncsteps_core::sleep(SECOND).await;
                Ok(())
            })
            .then_wait_signal::<i32>("number")
            .then("fail", async |_, _| Err("Broken".into()))
            .returns()
    }

    fn never(steps: &Steps<Self, ()>) -> Returns<i32> {
        steps
            .run("begin", Self::begin)
            .then_pause("rest", SECOND)
            .then("end", async |_, ()| Ok(7))
            .returns()
    }
}

fn world() -> (Executor, Post) {
    let post = Post::default();
    let interface = Interface::new("acme.post:1.0".parse().expect("a name"));
    let builder = Executor::builder().service(interface, post.clone(), |functions| {
        functions
            .on("several", Post::several)
            .on("until", Post::until)
            .on("dynamic", Post::dynamic)
            .on("dynamicAttempt", Post::dynamic_attempt)
            .on("limited", Post::limited)
            .on("raced", Post::raced)
            .on("undone", Post::undone)
            .on("never", Post::never);
    });
    (builder.build().expect("a right configuration"), post)
}

/// Begins a request that waits, or rests, after this.
async fn begin(
    executor: &Executor,
    function: &str,
) -> actix_rt::task::JoinHandle<Result<Value, asyncsteps_core::Error>> {
    let called = executor.call_as_system::<Value>(&format!("acme.post:1.0:{function}"), json!({}));
    let task = actix_rt::spawn(called);
    tokio::time::sleep(SECOND / 10).await;
    task
}

#[actix::test]
async fn signals_wait_for_their_steps_in_their_order() {
    tokio::time::pause();
    let (executor, post) = world();
    let request = begin(&executor, "several").await;
    let id = post.last();
    for (name, value) in [("word", json!("one")), ("number", json!(1)), ("number", json!(2))] {
        executor.signal(&id, name, value).expect("the request is known");
    }
    assert_eq!(request.await.expect("no panic").expect("it ends"), json!([1, "one"]));
    let late = executor.signal(&id, "number", 3).expect_err("the request has ended");
    assert!(matches!(&late, NotSignalled::NoRequest(of) if *of == id), "{late}");
}

#[actix::test]
async fn a_step_waits_until_a_time_of_day() {
    tokio::time::pause();
    let (executor, post) = world();
    let late = begin(&executor, "until").await;
    assert_eq!(late.await.expect("no panic").expect("it ends"), Value::Null);
    let signalled = begin(&executor, "until").await;
    executor.signal(&post.last(), "number", 7).expect("the request is known");
    assert_eq!(signalled.await.expect("no panic").expect("it ends"), 7);
}

#[actix::test]
async fn a_step_that_waits_is_woken_by_any_thread() {
    tokio::time::pause();
    let (executor, post) = world();
    let one = begin(&executor, "dynamic").await;
    let one_id = post.last();
    let other = begin(&executor, "dynamic").await;
    let (sender, other_id) = (executor.clone(), post.last());
    thread::spawn(move || sender.signal(&other_id, "number", 2))
        .join()
        .expect("no panic")
        .expect("the request is known");
    assert_eq!(other.await.expect("no panic").expect("it ends"), 2);
    assert!(!one.is_finished(), "the signal is another's");
    executor.signal(&one_id, "number", 1).expect("the request is known");
    assert_eq!(one.await.expect("no panic").expect("it ends"), 1);
}

/// An attempt would take the signal, and the next one wait for another.
#[actix::test]
async fn a_step_does_not_wait_in_an_attempt_that_is_defined_later() {
    tokio::time::pause();
    let (executor, _) = world();
    let request = begin(&executor, "dynamicAttempt").await;
    assert!(request.is_finished(), "it waits");
    assert_eq!(request.await.expect("no panic").expect_err("a mistake").code(), "InternalError");
}

#[actix::test]
async fn what_cannot_be_taken_is_refused() {
    tokio::time::pause();
    let (executor, post) = world();
    let request = begin(&executor, "several").await;
    let id = post.last();
    for number in 0..100 {
        executor.signal(&id, "other", number).expect("there is room");
    }
    let full = executor.signal(&id, "number", 1).expect_err("there is none");
    assert!(matches!(full, NotSignalled::TooMany(_)), "{full}");
    request.abort();
    assert!(request.await.is_err());
    let gone = executor.signal(&id, "number", 1).expect_err("its caller has left");
    assert!(matches!(gone, NotSignalled::NoRequest(_)), "{gone}");
    let never = begin(&executor, "never").await;
    let none = executor.signal(&post.last(), "number", 1).expect_err("it takes none");
    assert!(matches!(none, NotSignalled::NoRequest(_)), "{none}");
    assert_eq!(never.await.expect("no panic").expect("it ends"), 7);
}

#[actix::test]
async fn a_wait_ends_with_its_limit_and_a_wrong_value_is_an_error() {
    tokio::time::pause();
    let (executor, post) = world();
    let late = begin(&executor, "limited").await.await.expect("no panic");
    assert_eq!(late.expect_err("nothing came").code(), "InternalError");
    let wrong = begin(&executor, "limited").await;
    executor.signal(&post.last(), "number", "seven").expect("the request is known");
    assert_eq!(wrong.await.expect("no panic").expect_err("no number").code(), "InternalError");
    let quiet = begin(&executor, "several").await;
    executor.signal(&post.last(), "number", 5).expect("the request is known");
    assert_eq!(quiet.await.expect("no panic").expect("it ends"), json!([5, null]));
}

#[actix::test]
async fn what_the_loser_of_a_race_took_is_there_for_the_step_behind() {
    tokio::time::pause();
    let (executor, post) = world();
    for (sent, taken) in [(vec![1, 2], json!([1, 2])), (vec![1, 2, 3], json!([1, 2]))] {
        let request = begin(&executor, "raced").await;
        // before the request has a turn
        for number in sent {
            executor.signal(&post.last(), "number", number).expect("the request is known");
        }
        let ended = tokio::time::timeout(SECOND, request).await.expect("it waits for nothing");
        assert_eq!(ended.expect("no panic").expect("it ends"), taken);
    }
}

#[actix::test]
async fn a_request_that_is_only_undone_takes_no_signal() {
    tokio::time::pause();
    let (executor, post) = world();
    let _request = begin(&executor, "undone").await;
    executor.signal(&post.last(), "number", 1).expect("it waits");
    tokio::time::sleep(SECOND / 10).await;
    let late = executor.signal(&post.last(), "number", 2).expect_err("no step takes it");
    assert!(matches!(late, NotSignalled::Undone(_)), "{late}");
    tokio::time::sleep(2 * SECOND).await;
    let gone = executor.signal(&post.last(), "number", 3).expect_err("it is over");
    assert!(matches!(gone, NotSignalled::NoRequest(_)), "{gone}");
}
