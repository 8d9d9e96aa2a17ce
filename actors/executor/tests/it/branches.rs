//! The promise: a typed function does several things at once, in branches that have locks, attempts,
//! undo and keys of their own, and its stacks name places of the application.

#![expect(clippy::unused_async, reason = "bodies are async functions")]

use std::cell::RefCell;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::sim::{self, Cut, Options};
use asyncsteps_core::{BodyResult, Code, Error, Outcome, Retry, codes, sleep};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone, Default)]
struct Shop {
    /// What was reserved or told, with the key of the step.
    log: Arc<StdMutex<Vec<String>>>,
    skus: Option<Mutex>,
}

#[derive(Debug, Code, thiserror::Error)]
enum ShopError {
    #[error("there is no {0}")]
    #[code(public)]
    OutOfStock(String),
}

impl Service for Shop {
    type Errors = ShopError;
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    skus: Vec<String>,
}

impl Shop {
    fn new() -> Self {
        Self { skus: Some(Mutex::new(Default::default())), ..Self::default() }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.log.lock().expect("nothing panics")
    }

    fn sku(&self, sku: &str) -> Mutex {
        self.skus.as_ref().expect("a lock").key(sku)
    }

    async fn reserve(&self, sku: &str, key: &str) -> BodyResult<()> {
        sleep(Duration::from_millis(10)).await;
        if sku == "none" {
            Err(ShopError::OutOfStock(sku.to_owned()))?;
        }
        self.lines().push(format!("{sku}{}", without_id(key)));
        sleep(Duration::from_millis(10)).await;
        Ok(())
    }

    fn give_back(&self, sku: &str) {
        self.lines().retain(|line| !line.starts_with(sku));
    }

    /// Reserves each beside the others, then asks for them one after the other.
    fn order(steps: &Steps<Self, Order>) -> Returns<String> {
        steps
            .join("reserve all", |all| {
                (
                    all.each(
                        "skus",
                        |cx, ()| cx.params.skus.clone(),
                        |sku| {
                            sku.run("reserve", async |cx, sku| cx.reserve(&sku, cx.key()).await)
                                .locked_by(|cx, sku| cx.sku(sku))
                                .retry(Retry::attempts(2).on_code(codes::TIMEOUT))
                                .undo_taking(async |cx, sku, _| {
                                    cx.give_back(sku);
                                    Ok(())
                                })
                                .then("label", async |_, ()| Ok(()))
                                .returns()
                        },
                    ),
                    all.nested("inner", |inner| {
                        inner
                            .each(
                                "inner all",
                                |_, ()| vec![()],
                                |one| one.run("note", Self::note).returns(),
                            )
                            .returns()
                    }),
                )
            })
            .then("order", async |cx, _| Ok(cx.params.skus.join("+")))
            .returns()
    }

    async fn note(cx: &Cx<Self, Order>, (): ()) -> BodyResult<()> {
        cx.lines().push(format!("note{}", without_id(cx.key())));
        Ok(())
    }

    fn notify(steps: &Steps<Self, Order>) -> Returns<Vec<String>> {
        steps
            .each("first", |cx, ()| cx.params.skus.clone(), Self::told)
            .at_once(2)
            .then("skus", async |cx, told| {
                let failed = told.iter().filter_map(|told| told.as_ref().err());
                let failed: Vec<_> = failed.map(|error| error.code().to_owned()).collect();
                cx.lines().push(format!("failed {failed:?}"));
                Ok(cx.params.skus.clone())
            })
            .then_each("second", |_, skus| skus, Self::told)
            .at_once(2)
            .then("texts", async |_, told| {
                Ok(told
                    .into_iter()
                    .map(|told| told.unwrap_or_else(|error| error.to_string()))
                    .collect())
            })
            .returns()
    }

    /// An item whose error ends nothing else.
    fn told(sku: &Steps<Self, Order, String>) -> Returns<Result<String, Error>> {
        sku.run("tell", async |cx, sku| {
            cx.reserve(&sku, cx.key()).await?;
            Ok(sku)
        })
        .as_result()
        .returns()
    }

    fn recover(steps: &Steps<Self, ()>) -> Returns<String> {
        steps.timeout(Duration::from_secs(1));
        steps
            .nested("outer", |steps| {
                steps.timeout(Duration::from_secs(1));
                steps
                    .run("fails", async |_, ()| Err(ShopError::OutOfStock("any".to_owned()))?)
                    .recover(async |_, _| {
                        sleep(Duration::from_millis(10)).await;
                        Ok(String::new())
                    })
                    .returns()
            })
            .returns()
    }

