//! A shop whose orders are durable, and the world outside of it, which remembers what was asked of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_core::{BodyResult, Retry, Undo};
use asyncsteps_durable::Durable;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use schemars::JsonSchema;
use serde::Deserialize;

use asyncsteps_journal::TokioClock;

pub(crate) const ORDER: &str = "test.shop:1.0:order";

/// Where an order fails: nowhere, in a body, in a branch, in a nested step, by a time limit.
pub(crate) const FAILURES: [&str; 6] = ["", "charge", "mail", "carrier", "slow", "record"];

/// The world outside.
#[derive(Clone)]
pub(crate) struct World {
    facts: Arc<Mutex<Facts>>,
    clock: TokioClock,
}

#[derive(Default)]
struct Facts {
    /// The keys of what was done, by what it is.
    done: BTreeMap<&'static str, BTreeSet<String>>,
    /// The keys of what was undone.
    undone: BTreeMap<&'static str, BTreeSet<String>>,
    /// How often the bank was asked.
    asked: u32,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { facts: Arc::default(), clock: TokioClock::start() }
    }

    pub(crate) fn journal(&self) -> Memory {
        Memory::new(self.clock)
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().expect("no test panics while it has the facts")
    }

    fn act(&self, what: &'static str, key: &str) -> BodyResult<String> {
        let mut facts = self.facts();
        let is_undone = facts.undone.get(what).is_some_and(|keys| keys.contains(key));
        assert!(!is_undone, "{what} was done after it was undone, with {key}");
        facts.done.entry(what).or_default().insert(key.to_owned());
        Ok(key.to_owned())
    }

    fn undo(&self, what: &'static str, key: &str) -> BodyResult<()> {
        self.facts().undone.entry(what).or_default().insert(key.to_owned());
        Ok(())
    }

    /// The world adds up after an order.
    pub(crate) fn check(&self, ending: &Ending, fails_at: &str, crashes: &str) {
        let facts = self.facts();
        let count = |what| facts.done.get(what).map_or(0, BTreeSet::len);
        let kept = |what| {
            let none = BTreeSet::new();
            let undone = facts.undone.get(what).unwrap_or(&none);
            facts.done.get(what).map_or(0, |done| done.difference(undone).count())
        };
        let kinds = ["reserve", "charge", "label", "mail"];
        for what in kinds {
            assert!(count(what) <= 1, "{what} was done with several keys: {crashes}");
        }
        match (fails_at, ending) {
            ("", Ending::Completed(value)) => {
                let result: String = value.decode().expect("it is a text");
                assert!(result.starts_with("shipped"), "{result}: {crashes}");
                for what in kinds {
                    assert_eq!(kept(what), 1, "{what} is done: {crashes}");
                }
            }
            ("", _) | (_, Ending::Completed(_)) => panic!("{ending:?} at {fails_at}: {crashes}"),
            (_, Ending::Failed(failure)) => {
                let code = if fails_at == "slow" { "InternalError" } else { "TestFailed" };
                assert_eq!(failure.code, code, "{failure:?} at {fails_at}: {crashes}");
                for what in ["reserve", "charge", "label"] {
                    assert_eq!(kept(what), 0, "{what} is undone at {fails_at}: {crashes}");
                }
            }
            (_, other) => panic!("{other:?}: {crashes}"),
        }
    }
}

pub(crate) struct Shop(World);

impl Service for Shop {
    type Errors = Failed;
}

#[derive(Debug, asyncsteps_core::Code, thiserror::Error)]
pub(crate) enum Failed {
    #[error("the test asked for it")]
    #[code("TestFailed")]
    Asked,
    #[error("try again")]
    #[code("TryAgain")]
    Transient,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Order {
    fails_at: String,
}

impl Order {
    fn fails_at(&self, step: &str) -> BodyResult<()> {
        if self.fails_at == step { Err(Failed::Asked.into()) } else { Ok(()) }
    }
}

async fn soon() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

async fn charges(cx: &Cx<Shop, Order>, _: String) -> BodyResult<String> {
    cx.0.facts().asked += 1;
    if cx.attempt() < 3 {
        return Err(Failed::Transient.into());
    }
    soon().await;
    cx.params.fails_at("charge")?;
    cx.0.act("charge", cx.key())
}

fn ship(steps: &Steps<Shop, Order, ((), ())>) -> Returns<String> {
    steps
        .run("label", async |cx, _| {
            soon().await;
            cx.0.act("label", cx.key())
        })
        .recorded()
        .undo(async |cx, _| {
            soon().await;
            cx.0.undo("label", cx.key())
        })
        .then("carrier", async |cx, label: String| {
            soon().await;
            cx.params.fails_at("carrier")?;
            if cx.params.fails_at == "slow" {
                std::future::pending::<()>().await;
            }
            Ok(label)
        })
        .recorded()
        .returns()
}

fn order(steps: &Steps<Shop, Order>) -> Returns<String> {
    let again = Retry::attempts(4).backoff(Duration::from_millis(50));
    steps
        .run("reserve", async |cx, ()| {
            soon().await;
            cx.0.act("reserve", cx.key())
        })
        .recorded()
        .undo(async |cx, outcome| {
            if let Undo::Done(given) = outcome {
                assert_eq!(given, cx.key());
            }
            soon().await;
            cx.0.undo("reserve", cx.key())
        })
        .then("charge", charges)
        .retry(again.on(|error| matches!(error, Failed::Transient)))
        .recorded()
        .undo(async |cx, _| cx.0.undo("charge", cx.key()))
        .then_join("tell", |all| {
            let mail = all.run("mail", async |cx, _| {
                soon().await;
                cx.params.fails_at("mail")?;
                cx.0.act("mail", cx.key()).map(|_| ())
            });
            let audit = all.run("audit", async |_, _| {
                soon().await;
                soon().await;
                Ok(())
            });
            (mail.recorded(), audit.recorded())
        })
        .then_nested("ship", ship)
        .timeout(Duration::from_secs(1000))
        .then("record", async |cx, label| {
            cx.params.fails_at("record")?;
            Ok(format!("shipped {label}"))
        })
        .recorded()
        .returns()
}

/// A process that has the shop.
pub(crate) fn durable(journal: Memory, world: &World) -> (Durable, Executor) {
    let durable = Durable::new(journal);
    let interface = Interface::new("test.shop:1.0".parse().expect("it is a name"));
    let executor = Executor::builder()
        .service(interface, Shop(world.clone()), |functions| {
            durable.on(functions, "order", order);
        })
        .build()
        .expect("the shop is complete");
    (durable, executor)
}
