//! What a program did: events in their order, and how each flow ended (FORMAT.md, section 6).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The trace that a program has to give.
#[derive(Debug, Deserialize)]
pub(crate) struct Expected {
    #[serde(flatten)]
    pub(crate) trace: Trace,
    /// The times of the events count too, within a tolerance.
    #[serde(default)]
    pub(crate) timed: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Trace {
    #[serde(default)]
    pub(crate) events: Vec<Event>,
    #[serde(default)]
    pub(crate) flows: BTreeMap<String, Ending>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    /// The flow.
    pub(crate) f: String,
    /// The branch, empty for the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) p: String,
    /// Milliseconds since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) t: Option<u64>,
    #[serde(flatten)]
    pub(crate) what: What,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "e", rename_all = "lowercase")]
pub(crate) enum What {
    Trace(Traced),
    Cancel { l: String },
    Spawn { c: String },
    Enter { o: String },
    Exit { o: String },
}

/// What the op `trace` saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Traced {
    pub(crate) l: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) a: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) s: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) err: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) info: Value,
}

impl<'de> Deserialize<'de> for What {
    /// An absent kind means `trace`.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            e: Option<String>,
            l: Option<String>,
            c: Option<String>,
            o: Option<String>,
            #[serde(default)]
            a: Vec<Value>,
            s: Option<Map<String, Value>>,
            err: Option<String>,
            #[serde(default)]
            info: Value,
        }
        let Fields { e, l, c, o, a, s, err, info } = Fields::deserialize(deserializer)?;
        let missing = |field| serde::de::Error::missing_field(field);
        match e.as_deref().unwrap_or("trace") {
            "trace" => {
                Ok(Self::Trace(Traced { l: l.ok_or_else(|| missing("l"))?, a, s, err, info }))
            }
            "cancel" => Ok(Self::Cancel { l: l.ok_or_else(|| missing("l"))? }),
            "spawn" => Ok(Self::Spawn { c: c.ok_or_else(|| missing("c"))? }),
            "enter" => Ok(Self::Enter { o: o.ok_or_else(|| missing("o"))? }),
            "exit" => Ok(Self::Exit { o: o.ok_or_else(|| missing("o"))? }),
            kind => Err(serde::de::Error::custom(format_args!("unknown kind of event {kind}"))),
        }
    }
}

/// How a flow ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(crate) enum Ending {
    Success {
        #[serde(default)]
        args: Vec<Value>,
        #[serde(default)]
        state: Map<String, Value>,
    },
    Error {
        code: String,
        #[serde(default)]
        info: Value,
        #[serde(default)]
        state: Map<String, Value>,
    },
    Cancelled,
    Pending,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for event in &self.events {
            writeln!(f, "    {event}")?;
        }
        for (id, ending) in &self.flows {
            writeln!(f, "    {id}: {ending}")?;
        }
        Ok(())
    }
}