    fn executor(&self) -> Executor {
        let mut interface = Interface::new("acme.shop:1.0".parse().expect("a name"));
        interface.allow_anonymous();
        let executor = Executor::builder().service(interface, self.clone(), |functions| {
            functions
                .on("order", Self::order)
                .on("notify", Self::notify)
                .on("recover", Self::recover);
        });
        executor.build().expect("the types can be written")
    }
}

/// A key without the random id of its request.
fn without_id(key: &str) -> &str {
    key.split_once('-').map_or(key, |(_, rest)| rest)
}

fn request(function: &str, skus: &[&str]) -> TestRequest {
    let params = if skus.is_empty() { json!({}) } else { json!({ "skus": skus }) };
    TestRequest::new(format!("acme.shop:1.0:{function}")).params(params)
}

/// Carries a request out; gives its answer and what is in the log, sorted.
fn run(function: &str, skus: &[&str]) -> (Result<Value, Error>, Vec<String>) {
    let ended = RefCell::new(None);
    sim::check([1], |sim| {
        let shop = Shop::new();
        let started = sim.start(request(function, skus).flow(&shop.executor()));
        sim.run();
        let answer = started.take_outcome().expect("it is over").into_result::<(Value,)>();
        let mut lines = shop.lines().clone();
        lines.sort();
        ended.replace(Some((answer.map(|(value,)| value), lines)));
    });
    ended.into_inner().expect("it ran")
}

#[test]
fn branches_have_keys_of_their_own_and_the_step_after_them_runs() {
    let (answer, lines) = run("order", &["apple", "pear"]);
    assert_eq!(answer.expect("reserved"), "apple+pear");
    let note = "noteorder-reserve all/inner/inner all#0/note";
    let of_item = |sku: &str, item: usize| format!("{sku}order-reserve all/skus#{item}/reserve");
    assert_eq!(lines, [of_item("apple", 0), note.to_owned(), of_item("pear", 1)]);
}

#[test]
fn a_branch_that_fails_undoes_the_others() {
    let (answer, lines) = run("order", &["apple", "none", "pear"]);
    assert_eq!(answer.expect_err("none").to_string(), "OutOfStock: there is no none");
    assert_eq!(lines, ["noteorder-reserve all/inner/inner all#0/note"], "it has no undo");
}

#[test]
fn branches_are_undone_wherever_they_are_cut() {
    for cut in [Cut::Cancel, Cut::Drop, Cut::Timeout, Cut::Error(Error::new("Down"))] {
        sim::cut_everywhere(&cut, &Options::default(), [1], |_| {
            let shop = Shop::new();
            let flow = request("order", &["apple", "pear"]).flow(&shop.executor());
            (flow, move |outcome| {
                let lines = shop.lines();
                let reserved = lines.iter().filter(|line| !line.starts_with("note")).count();
                match outcome {
                    Outcome::Success(_) => assert_eq!(reserved, 2),
                    // the answer may be cut as well
                    Outcome::Error(_) | Outcome::Cancelled => {
                        assert!([0, 2].contains(&reserved), "{lines:?}");
                    }
                }
            })
        });
    }
}

#[test]
fn all_results_are_given_with_the_codes_of_the_service() {
    let (answer, lines) = run("notify", &["apple", "none", "pear"]);
    assert_eq!(answer.expect("told"), json!(["apple", "OutOfStock: there is no none", "pear"]));
    assert!(lines.contains(&"failed [\"OutOfStock\"]".to_owned()), "{lines:?}");
    assert!(lines.contains(&"pearnotify-second#2/tell".to_owned()), "{lines:?}");
}

#[actix::test]
async fn stacks_name_places_of_the_application_only() {
    tokio::time::pause();
    for (function, skus) in [("order", &["apple"][..]), ("notify", &["apple"]), ("recover", &[])] {
        let executor = Shop::new().executor();
        let request = request(function, skus);
        let asked = actix_rt::spawn({
            let executor = executor.clone();
            async move { request.call::<Value>(&executor).await }
        });
        let mut places = 0;
        while !asked.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            for running in executor.in_flight().await {
                let stack = format!("{:?}", running.stack);
                assert!(!stack.contains("/src/"), "{stack}");
                places += stack.matches("actors/executor/tests/it/branches.rs:").count();
            }
        }
        assert!(places > 10, "{function}: {places}");
        asked.await.expect("no panic").expect("it succeeds");
    }
}
