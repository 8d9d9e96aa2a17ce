//! The state of an entity: as its calls see it, and without its type.

use std::any::{Any, type_name};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Cx;
use asyncsteps_executor::plan::GivenState;
use asyncsteps_journal::{Timestamp, Value, ValueError};

use super::Entity;
use super::mail::{Mail, Message, MessageId};

/// The state of an entity, as a call of it sees it: [`EntityCx::entity`] returns it.
#[derive(derive_more::Debug)]
#[debug("EntityState {{ key: {key:?}, may_change: {may_change:?}, .. }}")]
pub struct EntityState<T> {
    key: Arc<str>,
    now: Timestamp,
    is: RefCell<Rc<T>>,
    may_change: bool,
    has_changed: Cell<bool>,
    mail: RefCell<Mail>,
}

impl<T: Clone> EntityState<T> {
    fn new((key, now): (Arc<str>, Timestamp), is: Rc<T>, may_change: bool) -> Self {
        let (is, mail) = (RefCell::new(is), RefCell::default());
        Self { key, now, is, may_change, has_changed: Cell::new(false), mail }
    }

    /// The key of the entity.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The time of day when the call began, by the clock of the journal, which is one for all nodes.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.now.as_millis())
    }

    /// The state, with what this call has changed.
    #[must_use]
    pub fn get(&self) -> Rc<T> {
        Rc::clone(&self.is.borrow())
    }

    /// Changes the state; returns what `change` returns. The change becomes true when the call ends well. A call that
    /// fails has changed nothing.
    ///
    /// The first change of a call copies the state.
    ///
    /// # Errors
    /// InternalError in a function that [reads](super::EntityFunctions::reads).
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        self.check_change()?;
        self.has_changed.set(true);
        // a change that looks at the state again sees it as it was
        let mut changed = self.get();
        let returned = change(Rc::make_mut(&mut changed));
        self.is.replace(changed);
        Ok(returned)
    }

    /// Sends the entity a message: a call of one of its functions, for the service itself, after its time. It is
    /// carried out once, if this call ends well, wherever the entity is then; also if nobody calls it until then.
    ///
    /// A message whose function fails has ended, and is shown among the durable requests with its error.
    ///
    /// # Errors
    /// InternalError in a function that [reads](super::EntityFunctions::reads), or if a call sends more than
    /// [100 messages](super::MESSAGES).
    pub fn send(&self, message: Message) -> Result<MessageId, Error> {
        self.check_change()?;
        self.mail.borrow_mut().send(message)
    }

    /// Takes a message back that was not carried out; with another one it does nothing.
    ///
    /// # Errors
    /// InternalError in a function that [reads](super::EntityFunctions::reads).
    pub fn withdraw(&self, message: MessageId) -> Result<(), Error> {
        self.check_change()?;
        self.mail.borrow_mut().withdraw(message);
        Ok(())
    }

    fn check_change(&self) -> Result<(), Error> {
        if self.may_change {
            return Ok(());
        }
        let info = "a function that reads cannot change the state of the entity";
        Err(Error::with_info(codes::INTERNAL_ERROR, info))
    }
}

/// The method of a [`Cx`] in the functions of an [`Entity`].
pub trait EntityCx {
    /// The state of an entity.
    type State;

    /// The state of the entity that is called.
    ///
    /// # Panics
    /// If the function was added to its interface in another way than with
    /// [`EntityFunctions`](super::EntityFunctions): then nothing is called.
    fn entity(&self) -> Rc<EntityState<Self::State>>;
}

impl<E: Entity, P> EntityCx for Cx<E, P> {
    type State = E::State;

    fn entity(&self) -> Rc<EntityState<E::State>> {
        self.state(|_| {
            panic!(
                "no entity is called: add the function with `Durable::entity`, which passes it the state of `{}`",
                type_name::<E>()
            )
        })
    }
}

/// The state of an entity, without its type.
pub(super) type AnyState = Rc<dyn Any>;

/// What is done with a state by its type.
#[derive(Clone, Copy)]
pub(super) struct StateForm {
    /// The version of its stored form.
    pub(super) version: u32,
    /// The state of an entity that was never called.
    pub(super) new: fn() -> AnyState,
    /// Reads what this version has stored.
    pub(super) read: fn(u32, &Value) -> Result<AnyState, ValueError>,
    pub(super) write: fn(&dyn Any) -> Result<Value, ValueError>,
    /// The state for a call of the entity with this key, at this time, which may change it or not.
    pub(super) draft: fn(&AnyState, (Arc<str>, Timestamp), bool) -> Draft,
}

impl StateForm {
    pub(super) fn of<E: Entity>() -> Self {
        Self {
            version: E::VERSION,
            new: || Rc::new(E::State::default()),
            read: |version, stored| {
                let read = match version == E::VERSION {
                    true => stored.decode(),
                    false => E::upgrade(version, stored),
                };
                Ok(Rc::new(read?))
            },
            write: |state| Value::encode_result(typed::<E>(state)),
            draft: |state, of, may_change| {
                let Ok(state) = Rc::clone(state).downcast() else { unreachable!("{OWN_STATE}") };
                let state = Rc::new(EntityState::<E::State>::new(of, state, may_change));
                Draft { given: GivenState::new(Rc::clone(&state)), state }
            },
        }
    }
}

const OWN_STATE: &str = "each entity has the state of its type";

fn typed<E: Entity>(state: &dyn Any) -> &E::State {
    match state.downcast_ref() {
        Some(state) => state,
        None => unreachable!("{OWN_STATE}"),
    }
}

/// The state that a call has.
pub(super) struct Draft {
    /// The same for the steps of its function.
    pub(super) given: GivenState,
    state: Rc<dyn Changed>,
}

impl Draft {
    /// The state, if the call has changed it.
    pub(super) fn changed(&self) -> Option<AnyState> {
        self.state.changed()
    }

    /// What the call sends, and takes back.
    pub(super) fn take_mail(&self) -> Mail {
        self.state.take_mail()
    }
}

trait Changed {
    fn changed(&self) -> Option<AnyState>;

    fn take_mail(&self) -> Mail;
}

impl<T: Clone + 'static> Changed for EntityState<T> {
    fn changed(&self) -> Option<AnyState> {
        self.has_changed.get().then(|| self.get() as AnyState)
    }

    fn take_mail(&self) -> Mail {
        self.mail.take()
    }
}
