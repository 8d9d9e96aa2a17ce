//! A bank with books of its own, and requests that have dealings with it: how the functions under test are written,
//! crash, and are carried out again. Tests of replays know nothing else of how functions are defined.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_actors::sync;
use asyncsteps_core::sync::mutex;
use asyncsteps_core::{BodyResult, Undo};
use asyncsteps_durable::journal::Uid;
use asyncsteps_durable::journal::memory::Memory;
use asyncsteps_durable::journal::record::Ending;
use asyncsteps_durable::journal::request::FlowState;
use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Cx, Executor, Returns, Service, Steps};
use serde_json::json;

use crate::lab::{Nothing, soon};
use crate::node::{Crash, Until, run_until};
use crate::programs::Node;
use asyncsteps_journal::TokioClock;

/// A function under test, in this process of the bank.
pub(crate) type Planned = fn(&Steps<Bank, Nothing>, &Bank) -> Returns<String>;

/// An entry of the books: what was done under a name, or undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_undo: bool,
}

/// A process of the service, and the bank that all of them deal with.
#[derive(Clone)]
pub(crate) struct Bank {
    books: Arc<Mutex<Vec<Entry>>>,
    clock: TokioClock,
    /// Which program the process has.
    pub(crate) program: &'static str,
    pub(crate) lock: sync::Mutex,
    /// A limiter with one place.
    pub(crate) place: sync::Mutex,
    function: Planned,
    /// The steps of a function that is made at random.
    pub(crate) nodes: Arc<[Node]>,
}

impl Service for Bank {
    type Errors = ();
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum End {
    Ended(Ending),
    Paused(String),
}

impl Bank {
    pub(crate) fn new(function: Planned) -> Self {
        let options = mutex::Options { max: 1, max_queue: None };
        Self {
            books: Arc::default(),
            clock: TokioClock::start(),
            program: "",
            lock: sync::Mutex::new(options),
            place: sync::Mutex::new(options),
            function,
            nodes: Arc::default(),
        }
    }

    pub(crate) fn with_nodes(self, nodes: Arc<[Node]>) -> Self {
        Self { nodes, ..self }
    }

    /// Another process, with this program, whose locks take this number of waiting requests.
    pub(crate) fn process(&self, program: &'static str, max_queue: Option<u32>) -> Self {
        let options = mutex::Options { max: 1, max_queue };
        let (lock, place) = (sync::Mutex::new(options), sync::Mutex::new(options));
        Self { program, lock, place, ..self.clone() }
    }

    pub(crate) fn journal(&self) -> Memory {
        Memory::new(self.clock)
    }

    fn books(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.books.lock().expect("no test panics while it writes")
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.books().clone()
    }

    /// The bank does what the step asks for.
    pub(crate) fn deal(&self, key: &str) {
        self.enter(key, false);
    }

    /// The bank undoes it.
    pub(crate) fn undo(&self, key: &str) {
        self.enter(key, true);
    }

    fn enter(&self, key: &str, is_undo: bool) {
        let name = key.split_once('-').map_or(key, |(_, name)| name).to_owned();
        self.books().push(Entry { name, is_undo });
    }

    /// What is done and not undone, by name. The bank does the same thing once under one name.
    pub(crate) fn kept(&self) -> Vec<String> {
        let mut kept = BTreeMap::new();
        for Entry { name, is_undo } in &*self.books() {
            kept.insert(name.clone(), !is_undo);
        }
        kept.into_iter().filter_map(|(name, is_kept)| is_kept.then_some(name)).collect()
    }

    /// A durable handle and an executor with the function.
    pub(crate) fn serve(&self, journal: Memory) -> (Durable, Executor) {
        let durable = Durable::new(journal);
        let interface = Interface::new("test.bank:1.0".parse().expect("it is a name"));
        let executor = Executor::builder()
            .service(interface, self.clone(), |functions| {
                let (function, bank) = (self.function, self.clone());
                let order = move |steps: &Steps<_, _>| function(steps, &bank);
                durable.on(functions, "order", order);
            })
            .build()
            .expect("the bank is complete");
        (durable, executor)
    }

    pub(crate) async fn submit(&self, journal: &Memory, options: Options) -> Uid {
        let user = User::new("ann", SecurityLevel::SafeOps);
        let (durable, _executor) = self.serve(journal.clone());
        let uid = durable.submit("test.bank:1.0:order", json!({}), options.caller(&user)).await;
        uid.expect("the journal takes it")
    }

    /// Runs the request until the process crashes; returns how it ended if it did not.
    pub(crate) async fn crash(&self, journal: &Memory, uid: Uid, crash: Crash) -> Option<Ending> {
        match run_until(journal, |journal| self.serve(journal), uid, Some(crash)).await {
            Until::Crashed => None,
            Until::Ended(ending) => Some(ending),
        }
    }

    /// Runs the request until it has ended or waits for an operator.
    pub(crate) async fn replay(&self, journal: &Memory, uid: Uid) -> End {
        let (durable, executor) = self.serve(journal.clone());
        let node = durable.start(&executor).await.expect("the journal gives a lease");
        let end = tokio::time::timeout(Duration::from_secs(5_000), async {
            loop {
                let status = durable.status(uid).await.expect("it is known");
                match (status.ending, status.flow.state) {
                    (Some(ending), _) => return End::Ended(ending),
                    (None, FlowState::Paused) => {
                        return End::Paused(status.flow.reason.unwrap_or_default());
                    }
                    _ => tokio::time::sleep(Duration::from_secs(1)).await,
                }
            }
        });
        let end = end.await.unwrap_or_else(|_| panic!("it hangs: {:?}", self.entries()));
        node.stop().await;
        end
    }
}

/// The body of a step that the bank does after a moment.
pub(crate) async fn deals<T>(cx: &Cx<Bank, Nothing>, value: T) -> BodyResult<T> {
    soon().await;
    cx.deal(cx.key());
    soon().await;
    Ok(value)
}

/// Its undo.
pub(crate) async fn undoes<T>(cx: &Cx<Bank, Nothing>, _: Undo<&T>) -> BodyResult<()> {
    soon().await;
    cx.undo(cx.key());
    Ok(())
}

/// The body of a step that does not end by itself.
pub(crate) async fn stays<T>(_: &Cx<Bank, Nothing>, value: T) -> BodyResult<T> {
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    Ok(value)
}

/// Holds a lock from now on for a while.
pub(crate) fn hold(lock: &sync::Mutex, time: Duration) {
    let guard = lock.try_lock().expect("it is a new lock");
    actix::spawn(async move {
        tokio::time::sleep(time).await;
        drop(guard);
    });
}
