//! Actors by key, with state: one call at a time, wherever its node is.

mod answers;
mod attacks;
mod chains;
mod forms;
mod hops;
mod judges;
mod kill;
mod messages;
mod moves;
mod several_keys;
mod stored;
mod turns;
mod worst;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::{BodyResult, Code, Error};
use asyncsteps_durable::entity::{Entity, EntityCx as _};
use asyncsteps_durable::{Durable, Node};
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::{Headers, Request};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Incoming, ReplyBody, Returns, Service, Steps};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::postgres::{self, Postgres};
use asyncsteps_journal::sqlite::{self, Sqlite};
use asyncsteps_journal::{Journal, TokioClock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a call may take: several leases, so that it waits for the next owner also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Counters by name.
struct Counters;

impl Service for Counters {
    type Errors = CountError;
}

impl Entity for Counters {
    type State = Count;
}

#[derive(Debug, Code, thiserror::Error)]
enum CountError {
    #[error("it is too much")]
    TooMuch,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Count {
    sum: i32,
    /// What was added, in order.
    all: Vec<i32>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Add {
    name: String,
    add: i32,
    /// Milliseconds that it takes, before and behind the change.
    #[serde(default)]
    millis: u32,
    /// What is wrong with it.
    #[serde(default)]
    fails: Option<String>,
    #[serde(default)]
    by: Option<By>,
}

/// Something that it does not look at.
#[derive(Serialize, Deserialize, JsonSchema)]
struct By {
    rate: f64,
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Named {
    name: String,
}

impl Counters {
    fn add(steps: &Steps<Self, Add>) -> Returns<i32> {
        let pause = async |cx: &Cx<Self, Add>| {
            if cx.params.millis > 0 {
                tokio::time::sleep(Duration::from_millis(cx.params.millis.into())).await;
            }
        };
        steps
            .run("add", async move |cx, ()| {
                pause(cx).await;
                let sum = cx.entity().change(|count| {
                    count.sum += cx.params.add;
                    count.all.push(cx.params.add);
                    count.sum
                })?;
                pause(cx).await;
                Ok(sum)
            })
            .repeatable()
            .then("check", async |cx, sum| match cx.params.fails.as_deref() {
                Some("panic") => panic!("a body panics"),
                Some(_) => Err(CountError::TooMuch.into()),
                None => Ok(sum),
            })
            .repeatable()
            .returns()
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn sum(cx: &Cx<Self, Named>) -> BodyResult<i32> {
        assert_eq!(cx.entity().key(), cx.params.name);
        Ok(cx.entity().get().sum)
    }

    #[expect(clippy::unused_async, reason = "a handler is an async function")]
    async fn all(cx: &Cx<Self, Named>) -> BodyResult<Vec<i32>> {
        Ok(cx.entity().get().all.clone())
    }
}

/// An executor that has the counters.
fn executor(durable: &Durable) -> Executor {
    let interface = Interface::new("test.counters:1.0".parse().expect("it is a name"));
    let executor = Executor::builder().service(interface, Counters, |functions| {
        let counters = durable.entity(functions, "name");
        counters
            .on("add", Counters::add)
            .reads("sum", Counters::sum)
            .reads("all", Counters::all)
            .reads_stored("stored", Counters::sum);
    });
    executor.request_timeout(PATIENCE).build().expect("it is complete")
}

/// A call of a function for a user, with the user's key.
async fn keyed(
    executor: &Executor,
    function: &str,
    (user, key): (&str, &str),
    params: Value,
) -> Result<Value, String> {
    let Value::Object(params) = params else { panic!("parameters are a map") };
    let request = Request::new(function, params);
    let user = User::new(user, SecurityLevel::SafeOps);
    let incoming = Incoming::new(request, Channel::local())
        .with_caller((&user).into())
        .with_headers(Rc::new(KeyHeader(key.to_owned())));
    match executor.dispatch(incoming).await.into_parts().1 {
        ReplyBody::Message(message) => {
            message.response().clone().into_result().map_err(|error| error.code.to_string())
        }
        ReplyBody::Nothing | ReplyBody::Raw(_) => panic!("it is answered with a message"),
    }
}

/// A process that has the counters.
struct Process {
    durable: Durable,
    executor: Executor,
    node: Option<Node>,
}

impl Process {
    async fn start(journal: impl Journal) -> Self {
        Self::with(Durable::new(journal)).await
    }

    async fn with(durable: Durable) -> Self {
        let executor = executor(&durable);
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        Self { durable, executor, node: Some(node) }
    }

    async fn call<T: for<'de> Deserialize<'de> + 'static>(
        &self,
        function: &str,
        params: Value,
    ) -> Result<T, Error> {
        self.executor.call_as_system(&format!("test.counters:1.0:{function}"), params).await
    }

    async fn add(&self, name: &str, add: i32) -> Result<i32, Error> {
        self.call("add", json!({ "name": name, "add": add })).await
    }

    async fn sum(&self, name: &str) -> i32 {
        self.call("sum", json!({ "name": name })).await.expect("it is read")
    }

    /// The sum as it is stored, without the owner.
    async fn stored(&self, name: &str) -> i32 {
        self.call("stored", json!({ "name": name })).await.expect("it is read")
    }

    async fn all(&self, name: &str) -> Vec<i32> {
        self.call("all", json!({ "name": name })).await.expect("it is read")
    }

    /// A call with the key of a caller.
    async fn keyed(&self, user: &str, key: &str, params: Value) -> Result<Value, String> {
        keyed(&self.executor, "test.counters:1.0:add", (user, key), params).await
    }

    /// The process stops as it should.
    async fn stop(mut self) {
        self.node.take().expect("it runs").stop().await;
    }
}

struct KeyHeader(String);

impl Headers for KeyHeader {
    fn header(&self, name: &str) -> Option<&str> {
        (name == "idempotency-key").then_some(&self.0)
    }

    fn headers(&self) -> Box<dyn Iterator<Item = (&str, &str)> + '_> {
        Box::new(std::iter::empty())
    }
}

/// Durable requests in PostgreSQL, if this is the URL of a server, or in this file.
async fn opened(journal: &str) -> Durable {
    if journal.starts_with("postgres:") {
        let (config, options) = (journal.parse().expect("a URL"), postgres::Options::new("test"));
        return Durable::new(Postgres::connect(config, options).await.expect("a journal"));
    }
    let journal = Sqlite::open(PathBuf::from(journal), sqlite::Options::new("test"));
    Durable::new(journal.expect("a journal"))
}

fn memory() -> Memory {
    Memory::new(TokioClock::start())
}
