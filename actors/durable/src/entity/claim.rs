//! How a node gets an entity.

use std::future::pending;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::sync::AwayWait;
use asyncsteps_actors::sync::deadlock::WaitPath;
use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Caller;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{
    CallerKey, Claim, FirstOwner, FlowInfo, FlowState, Submit, Submitted,
};
use asyncsteps_journal::{Epoch, Error as JournalError, LEASE, POLL, Refused, Repeat, Uid, Value};

use super::asks::{asks, random, send};
use super::kind::{CallForm, EntityKind, EntityName};
use super::owned::OwnedEntity;
use super::owner::{EntityOwner, PAUSE};
use crate::answered::answered;
use crate::caller;
use crate::lease::Lease;
use crate::owned::Taken;
use crate::submit::error_of_submit;
use crate::until::next_change;

/// The scope of the names of entities among the keys of callers.
const SCOPE: &str = "entity";

/// How long a node waits for an entity that another one has: a lease, if that one is dead, and some calls.
const PATIENCE: Duration = Duration::from_secs(3 * LEASE.as_secs());

/// The owner of an entity.
enum Owner {
    /// The node that looks, because an answer to it was lost.
    This(Taken),
    Other(Epoch),
    None,
    /// It is not there any more.
    Gone,
}

impl EntityOwner {
    /// Claims the entity; `None` if it was never called, and the call only reads.
    pub(super) async fn claim(
        &self,
        kind: &EntityKind,
        name: &EntityName,
        form: CallForm,
        away: &Weak<Option<AwayWait>>,
    ) -> Result<Option<Taken>, Error> {
        let journal = &self.shared.journal;
        let mut changes = journal.changes();
        let (mut known, mut asked) = (None, None);
        let given_up = clock::now() + PATIENCE;
        while clock::now() < given_up {
            changes.mark_unchanged();
            let lease = Arc::clone(&self.lease.borrow());
            if !lease.is_valid() {
                // it is renewed, or the node begins anew; what it took now it would not own
                timer::sleep_until(clock::now() + PAUSE).await;
                continue;
            }
            if known.is_none() && form == CallForm::Reads {
                known = journal.find(key_of(name)).await.map_err(error_of_journal)?;
                if known.is_none() {
                    return Ok(None);
                }
            }
            if let Some(taken) = self.take(&lease, kind, name).await? {
                return Ok(Some(taken));
            }
            if known.is_none() {
                let submit = new_entity(&lease, kind, name)?;
                known = match answered(|| journal.submit(submit.clone())).await {
                    Ok(Submitted::Known(uid)) => Some(uid),
                    Ok(Submitted::New | _) => {
                        let first = (submit.uid, Epoch::new(1));
                        return Ok(Some(Taken::new(journal, &lease, first)));
                    }
                    // the node begins anew
                    Err(JournalError::Refused(Refused::NoLease(_))) => None,
                    Err(error) => return Err(error_of_journal(error)),
                };
            }
            if let Some(uid) = known {
                match self.owner_of(&lease, kind, uid).await? {
                    Owner::This(taken) => return Ok(Some(taken)),
                    Owner::Other(epoch) if asked != Some(epoch) => {
                        asked = self.ask_back(&lease, uid, away).await?.then_some(epoch);
                        known = known.filter(|_| asked.is_some());
                        if asked.is_some() {
                            self.has_asked(name, (uid, epoch));
                        }
                    }
                    Owner::Gone => {
                        (known, asked) = (None, None);
                        continue;
                    }
                    Owner::Other(_) | Owner::None => {}
                }
            }
            // however much happens in the journal
            timer::sleep_until(clock::now() + PAUSE).await;
            next_change(&mut changes, pending(), POLL).await;
        }
        let info = format!("another node does not give back the entity {}", name.full);
        Err(Error::with_info(codes::DEFENSE_REJECTED, info))
    }

    /// Takes the entity, if no other node has it.
    async fn take(
        &self,
        lease: &Arc<Lease>,
        kind: &EntityKind,
        name: &EntityName,
    ) -> Result<Option<Taken>, Error> {
        let claim = Claim {
            node: lease.node,
            ticket: random()?,
            programs: vec![kind.program(name)],
            limit: 1,
            awaited: Vec::new(),
            suspects: usize::MAX,
        };
        match Taken::claim(&self.shared.journal, lease, claim).await {
            Ok(taken) => Ok(taken.into_iter().next()),
            Err(JournalError::Refused(Refused::NoLease(_))) => Ok(None),
            Err(error) => Err(error_of_journal(error)),
        }
    }

