//! JSON values as arguments, results and error information, and the conditions on them.

use asyncsteps_core::{Args, ArgsMismatch, Arguments, AsyncSteps, Info, State};
use serde_json::{Map, Value, json};

/// Calls `$act` with `$values` as a tuple of as many values: what the typed API takes.
macro_rules! with_tuple {
    ($values:expr, |$tuple:ident| $act:expr) => {{
        let mut values = $values.into_iter();
        let count = values.len();
        let mut next = || values.next().unwrap_or_default();
        match count {
            0 => {
                let $tuple = ();
                $act
            }
            1 => {
                let $tuple = (next(),);
                $act
            }
            2 => {
                let $tuple = (next(), next());
                $act
            }
            3 => {
                let $tuple = (next(), next(), next());
                $act
            }
            _ => {
                let $tuple = (next(), next(), next(), next());
                $act
            }
        }
    }};
}
pub(crate) use with_tuple;

/// The values that came as arguments or as a result.
pub(crate) fn values(args: Args) -> Result<Vec<Value>, ArgsMismatch> {
    Ok(match args.len() {
        0 => Vec::new(),
        1 => <(Value,)>::from_args(args).map(|(a,)| vec![a])?,
        2 => <(Value, Value)>::from_args(args).map(<[Value; 2]>::from)?.into(),
        3 => <(Value, Value, Value)>::from_args(args).map(<[Value; 3]>::from)?.into(),
        _ => <(Value, Value, Value, Value)>::from_args(args).map(<[Value; 4]>::from)?.into(),
    })
}

/// Error information is text for the engine: JSON text, so that any value can be told.
pub(crate) fn info(value: Option<Value>) -> Info {
    value.map(|value| value.to_string()).into()
}

/// The information of an error; what the engine itself says is no JSON and stays text.
pub(crate) fn info_value(info: Option<&str>) -> Value {
    info.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)))
}

/// Where state variables are found: in a flow, or in the state that one starts with.
pub(crate) trait Variables {
    fn variable(&self, name: &str) -> Option<Value>;
}

impl Variables for AsyncSteps {
    /// `error_info` is a variable too (FTN12 §1.7).
    fn variable(&self, name: &str) -> Option<Value> {
        match self.state().variable(name) {
            Some(value) => Some(value),
            None if name == "error_info" => {
                self.last_exception().map(|error| info_value(error.info()))
            }
            None => None,
        }
    }
}

impl Variables for State {
    fn variable(&self, name: &str) -> Option<Value> {
        self.get::<Value>(name).cloned()
    }
}

impl Variables for Map<String, Value> {
    fn variable(&self, name: &str) -> Option<Value> {
        self.get(name).cloned()
    }
}

/// What an operation sees: the arguments of its callback and, given with each look, the state.
#[derive(Default)]
pub(crate) struct Sight<'a> {
    pub(crate) args: &'a [Value],
    /// The code, in an error callback.
    pub(crate) err: Option<&'a str>,
}

impl Sight<'_> {
    /// Replaces `{"$arg": i}` and `{"$state": k}` at any depth.
    pub(crate) fn fill(&self, state: &impl Variables, value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(|item| self.fill(state, item)).collect(),
            Value::Object(entries) => match self.reference(state, entries) {
                Some(found) => found,
                None => {
                    let filled = entries.iter().map(|(k, v)| (k.clone(), self.fill(state, v)));
                    Value::Object(filled.collect())
                }
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }

    pub(crate) fn fill_all(&self, state: &impl Variables, values: &[Value]) -> Vec<Value> {
        values.iter().map(|value| self.fill(state, value)).collect()
    }

    fn reference(&self, state: &impl Variables, entries: &Map<String, Value>) -> Option<Value> {
        let (name, of) = entries.iter().next().filter(|_| entries.len() == 1)?;
        match (&**name, of) {
            ("$arg", of) => Some(self.arg(of).cloned().unwrap_or_default()),
            ("$state", Value::String(name)) => Some(state.variable(name).unwrap_or_default()),
            _ => None,
        }
    }

    fn arg(&self, index: &Value) -> Option<&Value> {
        self.args.get(usize::try_from(index.as_u64()?).ok()?)
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, state: &impl Variables, condition: &Value) -> bool {
        let all = |list: &Value| -> Vec<bool> {
            list.as_array().into_iter().flatten().map(|item| self.holds(state, item)).collect()
        };
        if let Some(inner) = condition.get("not") {
            return !self.holds(state, inner);
        }
        if let Some(list) = condition.get("all") {
            return all(list).into_iter().all(|holds| holds);
        }
        if let Some(list) = condition.get("any") {
            return all(list).into_iter().any(|holds| holds);
        }
        if let Some(code) = condition.get("err") {
            return self.err.is_some() && self.err == code.as_str();
        }
        let subject = match (condition.get("arg"), condition.get("state")) {
            (Some(index), _) => self.arg(index).cloned(),
            (None, Some(name)) => state.variable(name.as_str().unwrap_or_default()),
            (None, None) => None,
        };
        test(condition, subject)
    }
}

fn test(condition: &Value, subject: Option<Value>) -> bool {
    if let Some(exists) = condition.get("exists") {
        return exists.as_bool() == Some(subject.is_some());
    }
    let Some(subject) = subject else { return false };
    let number = subject.as_f64();
    let compare = |limit: &Value, holds: fn(&f64, &f64) -> bool| {
        number.zip(limit.as_f64()).is_some_and(|(number, limit)| holds(&number, &limit))
    };
    match (condition.get("eq"), condition.get("lt"), condition.get("ge")) {
        (Some(value), ..) => *value == subject,
        (None, Some(limit), _) => compare(limit, f64::lt),
        (None, None, Some(limit)) => compare(limit, f64::ge),
        (None, None, None) => false,
    }
}
