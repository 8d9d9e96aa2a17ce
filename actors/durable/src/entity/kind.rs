//! What the entities of an interface have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::iface::IfaceVer;
use asyncsteps_journal::request::{Loaded, Program};
use asyncsteps_journal::{Event, Journal, Path, Timestamp};
use serde_json::{Map, Value};

use super::state::{AnyState, Draft, StateForm};
use crate::shared::KEY;

/// The most bytes of a key: it is a part of names and paths in the journal.
const KEY_BYTES: usize = 512;

/// What a call does with the state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallForm {
    /// It may change it, in its turn.
    Changes,
    /// It reads what the owner has stored.
    Reads,
    /// It reads what is stored, whoever the owner is.
    ReadsStored,
}

/// The entities of an interface.
pub(crate) struct EntityKind {
    /// The interface and its major version.
    name: Arc<str>,
    /// The interface and its whole version, for the executor.
    interface: String,
    pub(super) key: KeyParameters,
    pub(super) form: StateForm,
    /// Where its records are.
    pub(super) root: Path,
    pub(super) journal: Arc<dyn Journal>,
}

/// The parameters that have the key of an entity together: [`Durable::entity`](crate::Durable::entity) takes one name, or
/// an array of several.
#[derive(Clone, Debug)]
pub struct KeyParameters(pub(super) Box<[&'static str]>);

impl From<&'static str> for KeyParameters {
    fn from(name: &'static str) -> Self {
        Self([name].into())
    }
}

impl<const N: usize> From<[&'static str; N]> for KeyParameters {
    fn from(names: [&'static str; N]) -> Self {
        Self(names.into())
    }
}

/// An entity: its key, and its name in the journal.
#[derive(Clone, Debug)]
pub(super) struct EntityName {
    pub(super) key: Arc<str>,
    pub(super) full: Arc<str>,
    form: KeyForm,
}

/// How the text of a key is the values of its parameters.
#[derive(Clone, Copy, Debug)]
enum KeyForm {
    /// It is a text.
    Text,
    /// It is a number.
    Number,
    /// It is an array of texts and numbers, in JSON.
    Several,
}

impl EntityKind {
    pub(super) fn new(
        interface: &IfaceVer,
        key: KeyParameters,
        form: StateForm,
        journal: Arc<dyn Journal>,
    ) -> Self {
        let name = format!("{}:{}", interface.iface(), interface.version().major);
        let interface = interface.to_string();
        let root = Path::template(&name);
        Self { root, name: name.into(), interface, key, form, journal }
    }

    /// The name of one of its functions for the executor.
    pub(super) fn function(&self, function: &str) -> String {
        format!("{}:{function}", self.interface)
    }

    /// The name in the journal of the messages to one of its functions.
    pub(super) fn template(&self, function: &str) -> String {
        format!("{}:{function}", self.name)
    }

    /// The parameters of a message to this entity.
    pub(super) fn addressed(
        &self,
        name: &EntityName,
        mut params: Map<String, Value>,
    ) -> Map<String, Value> {
        let text = |()| Value::from(&*name.key);
        let read = serde_json::from_str(&name.key).map_err(drop);
        match (name.form, read) {
            (KeyForm::Several, Ok(Value::Array(values))) => {
                params.extend(self.key.0.iter().map(|&it| it.to_owned()).zip(values));
            }
            (form, read) => {
                let value = match form {
                    KeyForm::Number => read.unwrap_or_else(text),
                    KeyForm::Text | KeyForm::Several => text(()),
                };
                params.extend(self.key.0.iter().map(|&it| (it.to_owned(), value.clone())));
            }
        }
        params
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The state that is stored, if the entity was changed; fails with the reason why it cannot be read.
    pub(super) fn stored_state(&self, loaded: &Loaded) -> Result<Option<AnyState>, String> {
        let (version, own) = (loaded.flow.version, self.form.version);
        if version > own {
            return Err(format!("its state has version {version}, and the program has {own}"));
        }
        let stored = loaded.records.iter().find_map(|stored| {
            if let Event::Iteration(last) = &stored.record.event { Some(&last.state) } else { None }
        });
        let Some(stored) = stored else { return Ok(None) };
        // the application reads it
        match catch_unwind(AssertUnwindSafe(|| (self.form.read)(version, stored))) {
            Ok(Ok(state)) => Ok(Some(state)),
            Ok(Err(error)) => Err(format!("its state cannot be read: {error}")),
            Err(_) => Err("its state cannot be read: the program panics".to_owned()),
        }
    }

    /// The entity that a call with these parameters is for.
    pub(super) fn named(&self, params: &Map<String, Value>) -> Result<EntityName, Error> {
        let values = self.key.0.iter().map(|&name| self.part(name, params));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let (key, form): (Arc<str>, _) = match &*values {
            [Value::String(key)] => (key.as_str().into(), KeyForm::Text),
            [number] => (number.to_string().into(), KeyForm::Number),
            several => {
                let several = several.iter().map(ToString::to_string).collect::<Vec<_>>();
                (format!("[{}]", several.join(",")).into(), KeyForm::Several)
            }
        };
        if key.len() > KEY_BYTES {
            return Err(self.wrong(&self.key.0.join(", "), &format!("may have {KEY_BYTES} bytes")));
        }
        Ok(EntityName { full: format!("{}{KEY}{key}", self.name).into(), key, form })
    }

    /// The part of a key that this parameter has.
    fn part<'a>(&self, name: &str, params: &'a Map<String, Value>) -> Result<&'a Value, Error> {
        match params.get(name) {
            Some(Value::String(text)) if text.contains('\0') => {
                Err(self.wrong(name, "cannot have the character U+0000"))
            }
            Some(part @ Value::String(_)) => Ok(part),
            Some(part @ Value::Number(number)) if !number.is_f64() => Ok(part),
            _ => Err(self.wrong(name, "has to be a text or a whole number")),
        }
    }

    /// The error of a call in which these parameters break a rule.
    fn wrong(&self, names: &str, rule: &str) -> Error {
        let (s, are) = if names.contains(',') { ("s", "are") } else { ("", "is") };
        let part = if names.split(", ").count() < self.key.0.len() { "a part of " } else { "" };
        let info = format!("The parameter{s} {names} {are} {part}the key of an entity: it {rule}");
        Error::with_info(codes::INVALID_REQUEST, info)
    }

    /// The state of an entity that was never called.
    pub(super) fn new_state(&self) -> Result<AnyState, String> {
        // the application makes it
        catch_unwind(self.form.new)
            .map_err(|_| "the program panics when it makes a state".to_owned())
    }

    /// The state of an entity for a call that reads; `None` is that of one that was never called.
    pub(super) fn for_reading(
        &self,
        (name, now): (&EntityName, Timestamp),
        state: Option<AnyState>,
    ) -> Draft {
        let state = state.unwrap_or_else(self.form.new);
        (self.form.draft)(&state, (Arc::clone(&name.key), now), false)
    }

    /// An entity as a node asks for it.
    pub(super) fn program(&self, name: &EntityName) -> Program {
        let version = self.form.version;
        Program { template: name.full.to_string(), version, compatible: (0..version).collect() }
    }
}
