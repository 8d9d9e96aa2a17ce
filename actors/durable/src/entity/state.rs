//! The state of an entity: as its calls see it, and without its type.

use std::any::{Any, type_name};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Cx;
use asyncsteps_executor::plan::GivenState;
use asyncsteps_journal::{Value, ValueError};

use super::Entity;

/// The state of an entity, as a call of it sees it: [`EntityCx::entity`] returns it.
#[derive(derive_more::Debug)]
#[debug("EntityState {{ key: {key:?}, may_change: {may_change:?}, .. }}")]
pub struct EntityState<T> {
    key: Arc<str>,
    is: RefCell<Rc<T>>,
    may_change: bool,
    has_changed: Cell<bool>,
}

impl<T: Clone> EntityState<T> {
    fn new(key: Arc<str>, is: Rc<T>, may_change: bool) -> Self {
        Self { key, is: RefCell::new(is), may_change, has_changed: Cell::new(false) }
    }

    /// The key of the entity.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
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
        if !self.may_change {
            let info = "a function that reads cannot change the state of the entity";
            return Err(Error::with_info(codes::INTERNAL_ERROR, info));
        }
        self.has_changed.set(true);
        // a change that looks at the state again sees it as it was
        let mut changed = self.get();
        let returned = change(Rc::make_mut(&mut changed));
        self.is.replace(changed);
        Ok(returned)
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
                "no entity is called: add the function with `Durable::entity`, which gives it the state of `{}`",
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
    /// The state for a call of the entity with this key, which may change it or not.
    pub(super) draft: fn(&AnyState, Arc<str>, bool) -> Draft,
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
            draft: |state, key, may_change| {
                let Ok(state) = Rc::clone(state).downcast() else { unreachable!("{OWN_STATE}") };
                let state = Rc::new(EntityState::<E::State>::new(key, state, may_change));
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
}

trait Changed {
    fn changed(&self) -> Option<AnyState>;
}

impl<T: Clone + 'static> Changed for EntityState<T> {
    fn changed(&self) -> Option<AnyState> {
        self.has_changed.get().then(|| self.get() as AnyState)
    }
}
