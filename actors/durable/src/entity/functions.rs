//! Adds the functions of entities to an interface.

use std::panic::Location;
use std::sync::Arc;

use asyncsteps_executor::plan::{Handler, Planned, StepView};
use asyncsteps_executor::recorder::Kind;
use asyncsteps_executor::{FunctionResult, Functions};
use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;

use super::Entity;
use super::call::front;
use super::kind::{CallForm, EntityKind, KeyParameters};
use super::state::StateForm;
use crate::durable::Durable;
use crate::front::DurableForm;
use crate::shared::{DurableShared, MessageFunction};

/// The highest version of a state: a node that claims an entity names all versions that it reads.
const VERSIONS: u32 = 1000;

/// Takes the functions of the entities of an interface: [`Durable::entity`] returns it.
#[derive(derive_more::Debug)]
#[debug("EntityFunctions {{ entities: {:?}, .. }}", kind.name())]
pub struct EntityFunctions<'a, E> {
    functions: &'a mut Functions<E>,
    shared: Arc<DurableShared>,
    kind: Arc<EntityKind>,
}

impl Durable {
    /// The functions of an interface that are called for an [`Entity`]. The parameter `key` of each has its key, a text
    /// or a whole number; or several parameters have it together, such as `["hall", "date"]`. Then
    /// [`EntityState::key`](super::EntityState::key) is their values as an array of JSON, such as `["opera",20]`.
    ///
    /// Each node of the journal may get the calls. Where several processes share one, a [sticky placement] by the same
    /// parameter, or one of them, sends the calls of an entity to one of them; without that it moves to where it is called, which takes
    /// a round to the journal each time. All nodes behind one fabric have one journal.
    ///
    /// [sticky placement]: https://docs.rs/asyncsteps-fabric/latest/asyncsteps_fabric/enum.Placement.html
    pub fn entity<'a, E: Entity>(
        &self,
        functions: &'a mut Functions<E>,
        key: impl Into<KeyParameters>,
    ) -> EntityFunctions<'a, E> {
        let (journal, key) = (Arc::clone(&self.shared.journal), key.into());
        let kind = EntityKind::new(functions.interface(), key, StateForm::of::<E>(), journal);
        let kind = Arc::new(kind);
        let reads = Arc::clone(&kind);
        let reads = Arc::new(move |loaded: &_| reads.stored_state(loaded).map(drop));
        self.shared.add_entities(Arc::clone(kind.name()), reads);
        EntityFunctions { functions, shared: Arc::clone(&self.shared), kind }
    }
}

#[expect(clippy::return_self_not_must_use, reason = "it is given back to add more functions")]
impl<E: Entity> EntityFunctions<'_, E> {
    /// A function that may change the state. Calls of an entity run one at a time, in the order in which they came: a
    /// turn ends when its call has ended, and what failed in it is undone. A caller gets the answer when the changes of
    /// its call are stored, and all that it saw.
    ///
    /// Its bodies are [`repeatable`](asyncsteps_executor::plan::Step::repeatable), which an `async fn` is by itself: they
    /// have no effect but on the state. So they may run before the changes of earlier calls are stored, and again if the
    /// node loses the entity. A function with another body is an error of
    /// [`Builder::build`](asyncsteps_executor::Builder::build): what has an effect elsewhere is a
    /// [durable function](Durable::on), which calls the entity.
    ///
    /// A call with the header `Idempotency-Key`, or of a client [with a key](asyncsteps_executor::TypedClient::with_key), has
    /// an identity: the same key again, of the same user for the same
    /// function, gets the first answer, as long as it is among the last
    /// [1,000 calls](super::ANSWERS) with a key of the entity. Without one, `OutcomeUnknown` is the answer to a call whose node was lost
    /// while its changes were being stored.
    #[track_caller]
    pub fn on<Form, H>(self, function: &'static str, handler: H) -> Self
    where
        Form: DurableForm,
        H: Handler<E, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.add(CallForm::Changes, function, handler, Location::caller())
    }

    /// A function that only reads the state. Calls of it run beside each other and beside one that changes the state,
    /// and see the last state that is stored: the changes of each call that was answered before.
    #[track_caller]
    pub fn reads<Form, H>(self, function: &'static str, handler: H) -> Self
    where
        Form: DurableForm,
        H: Handler<E, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.add(CallForm::Reads, function, handler, Location::caller())
    }

    /// A function that only reads the state, as the journal has it: without the owner of the entity, which stays where it
    /// is. Any process answers it, also one without a node, with a read of all that the journal has of the entity: the
    /// state and its kept answers. The changes of each call that was answered before are in it, and what it sees may be
    /// older than what other calls see by then.
    #[track_caller]
    pub fn reads_stored<Form, H>(self, function: &'static str, handler: H) -> Self
    where
        Form: DurableForm,
        H: Handler<E, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        self.add(CallForm::ReadsStored, function, handler, Location::caller())
    }

    #[track_caller]
    fn add<Form, H>(
        self,
        form: CallForm,
        function: &'static str,
        handler: H,
        source: &'static Location<'static>,
    ) -> Self
    where
        H: Handler<E, Form>,
        H::Params: DeserializeOwned + JsonSchema,
        H::Result: FunctionResult,
    {
        let Self { functions, shared, kind } = self;
        let front = front(&shared, &kind, (function, form), &functions.checks());
        let planned = functions.on_behind(&front, function, handler);
        let schema = schema_for!(H::Params);
        let required = schema.get("required").and_then(serde_json::Value::as_array);
        let is_missing = |parameter: &&&str| {
            !required.is_some_and(|names| names.iter().any(|name| name == **parameter))
        };
        if let Some(parameter) = kind.key.0.iter().find(is_missing) {
            let what =
                format!("it has no parameter `{parameter}`, which has the key of the entity");
            functions.mistake(function, source, what);
        }
        if E::VERSION > VERSIONS {
            let what =
                format!("the version of its entities is {}; it may be {VERSIONS}", E::VERSION);
            functions.mistake(function, source, what);
        }
        for (at, name) in planned.iter().flat_map(|planned| effects(planned)) {
            let what = format!(
                "`{name}` is not `repeatable()`: a function of an entity has no effect but on its state. A durable \
                 function has others, and calls the entity"
            );
            functions.mistake(function, at, what);
        }
        if form == CallForm::Changes {
            let (template, called) = (kind.template(function), kind.function(function));
            let checks = functions.checks();
            shared.add_messages(template, MessageFunction { function: called, checks });
        }
        Self { functions, shared, kind }
    }
}

/// The steps that may have an effect elsewhere.
fn effects(planned: &Planned) -> Vec<(&'static Location<'static>, &'static str)> {
    fn collect(
        steps: &[Vec<StepView>],
        found: &mut Vec<(&'static Location<'static>, &'static str)>,
    ) {
        for step in steps.iter().flatten() {
            let records = [Kind::Recorded, Kind::Once, Kind::Transacted];
            if step.kind().is_some_and(|kind| records.contains(&kind)) {
                found.push((step.source(), step.names().next().map_or("", |(name, _)| name)));
            }
            collect(step.ways(), found);
        }
    }
    let mut found = Vec::new();
    collect(planned.function.ways(), &mut found);
    found
}
