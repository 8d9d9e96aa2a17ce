//! A call of an entity, from its caller to the owner.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::{CallerFences, FencingToken};
use asyncsteps_actors::trace;
use asyncsteps_core::{AsyncSteps, Error, StepResult, Template, codes};
use asyncsteps_executor::RequestSteps;
use asyncsteps_executor::message::Response;
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use serde_json::{Map, Value};

use super::answers::CallKey;
use super::hop::{Hop, HoppingCall};
use super::kind::{EntityKind, EntityName};
use super::owned::{Committed, OwnedEntity};
use super::owner::{EntityOwner, MOVED, Place};
use crate::key;
use crate::shared::DurableShared;

/// How long a call waits before it looks again where its entity is.
const AGAIN: Duration = Duration::from_millis(20);

/// How many entities a call may come through, each of which calls the next one: each has a flow that waits for it.
const CHAIN: usize = 16;

/// What a call does with the state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CallForm {
    /// It may change it, in its turn.
    Changes,
    /// It reads what is stored.
    Reads,
}

/// The template of requests for the entities of an interface.
pub(super) fn front(
    shared: &Arc<DurableShared>,
    kind: &Arc<EntityKind>,
    form: CallForm,
) -> Template {
    let (shared, kind) = (Arc::clone(shared), Arc::clone(kind));
    Template::build(|steps| {
        steps.add(move |asi, ()| {
            Rc::new(EntityCall::of(asi, &shared, &kind, form)?).add(asi);
            Ok(())
        });
    })
}

/// A call of an entity.
struct EntityCall {
    shared: Arc<DurableShared>,
    kind: Arc<EntityKind>,
    form: CallForm,
    name: EntityName,
    params: Map<String, Value>,
    /// The key of its caller.
    key: Option<String>,
    /// The tokens of the locks and entities that its caller has.
    fences: Vec<FencingToken>,
    /// The steps of the function.
    steps: Template,
}

impl EntityCall {
    fn of(
        asi: &mut AsyncSteps,
        shared: &Arc<DurableShared>,
        kind: &Arc<EntityKind>,
        form: CallForm,
    ) -> Result<Self, Error> {
        let fences = asi.extension().map(|CallerFences(fences)| fences.clone()).unwrap_or_default();
        let info = asi.request_mut()?;
        let key = key::in_headers(info)?.map(str::to_owned);
        let (params, steps) = (info.take_params(), info.own_steps());
        let name = kind.named(&params)?;
        check_chain(kind, &name, &fences)?;
        let Some(steps) = steps else {
            unreachable!("a front is only run for a function that is behind it")
        };
        let (shared, kind) = (Arc::clone(shared), Arc::clone(kind));
        Ok(Self { shared, kind, form, name, params, key, fences, steps })
    }

    /// Adds the steps of the call, and again if its entity is elsewhere by then.
    fn add(self: Rc<Self>, asi: &mut AsyncSteps) {
        let again = Rc::clone(&self);
        asi.add(move |asi, ()| match Place::of(&self.shared, &self.name) {
            Place::Here(owner) => {
                match self.form {
                    CallForm::Changes => self.change(asi, owner),
                    CallForm::Reads => self.read(asi, owner),
                }
                Ok(())
            }
            Place::There(node) => {
                HoppingCall::add(asi, &node, self.hop(asi)?);
                Ok(())
            }
            Place::Nowhere => {
                let info = "no node of this process runs, so the entity cannot be called: `Durable::start` starts one";
                Err(Error::with_info(codes::INTERNAL_ERROR, info).into())
            }
        })
        .on_error(move |asi, error| -> StepResult {
            if error.code() == MOVED {
                asi.sleep(AGAIN);
                again.add(asi);
                return Ok(());
            }
            Err(error.clone().into())
        });
    }

    fn hop(&self, asi: &AsyncSteps) -> Result<Hop, Error> {
        let info = asi.request()?;
        Ok(Hop {
            function: info.function().clone(),
            params: self.params.clone(),
            caller: info.caller(),
            key: self.key.clone(),
            fences: self.fences.clone(),
            trace: trace::current(),
            time_left: info.handle().time_left(),
        })
    }

