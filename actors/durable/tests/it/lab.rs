//! Functions that count what their steps do, and processes that run them and crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use asyncsteps_durable::{Durable, Options};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Functions, Service};
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::{TokioClock, Uid};
use serde_json::json;

use crate::node::{Crash, Kind, Until, run_until};

type Define = dyn Fn(u32, &Durable, &mut Functions<Lab>) + Send + Sync;

/// What the steps did, by name.
#[derive(Clone)]
pub(crate) struct Lab {
    counts: Arc<Mutex<BTreeMap<String, u32>>>,
    clock: TokioClock,
    /// Which program the process has.
    pub(crate) program: u32,
    /// Makes its functions durable, as this program has them.
    functions: Arc<Define>,
}

impl Service for Lab {
    type Errors = ();
}

impl Lab {
    pub(crate) fn new(functions: fn(&Durable, &mut Functions<Self>)) -> Self {
        Self::with_programs(move |_, durable, own| functions(durable, own))
    }

    /// Its functions differ between programs.
    pub(crate) fn with_programs(
        functions: impl Fn(u32, &Durable, &mut Functions<Self>) + Send + Sync + 'static,
    ) -> Self {
        let functions = Arc::new(functions);
        Self { counts: Arc::default(), clock: TokioClock::start(), program: 1, functions }
    }

    pub(crate) fn with_program(self, program: u32) -> Self {
        Self { program, ..self }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.counts.lock().expect("no test panics while it counts")
    }

    pub(crate) fn count(&self, what: impl Into<String>) {
        *self.counts().entry(what.into()).or_default() += 1;
    }

    pub(crate) fn counted(&self, what: &str) -> u32 {
        self.counts().get(what).copied().unwrap_or(0)
    }

    pub(crate) fn all_counted(&self) -> BTreeMap<String, u32> {
        self.counts().clone()
    }

    pub(crate) fn journal(&self) -> Memory {
        Memory::new(self.clock)
    }

    /// A process with the functions of the lab.
    pub(crate) fn process(&self, journal: Memory) -> (Durable, Executor) {
        let durable = Durable::new(journal);
        let interface = Interface::new("test.lab:1.0".parse().expect("it is a name"));
        let executor = Executor::builder()
            .service(interface, self.clone(), |functions| {
                (self.functions)(self.program, &durable, functions);
            })
            .build()
            .expect("the lab is complete");
        (durable, executor)
    }

    pub(crate) async fn submit(&self, journal: &Memory, function: &str, options: Options) -> Uid {
        let user = User::new("ann", SecurityLevel::SafeOps);
        let (durable, _executor) = self.process(journal.clone());
        let function = format!("test.lab:1.0:{function}");
        let uid = durable.submit(&function, json!({}), options.caller(&user)).await;
        uid.expect("the journal takes it")
    }

    /// Runs one process after the other, each of which crashes but the last.
    pub(crate) async fn ended(
        &self,
        journal: &Memory,
        uid: Uid,
        crashes: &[Crash],
    ) -> (Ending, bool) {
        let process = |journal| self.process(journal);
        for crash in crashes {
            if let Until::Ended(ending) = run_until(journal, process, uid, Some(*crash)).await {
                return (ending, false);
            }
        }
        match run_until(journal, process, uid, None).await {
            Until::Ended(ending) => (ending, true),
            Until::Crashed => unreachable!("nothing crashes it"),
        }
    }
}

/// Runs a function with a crash at each record, as `prepare` and `check` say.
pub(crate) async fn at_each_record<F: AsyncFn(&Memory, Uid)>(
    lab: fn() -> Lab,
    function: &str,
    prepare: F,
    check: impl Fn(&Lab, &Ending, Crash),
) {
    let mut count = 0;
    for kind in [Kind::BeforeStored, Kind::AfterStored] {
        for append in 1.. {
            let lab = lab();
            let journal = lab.journal();
            let uid = lab.submit(&journal, function, Options::default()).await;
            prepare(&journal, uid).await;
            let crash = Crash { append, kind };
            let limit = Duration::from_secs(100_000);
            let ended = tokio::time::timeout(limit, lab.ended(&journal, uid, &[crash])).await;
            let (ending, has_crashed) = ended.unwrap_or_else(|_| panic!("{crash:?} hangs"));
            check(&lab, &ending, crash);
            if !has_crashed {
                break;
            }
            count += 1;
        }
    }
    assert!(count >= 4, "{function} crashed {count} times");
}

pub(crate) fn result<T: serde::de::DeserializeOwned>(ending: &Ending) -> T {
    let Ending::Completed(value) = ending else { panic!("no result: {ending:?}") };
    value.decode().expect("it is of the type")
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Nothing {}

pub(crate) async fn soon() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}
