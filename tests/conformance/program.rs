//! The program format: flows of steps as data (FORMAT.md, sections 1 to 4).

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::trace::Expected;

/// A program and the trace it has to give.
#[derive(Debug, Deserialize)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) about: String,
    pub(crate) program: Program,
    pub(crate) expected: Expected,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Program {
    #[serde(default)]
    pub(crate) sync: BTreeMap<String, SyncObject>,
    #[serde(default)]
    pub(crate) templates: InOrder<Model>,
    #[serde(default)]
    pub(crate) children: BTreeMap<String, FlowSpec>,
    pub(crate) flows: Vec<FlowSpec>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum SyncObject {
    Mutex {
        #[serde(default = "one")]
        max: u32,
        max_queue: Option<u32>,
    },
    Throttle {
        max: u32,
        #[serde(default = "second", rename = "period_ms")]
        period: Millis,
        max_queue: Option<u32>,
    },
    Limiter {
        #[serde(default = "one")]
        concurrent: u32,
        #[serde(default)]
        max_queue: u32,
        #[serde(default = "one")]
        rate: u32,
        #[serde(default = "second", rename = "period_ms")]
        period: Millis,
        #[serde(default)]
        burst: u32,
    },
}

/// A model AsyncSteps object for `copyFrom`.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    #[serde(default)]
    pub(crate) state: Map<String, Value>,
    #[serde(default)]
    pub(crate) steps: Ops,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FlowSpec {
    /// Empty in `children`, where the key is the id.
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) state: Map<String, Value>,
    #[serde(default)]
    pub(crate) steps: Ops,
    #[serde(default)]
    pub(crate) start_at: Millis,
    pub(crate) cancel_at: Option<Millis>,
    #[serde(default)]
    pub(crate) via: Via,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Via {
    #[default]
    Execute,
    Promise,
}

/// A time or duration of a program, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Millis(pub(crate) u64);

impl From<Millis> for Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.0)
    }
}

/// The operations of one callback, shared by all of its calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<Op>")]
pub(crate) struct Ops(pub(crate) Arc<[Op]>);

impl Default for Ops {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl From<Vec<Op>> for Ops {
    fn from(ops: Vec<Op>) -> Self {
        Self(ops.into())
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub(crate) enum Op {
    Trace {
        l: String,
        s: Option<Vec<String>>,
    },
    Success(Results),
    Error {
        code: String,
        info: Option<Value>,
    },
    Add(Step),
    Parallel {
        l: String,
        branches: Vec<Step>,
        onerror: Option<Ops>,
    },
    SuccessStep(Results),
    Loop(Repeated),
    Repeat {
        n: usize,
        #[serde(flatten)]
        each: Repeated,
    },
    ForEach {
        over: Value,
        #[serde(flatten)]
        each: Repeated,
    },
    Break {
        label: Option<String>,
    },
    Continue {
        label: Option<String>,
    },
    SetTimeout {
        ms: Millis,
    },
    SetCancel {
        l: String,
    },
    WaitExternal,
    External {
        after: Millis,
        #[serde(flatten)]
        act: Completing,
    },
    Set {
        k: String,
        v: Value,
    },
    Inc {
        k: String,
    },
    Unset {
        k: String,
    },
    CopyFrom {
        t: Value,
    },
    Sync {
        o: String,
        #[serde(flatten)]
        step: Step,
    },
    Await(Promised),
    Spawn {
        c: String,
    },
    Enter {
        o: String,
    },
    Exit {
        o: String,
    },
    If {
        c: Value,
        #[serde(default)]
        then: Ops,
        #[serde(default, rename = "else")]
        or: Ops,
    },
}

/// The body of a step or branch, and its error handler.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    #[serde(default)]
    pub(crate) body: Ops,
    pub(crate) onerror: Option<Ops>,
}

/// The body of a loop.
#[derive(Debug, Deserialize)]
pub(crate) struct Repeated {
    #[serde(default)]
    pub(crate) body: Ops,
    pub(crate) label: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Results {
    #[serde(default)]
    pub(crate) a: Vec<Value>,
}

/// What an external event does.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub(crate) enum Completing {
    Success(Results),
    Error { code: String, info: Option<Value> },
}

#[derive(Debug, Deserialize)]
pub(crate) struct Promised {
    pub(crate) after: Millis,
    #[serde(default)]
    pub(crate) resolve: Value,
    pub(crate) reject: Option<String>,
    pub(crate) cancel: Option<String>,
    pub(crate) onerror: Option<Ops>,
}

fn one() -> u32 {
    1
}

fn second() -> Millis {
    Millis(1000)
}

/// The entries of a JSON object in the order of its text.
#[derive(Debug)]
pub(crate) struct InOrder<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = InOrder<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(InOrder(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}