    /// Adds the steps of a call that may change the state: its turn, and then the wait for the storage, during which
    /// others have theirs.
    fn change(self: Rc<Self>, asi: &mut AsyncSteps, owner: Rc<EntityOwner>) {
        let turn = self.shared.entities.turns().key(&self.name.full);
        let call = Rc::clone(&self);
        asi.sync(&turn, move |asi, ()| {
            let owned = owner.owned(Arc::clone(&call.kind), call.name.clone());
            asi.await_(async move { owned.await.map(|entity| (entity,)) }).named("claim");
            asi.add(move |asi, (entity,): (Rc<OwnedEntity>,)| call.turn(asi, &entity));
            Ok(())
        })
        .named("turn");
        asi.add(move |asi, (committed,): (Committed,)| {
            asi.await_(async move {
                committed.stored().await.map_err(|_| match self.key {
                    // its answer is stored if its changes are
                    Some(_) => Error::new(MOVED),
                    None => {
                        let info = "the node of the entity was lost while it stored the changes";
                        Error::with_info(OUTCOME_UNKNOWN, info)
                    }
                })
            })
            .named("store");
        });
    }

    /// The turn of the call.
    fn turn(&self, asi: &mut AsyncSteps, entity: &Rc<OwnedEntity>) -> StepResult {
        asi.hold(entity.enter());
        let key = self.call_key(asi)?;
        let draft = entity.draft();
        if let Some(key) = &key
            && let Some(answer) = entity.answer(key)?
        {
            asi.request_mut()?.begin_with(Map::new());
            asi.reply(answer)?;
            // the answer is sent when it is stored
            return asi.success((entity.commit(&draft, None)?,));
        }
        self.add_steps(asi, entity)?;
        asi.extend(draft.given.clone());
        let entity = Rc::clone(entity);
        asi.add(move |asi, ()| {
            if !entity.is_owned() {
                return Err(Error::new(MOVED).into());
            }
            let result = || asi.request().map(|info| result(info.raw_response()));
            let call = key.as_ref().map(|key| Ok::<_, Error>((key, result()?))).transpose()?;
            let committed = entity.commit(&draft, call)?;
            asi.success((committed,))
        });
        Ok(())
    }

    /// Adds the steps of a call that reads the state.
    fn read(self: Rc<Self>, asi: &mut AsyncSteps, owner: Rc<EntityOwner>) {
        let owned = owner.owned(Arc::clone(&self.kind), self.name.clone());
        asi.await_(async move { owned.await.map(|entity| (entity,)) }).named("claim");
        asi.add(move |asi, (entity,): (Rc<OwnedEntity>,)| -> StepResult {
            asi.hold(entity.enter());
            asi.extend(entity.stored().given);
            self.add_steps(asi, &entity)?;
            // another node may have changed it meanwhile if it is not owned any more
            asi.add(move |_, ()| match entity.is_owned() {
                true => Ok(()),
                false => Err(Error::new(MOVED).into()),
            });
            Ok(())
        });
    }

    /// Adds the steps of the function.
    fn add_steps(&self, asi: &mut AsyncSteps, entity: &OwnedEntity) -> Result<(), Error> {
        let fences = self.fences.iter().cloned().chain([entity.fence()]).collect();
        asi.extend(CallerFences(fences));
        asi.request_mut()?.begin_with(self.params.clone());
        asi.copy_from(&self.steps);
        Ok(())
    }

    fn call_key(&self, asi: &AsyncSteps) -> Result<Option<CallKey>, Error> {
        let Some(key) = &self.key else { return Ok(None) };
        let info = asi.request()?;
        Ok(Some(CallKey::new(&info.caller(), info.function().func(), key, &self.params)))
    }
}

/// Refuses a call that would wait for itself: its caller, or a caller of that, is a call of the same entity.
fn check_chain(kind: &EntityKind, name: &EntityName, fences: &[FencingToken]) -> Result<(), Error> {
    let is_same = |fence: &&FencingToken| fence.lock() == kind.name() && fence.key() == &*name.key;
    if fences.iter().any(|fence| is_same(&fence)) {
        let info = format!(
            "the entity {} calls itself, through other calls: it would wait for ever",
            name.full
        );
        return Err(Error::with_info(codes::INTERNAL_ERROR, info));
    }
    if fences.len() >= CHAIN {
        let info = format!("the call of the entity {} came through {CHAIN} other ones", name.full);
        return Err(Error::with_info(codes::INTERNAL_ERROR, info));
    }
    Ok(())
}

/// The result in a response.
fn result(response: Response) -> Value {
    response.into_result().unwrap_or_default()
}
