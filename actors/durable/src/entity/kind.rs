//! What the entities of an interface have in common.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::iface::IfaceVer;
use asyncsteps_journal::request::{Loaded, Program};
use asyncsteps_journal::{Event, Journal, Path};
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
    /// The parameter that has the key.
    pub(super) parameter: &'static str,
    pub(super) form: StateForm,
    /// Where its records are.
    pub(super) root: Path,
    pub(super) journal: Arc<dyn Journal>,
}

/// An entity: its key, and its name in the journal.
#[derive(Clone, Debug)]
pub(super) struct EntityName {
    pub(super) key: Arc<str>,
    pub(super) full: Arc<str>,
    /// The parameter that has the key is a number.
    is_number: bool,
}

impl EntityKind {
    pub(super) fn new(
        interface: &IfaceVer,
        parameter: &'static str,
        form: StateForm,
        journal: Arc<dyn Journal>,
    ) -> Self {
        let name = format!("{}:{}", interface.iface(), interface.version().major);
        let interface = interface.to_string();
        let root = Path::template(&name);
        Self { root, name: name.into(), interface, parameter, form, journal }
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
        let number = name.is_number.then(|| serde_json::from_str(&name.key).ok()).flatten();
        let key = number.unwrap_or_else(|| Value::from(&*name.key));
        params.insert(self.parameter.to_owned(), key);
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
        let (key, is_number): (Arc<str>, _) = match params.get(self.parameter) {
            Some(Value::String(key)) => (key.as_str().into(), false),
            Some(Value::Number(key)) if !key.is_f64() => (key.to_string().into(), true),
            _ => return Err(self.wrong("has to be a text or a whole number")),
        };
        if key.len() > KEY_BYTES {
            return Err(self.wrong(&format!("may have {KEY_BYTES} bytes")));
        }
        if key.contains('\0') {
            return Err(self.wrong("cannot have the character U+0000"));
        }
        Ok(EntityName { full: format!("{}{KEY}{key}", self.name).into(), key, is_number })
    }

    fn wrong(&self, rule: &str) -> Error {
        let info = format!("The parameter {} is the key of an entity: it {rule}", self.parameter);
        Error::with_info(codes::INVALID_REQUEST, info)
    }

    /// The state of an entity that was never called.
    pub(super) fn new_state(&self) -> Result<AnyState, String> {
        // the application makes it
        catch_unwind(self.form.new)
            .map_err(|_| "the program panics when it makes a state".to_owned())
    }

    /// The state of an entity for a call that reads; `None` is that of one that was never called.
    pub(super) fn for_reading(&self, name: &EntityName, state: Option<AnyState>) -> Draft {
        let state = state.unwrap_or_else(self.form.new);
        (self.form.draft)(&state, Arc::clone(&name.key), false)
    }

    /// An entity as a node asks for it.
    pub(super) fn program(&self, name: &EntityName) -> Program {
        let version = self.form.version;
        Program { template: name.full.to_string(), version, compatible: (0..version).collect() }
    }
}
