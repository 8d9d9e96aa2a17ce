//! A call of an entity, from its caller to the owner.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::deadlock;
use asyncsteps_actors::sync::{AwayWait, CallerFences, Calling, FencingToken};
use asyncsteps_actors::{clock, trace};
use asyncsteps_core::{AsyncSteps, Error, StepError, StepResult, Template, Time, codes};
use asyncsteps_executor::message::{Request, Response};
use asyncsteps_executor::recorder::OUTCOME_UNKNOWN;
use asyncsteps_executor::{FrontWait, KeyPolicy, RequestChecks, RequestSteps};
use asyncsteps_journal::{Error as JournalError, Refused};
use futures_util::future::OptionFuture;
use serde_json::{Map, Value};

use super::answers::CallKey;
use super::claim::{error_of_journal, key_of};
use super::headers::{CallHeaders, CarriedMessage, MessageEnd, message_ends};
use super::hop::{Hop, HoppingCall, MOVED, lost};
use super::kind::{CallForm, EntityKind, EntityName};
use super::owned::{Changes, Committed, OwnedEntity};
use super::owner::{EntityOwner, PAUSE, Place};
use super::post::{Unsent, requests, store};
use super::state::{AnyState, Draft};
use crate::owners::TURNS;
use crate::shared::DurableShared;
use crate::until::end_at;
use crate::writer::Stopped;

/// A call whose time is over while its changes are being stored is answered at its limit, so it ends this much later.
const ANSWER: Duration = Duration::from_secs(1);

/// How many entities a call may come through, each of which calls the next one: each has a flow that waits for it.
const CHAIN: usize = 16;