    /// Who owns the entity that the node could not take.
    async fn owner_of(
        &self,
        lease: &Arc<Lease>,
        kind: &EntityKind,
        uid: Uid,
    ) -> Result<Owner, Error> {
        let journal = &self.shared.journal;
        let status = match journal.status(uid).await {
            Err(JournalError::Refused(Refused::NoFlow(_))) => return Ok(Owner::Gone),
            status => status.map_err(error_of_journal)?,
        };
        let FlowInfo { template, state, epoch, owner, version, reason, .. } = status.flow;
        let why = match state {
            FlowState::Running if owner == Some(lease.node) => {
                return Ok(Owner::This(Taken::new(journal, lease, (uid, epoch))));
            }
            FlowState::Running => return Ok(Owner::Other(epoch)),
            FlowState::Paused | FlowState::Dead => {
                format!("waits for an operator: {}", reason.unwrap_or_default())
            }
            FlowState::Ended => {
                // its last owner was to do so
                let removed = answered(|| journal.remove(vec![uid])).await;
                removed.map_err(error_of_journal)?;
                return Ok(Owner::Gone);
            }
            FlowState::Ready | FlowState::New | FlowState::Suspect | FlowState::Parked | _ => {
                if version <= kind.form.version {
                    return Ok(Owner::None);
                }
                let own = kind.form.version;
                format!(
                    "was written by a program with version {version} of its state, and this one has {own}"
                )
            }
        };
        Err(Error::with_info(codes::INTERNAL_ERROR, format!("The entity {template} {why}")))
    }

    /// Asks the node that has the entity to give it back; returns whether it is there.
    async fn ask_back(
        &self,
        lease: &Lease,
        uid: Uid,
        away: &Weak<Option<AwayWait>>,
    ) -> Result<bool, Error> {
        let signal = asks((Some(lease.node.get()), self.path_to(uid, away)))?;
        let asked = answered(|| self.shared.journal.signal(uid, signal.clone())).await;
        match asked {
            Ok(()) => Ok(true),
            // its owner has removed it
            Err(JournalError::Refused(Refused::HasEnded(_) | Refused::NoFlow(_))) => Ok(false),
            Err(error) => Err(error_of_journal(error)),
        }
    }

    /// The waits up to that for an entity of this number, for its owner.
    pub(super) fn path_to(&self, uid: Uid, away: &Weak<Option<AwayWait>>) -> Option<WaitPath> {
        let away = away.upgrade()?;
        let journal = Arc::clone(&self.shared.journal);
        (*away).as_ref()?.is_at(move |path| send(&journal, uid, path))
    }

    /// Loads what was claimed.
    pub(super) async fn load(
        &self,
        kind: &Arc<EntityKind>,
        name: &EntityName,
        taken: Taken,
    ) -> Result<Rc<OwnedEntity>, Error> {
        let reason = match taken.load().await {
            Ok(loaded) => {
                let held = (&self.shared.held, self.number, Arc::clone(&name.full));
                match OwnedEntity::new(kind, name, (taken.clone(), held), &loaded) {
                    Ok(entity) => return Ok(entity),
                    Err(reason) => reason,
                }
            }
            Err(error) if error.repeat() == Repeat::Never => error.to_string(),
            Err(error) => return Err(error_of_journal(error)),
        };
        tracing::error!(entity = %name.full, reason, "the entity waits for an operator");
        taken.pause(&reason).await;
        let info = format!("The entity {} waits for an operator: {reason}", name.full);
        Err(Error::with_info(codes::INTERNAL_ERROR, info))
    }
}

/// The request that finds the entity by its name, or makes it. Of a state that cannot be made there would be an entity for
/// an operator, for each key that a caller names.
fn new_entity(lease: &Lease, kind: &EntityKind, name: &EntityName) -> Result<Submit, Error> {
    kind.new_state().map_err(|why| {
        let info = format!("The entity {} cannot be made: {why}", name.full);
        Error::with_info(codes::INTERNAL_ERROR, info)
    })?;
    let parameters = Value::encode_json(&*name.key);
    let started = Started {
        template: name.full.to_string(),
        version: kind.form.version,
        parameters: parameters.map_err(|error| error_of_submit(&error.into()))?,
        // it is nobody's but the service's
        user: caller::write(&Caller::system()),
        deadline: None,
        trace: None,
        schedule: None,
        is_asked_for: false,
        parent: None,
    };
    let (key, owner) = (Some(key_of(name)), FirstOwner::Node(lease.node));
    Ok(Submit { key, ..Submit::new(random()?, started, owner) })
}

/// The key by which an entity is found.
pub(super) fn key_of(name: &EntityName) -> CallerKey {
    CallerKey { scope: SCOPE.to_owned(), key: name.full.to_string() }
}

pub(super) fn error_of_journal(error: JournalError) -> Error {
    error_of_submit(&error.into())
}