/// The template of requests for the entities of an interface.
pub(super) fn front(
    shared: &Arc<DurableShared>,
    kind: &Arc<EntityKind>,
    function: (&'static str, CallForm),
    checks: &RequestChecks,
) -> Template {
    let (shared, kind, checks) = (Arc::clone(shared), Arc::clone(kind), checks.clone());
    Template::build(|steps| {
        steps.add(move |asi, ()| {
            Rc::new(EntityCall::of(asi, &shared, &kind, (function, &checks))?).add(asi);
            Ok(())
        });
    })
}

/// A call of an entity.
struct EntityCall {
    shared: Arc<DurableShared>,
    kind: Arc<EntityKind>,
    function: &'static str,
    form: CallForm,
    /// The checks of the executor.
    checks: RequestChecks,
    name: EntityName,
    params: Map<String, Value>,
    /// The key of its caller.
    key: Option<String>,
    /// The message that it carries out.
    message: Option<CarriedMessage>,
    /// The tokens of the locks and entities that its caller has.
    fences: Vec<FencingToken>,
    /// When its time is over.
    limit: Option<Time>,
    /// It has its turn, and waits until the node owns the entity.
    claims: Cell<bool>,
    /// The function has ended well, and what it sends could not be stored.
    is_unsent: Cell<bool>,
    /// The steps of the function.
    steps: Template,
}

impl EntityCall {
    fn of(
        asi: &mut AsyncSteps,
        shared: &Arc<DurableShared>,
        kind: &Arc<EntityKind>,
        ((function, form), checks): ((&'static str, CallForm), &RequestChecks),
    ) -> Result<Self, Error> {
        let fences = asi.extension().map(|CallerFences(fences)| fences.clone()).unwrap_or_default();
        let info = asi.request_mut()?;
        let key = match info.idempotency_key()? {
            Some((key, KeyPolicy::Return)) => Some(key.to_owned()),
            Some(_) => {
                let info = "an entity answers a key as before: it has no other policy";
                return Err(Error::with_info(codes::INVALID_REQUEST, info));
            }
            None => None,
        };
        let limit = info.handle().time_left().map(|left| clock::now() + left);
        let message = info.transport().and_then(|headers: &CallHeaders| headers.message);
        let (params, steps) = (info.take_params(), info.own_steps());
        let name = kind.named(&params)?;
        check_chain(kind, &name, &fences)?;
        let Some(steps) = steps else {
            unreachable!("a front is only run for a function that is behind it")
        };
        let (shared, kind) = (Arc::clone(shared), Arc::clone(kind));
        let (claims, is_unsent) = (Cell::new(false), Cell::new(false));
        Ok(Self {
            shared,
            kind,
            function,
            form,
            checks: checks.clone(),
            name,
            params,
            key,
            message,
            fences,
            limit,
            claims,
            is_unsent,
            steps,
        })
    }

    /// Adds the steps of the call, and again if its entity is elsewhere by then.
    fn add(self: Rc<Self>, asi: &mut AsyncSteps) {
        let again = Rc::clone(&self);
        asi.add(move |asi, ()| {
            use CallForm::{Changes, Reads, ReadsStored};
            match (self.form, Place::of(&self.shared, &self.name)) {
                (ReadsStored, _) => self.read_stored(asi),
                (Changes, Place::Here(owner)) => self.change(asi, owner)?,
                (Reads, Place::Here(owner)) => return self.with_entity(asi, owner, Self::read),
                (Changes | Reads, Place::There(node)) => {
                    let hop = self.hop(asi)?;
                    // what is answered there at the limit arrives here
                    self.wait_for_answer(asi)?;
                    let is_known = self.form == Reads || self.is_known();
                    HoppingCall::add(asi, (hop, is_known), &node);
                }
                (Changes | Reads, Place::Soon) => return Err(Error::new(MOVED).into()),
                (Changes | Reads, Place::Nowhere) => {
                    let info = "no node of this process runs, so the entity cannot be called: `Durable::start` starts one";
                    return Err(Error::with_info(codes::INTERNAL_ERROR, info).into());
                }
            }
            Ok(())
        })
        .on_error(move |asi, error| -> StepResult {
            if error.code() == MOVED {
                asi.sleep(PAUSE);
                again.add(asi);
                return Ok(());
            }
            Err(error.clone().into())
        });
    }

    fn hop(&self, asi: &mut AsyncSteps) -> Result<Hop, Error> {
        let function = asi.request()?.function().clone();
        let calling = Calling::of_step(asi, function.as_str());
        let call = calling.as_ref().map(Calling::call);
        asi.hold(calling);
        let info = asi.request()?;
        Ok(Hop {
            function,
            params: self.params.clone(),
            caller: info.caller(),
            key: self.key.clone(),
            message: self.message,
            fences: self.fences.clone(),
            trace: trace::current(),
            ends: self.limit.map(clock::instant),
            call,
        })
    }

    /// What it did is found, if it is made again.
    fn is_known(&self) -> bool {
        self.key.is_some() || self.message.is_some()
    }

    fn time_left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_since(clock::now()))
    }

    /// The call is answered at its limit, so it is not cancelled then.
    fn wait_for_answer(&self, asi: &mut AsyncSteps) -> Result<(), Error> {
        match self.time_left() {
            Some(left) => asi.cancel_after(left + ANSWER),
            None => Ok(()),
        }
    }

    /// Adds the steps of a call that may change the state: its turn, and then the wait for the storage, during which
    /// others have theirs.
    fn change(self: Rc<Self>, asi: &mut AsyncSteps, owner: Rc<EntityOwner>) -> Result<(), Error> {
        let turn = self.shared.entities.turns.key(&self.name.full);
        let call = Rc::clone(&self);
        // it may have been on its way to the entity before that moved
        self.claims.set(false);
        asi.request_mut()?.wait(Rc::<Self>::clone(&self));
        asi.sync(&turn, move |asi, ()| {
            call.with_entity(asi, owner, |call, asi, entity| match entity {
                Some(entity) => call.turn(asi, entity),
                None => Err(Error::new(MOVED).into()),
            })
        })
        .named("turn");
        asi.add(move |asi, (ended,): (Ended,)| self.store(asi, ended));
        Ok(())
    }

    /// Goes on with the entity: at once if the node owns it, or as soon as it does; with `None` if the call only reads,
    /// and the entity was never called.
    fn with_entity(
        self: Rc<Self>,
        asi: &mut AsyncSteps,
        owner: Rc<EntityOwner>,
        then: fn(Rc<Self>, &mut AsyncSteps, Option<Rc<OwnedEntity>>) -> StepResult,
    ) -> StepResult {
        if let Some(entity) = owner.known(&self.name) {
            return then(self, asi, Some(entity));
        }
        self.claims.set(true);
        asi.request_mut()?.wait(Rc::<Self>::clone(&self));
        let (away, failed) = AwayWait::of_step(asi, TURNS, &self.name.full).unzip();
        let away = Rc::new(away);
        let asked = (Arc::clone(&self.kind), self.name.clone(), self.form);
        let owned = owner.owned(asked, Rc::downgrade(&away));
        asi.await_(async move {
            let _waits = away;
            tokio::select! {
                biased;
                owned = owned => owned.map(|entity| (entity,)),
                Some(error) = OptionFuture::from(failed) => Err(error),
            }
        })
        .named("claim");
        asi.add(move |asi, (entity,): (Option<Rc<OwnedEntity>>,)| then(self, asi, entity));
        Ok(())
    }

    /// The turn of the call.
    fn turn(self: Rc<Self>, asi: &mut AsyncSteps, entity: Rc<OwnedEntity>) -> StepResult {
        if let Some(CarriedMessage { id, is_cancelled }) = self.message
            && (is_cancelled || !entity.has_sent(id))
        {
            check_owned(&entity)?;
            let changes = Changes { carried_out: Some(id), has_failed: true, ..Changes::default() };
            // it ends when what it depends on is stored
            let committed = entity.commit(entity.prepare(changes)?);
            // nobody waits for it, and nothing is wrong
            let info = "the message was taken back, or its call has failed";
            let end = Err(Error::with_info(codes::INVALID_REQUEST, info));
            return asi.success((Ended { committed, end, message: MessageEnd::NotSent },));
        }
        asi.hold(entity.begin_turn(self.function));
        let key = self.call_key(asi)?;
        if let Some(key) = &key
            && let Some(answer) = entity.answer(key)?
        {
            asi.request_mut()?.begin_with(Map::new());
            asi.reply(answer)?;
            // the answer is sent when it is stored
            let committed = entity.commit(entity.prepare(Changes::default())?);
            return asi.success((Ended::carried_out(committed, Ok(())),));
        }
        let (draft, call, failed) = (entity.draft(), Rc::clone(&self), Rc::clone(&entity));
        asi.add(move |asi, ()| {
            call.add_steps(asi, Some(entity.fence()))?;
            asi.extend(draft.given.clone());
            asi.add(move |asi, ()| call.end(asi, entity, &draft, key));
            Ok::<_, StepError>(())
        })
        .on_error(move |asi, error| -> StepResult {
            if error.code() == MOVED || (self.message.is_some() && self.is_unsent.get()) {
                return Err(error.clone().into());
            }
            // nobody is told of what a node only believes
            check_owned(&failed)?;
            // a message has ended if its call fails, and any caller is told of what the function saw
            let carried_out = self.message.map(|message| message.id);
            let changes = Changes { carried_out, has_failed: true, ..Changes::default() };
            let committed = failed.commit(failed.prepare(changes)?);
            asi.success((Ended::carried_out(committed, Err(error.clone())),))
        });
        Ok(())
    }

    /// The steps of the function have ended well: stores what they send, and then their changes.
    fn end(
        self: Rc<Self>,
        asi: &mut AsyncSteps,
        entity: Rc<OwnedEntity>,
        draft: &Draft,
        key: Option<CallKey>,
    ) -> StepResult {
        check_owned(&entity)?;
        let (state, mail) = (draft.changed(), draft.take_mail());
        let result = || asi.request().map(|info| result(info.raw_response()));
        let answer = key.map(|key| result().map(|result| key.answered(result))).transpose()?;
        let (sent, withdrawn) = (mail.sent().collect::<Vec<_>>(), mail.withdrawn.clone());
        let unsent = Unsent::new(&sent, &self.shared.journal);
        let carried_out = self.message.map(|message| message.id);
        let changes = Changes { state, answer, sent, withdrawn, carried_out, has_failed: false };
        // nothing is sent that cannot be carried out, or by a call that fails
        let prepared = entity.prepare(changes)?;
        if !mail.messages().is_empty() {
            let requests = requests(&mail, &self.shared, (&self.kind, &self.name))?;
            asi.await_(async move {
                let stored = store(requests, &*self.shared.journal).await;
                stored.inspect_err(|_| self.is_unsent.set(true))
            })
            .named("send");
        }
        asi.add(move |asi, ()| {
            check_owned(&entity)?;
            unsent.sent();
            asi.success((Ended::carried_out(entity.commit(prepared), Ok(())),))
        });
        Ok(())
    }

    /// Adds the wait for the storage, which ends the call.
    fn store(self: Rc<Self>, asi: &mut AsyncSteps, ended: Ended) -> StepResult {
        let Ended { committed, end, message: message_end } = ended;
        // a call that failed changed nothing, and is made again like one that is known
        let is_known = self.is_known() || end.is_err();
        // the answer at the limit says that it may be stored
        self.wait_for_answer(asi)?;
        let limit = self.limit;
        asi.await_(async move {
            tokio::select! {
                biased;
                stored = committed.stored() => stored.map_err(|stopped| match stopped {
                    Stopped::Lost => lost(is_known, "while it stored the changes"),
                    Stopped::Refused(reason) => not_stored(&reason),
                }),
                () = end_at(limit) => Err(late()),
            }
        })
        .named("store");
        let is_message = self.message.is_some();
        if is_message || end.is_err() {
            asi.add(move |asi, ()| {
                if is_message {
                    message_ends(asi, Some(message_end))?;
                }
                end.map_err(StepError::from)
            });
        }
        Ok(())
    }

    /// The steps of a call that reads the state.
    fn read(self: Rc<Self>, asi: &mut AsyncSteps, entity: Option<Rc<OwnedEntity>>) -> StepResult {
        let Some(entity) = entity else {
            asi.extend(self.kind.for_reading((&self.name, self.shared.now()), None).given);
            return Ok(self.add_steps(asi, None)?);
        };
        asi.hold(entity.enter());
        asi.extend(entity.stored().given);
        let (fence, failed) = (entity.fence(), Rc::clone(&entity));
        // another node may have changed it meanwhile if it is not owned any more
        asi.add(move |asi, ()| self.add_steps(asi, Some(fence)).map_err(StepError::from)).on_error(
            move |_, error| -> StepResult {
                check_owned(&failed)?;
                Err(error.clone().into())
            },
        );
        asi.add(move |_, ()| check_owned(&entity));
        Ok(())
    }

    /// Adds the steps of a call that reads what is stored, without the owner.
    fn read_stored(self: Rc<Self>, asi: &mut AsyncSteps) {
        let call = Rc::clone(&self);
        asi.await_(async move { call.stored().await.map(|state| (state,)) }).named("load");
        asi.add(move |asi, (state,): (Option<AnyState>,)| -> StepResult {
            asi.extend(self.kind.for_reading((&self.name, self.shared.now()), state).given);
            Ok(self.add_steps(asi, None)?)
        });
    }

    /// The state that is stored.
    async fn stored(&self) -> Result<Option<AnyState>, Error> {
        let journal = &self.shared.journal;
        let found = journal.find(key_of(&self.name)).await.map_err(error_of_journal)?;
        let Some(uid) = found else { return Ok(None) };
        let loaded = match journal.load(uid).await {
            // it was removed meanwhile
            Err(JournalError::Refused(Refused::NoFlow(_))) => return Ok(None),
            loaded => loaded.map_err(error_of_journal)?,
        };
        self.kind.stored_state(&loaded).map_err(|reason| {
            let info = format!("The entity {}: {reason}", self.name.full);
            Error::with_info(codes::INTERNAL_ERROR, info)
        })
    }

    /// Adds the steps of the function.
    fn add_steps(&self, asi: &mut AsyncSteps, fence: Option<FencingToken>) -> Result<(), Error> {
        let fences = self.fences.iter().cloned().chain(fence).collect();
        asi.extend(CallerFences(fences));
        asi.request_mut()?.begin_with(self.params.clone());
        asi.copy_from(&self.steps);
        Ok(())
    }

    fn call_key(&self, asi: &AsyncSteps) -> Result<Option<CallKey>, Error> {
        let Some(key) = &self.key else { return Ok(None) };
        let (caller, params) = (asi.request()?.caller(), &self.params);
        let called = asi.request()?.function().as_str();
        let canonical = self.checks.canonical(Request::new(called, params.clone()), &caller);
        let forms = [canonical.as_ref().unwrap_or(params), params];
        CallKey::new(&self.kind.root, &caller, (self.function, key), forms).map(Some)
    }
}

impl FrontWait for EntityCall {
    fn too_late(&self) -> Error {
        let entity = &self.name.full;
        let info = match self.claims.get() {
            true => format!("the time ended while the node that owns {entity} had not released it"),
            false => format!("the time ended while other calls of {entity} were before this one"),
        };
        Error::with_info(codes::DEFENSE_REJECTED, info)
    }
}

/// The error of a call whose time ends while its changes are being stored.
fn late() -> Error {
    let info = "the time of the call is over, while its changes are being stored";
    Error::with_info(OUTCOME_UNKNOWN, info)
}

/// The error of a call whose changes the journal does not take.
fn not_stored(reason: &str) -> Error {
    let info = format!("the changes are not stored: {reason}");
    Error::with_info(codes::INTERNAL_ERROR, info)
}

/// How the turn of a call has ended.
struct Ended {
    committed: Committed,
    end: Result<(), Error>,
    /// How the message ended that it carries out, if it does.
    message: MessageEnd,
}

impl Ended {
    const fn carried_out(committed: Committed, end: Result<(), Error>) -> Self {
        Self { committed, end, message: MessageEnd::CarriedOut }
    }
}

/// The node still owns the entity, as far as that is known; else the call goes where it is.
fn check_owned(entity: &OwnedEntity) -> StepResult {
    if entity.owned.is_valid() { Ok(()) } else { Err(Error::new(MOVED).into()) }
}

/// Refuses a call that would wait for itself: its caller, or a caller of that, is a call of the same entity.
fn check_chain(kind: &EntityKind, name: &EntityName, fences: &[FencingToken]) -> Result<(), Error> {
    let is_same =
        |fence: &&FencingToken| fence.lock() == &**kind.name() && fence.key() == &*name.key;
    if fences.iter().any(|fence| is_same(&fence)) {
        let chain: Vec<_> = fences.iter().map(FencingToken::key).collect();
        let info = format!("the entity {} calls itself, by {}", name.full, chain.join(", then "));
        return Err(deadlock::found(info));
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
