//! The memory that a connection holds for its client, counted in the budget.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::Context;

use asyncsteps_budget::{BudgetRefusal, Holding};

/// The memory that a connection holds. While a part of it waits for its client, all of it can be
/// displaced, and the connection ends then.
#[derive(derive_more::Debug)]
#[debug("Account {{ .. }}")]
pub struct Account {
    held: RefCell<AccountState>,
    /// Whether there was no room for the memory that it needs.
    is_refused: Cell<bool>,
}

struct AccountState {
    /// None after it was released.
    holding: Option<Holding>,
    bytes: usize,
    /// Parts that wait for the client.
    waiting: usize,
}

/// A part of what a connection holds; released when this is dropped.
#[derive(derive_more::Debug)]
#[debug("Share {{ bytes: {bytes}, waits: {waits} }}")]
pub struct Share {
    account: Rc<Account>,
    bytes: usize,
    waits: bool,
}

impl Account {
    /// Of a connection that holds nothing.
    #[must_use]
    pub fn new(holding: Holding) -> Rc<Self> {
        let held = RefCell::new(AccountState { holding: Some(holding), bytes: 0, waiting: 0 });
        Rc::new(Self { held, is_refused: Cell::new(false) })
    }

    /// A part without memory so far.
    #[must_use]
    pub fn share(self: &Rc<Self>) -> Share {
        Share { account: Rc::clone(self), bytes: 0, waits: false }
    }

    /// There is no room for the memory that it needs: the connection has to end.
    pub(super) fn refuse(&self) {
        self.is_refused.set(true);
    }

    /// Whether the connection has to end, because others need its memory or there is none for it.
    #[must_use]
    pub fn is_displaced(&self) -> bool {
        let is_displaced =
            || self.held.borrow().holding.as_ref().is_some_and(Holding::is_displaced);
        self.is_refused.get() || is_displaced()
    }

    /// Whether memory that others had is not free yet: nothing new should be read in this turn.
    pub(super) fn is_crowded(&self) -> bool {
        self.held.borrow().holding.as_ref().is_some_and(Holding::is_crowded)
    }

    /// The same as [`is_displaced`](Self::is_displaced); the task is woken when it has to.
    #[must_use]
    pub fn poll_displaced(&self, cx: &Context<'_>) -> bool {
        let held = self.held.borrow();
        let is_displaced = |holding: &Holding| holding.poll_displaced(cx);
        self.is_refused.get() || held.holding.as_ref().is_some_and(is_displaced)
    }

    /// A connection that has to end holds nothing any more, and its client learns why.
    pub fn release(&self) {
        self.is_refused.set(true);
        let released = self.held.borrow_mut().holding.take();
        drop(released);
    }
}

impl Share {
    /// Holds `bytes` in all; `waits` says whether for the client, from now on.
    ///
    /// # Errors
    /// If the budget has no room for them; it holds as much as before then.
    pub fn set(&mut self, bytes: usize, waits: bool) -> Result<(), BudgetRefusal> {
        self.change(bytes, waits, Holding::set)
    }

    /// The same for memory that is taken already: it counts even if there is no room for it.
    pub fn set_taken(&mut self, bytes: usize, waits: bool) {
        // a connection that is displaced ends
        let _ = self.change(bytes, waits, Holding::set_taken);
    }

    /// Whether its connection has to end; see [`Account::is_displaced`].
    #[cfg(feature = "rustls")]
    pub(super) fn is_displaced(&self) -> bool {
        self.account.is_displaced()
    }

    /// Whether memory that others had is not free yet: nothing new should be read in this turn.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.account.is_crowded()
    }

    fn change(
        &mut self,
        bytes: usize,
        waits: bool,
        set: impl FnOnce(&mut Holding, usize, bool) -> Result<(), BudgetRefusal>,
    ) -> Result<(), BudgetRefusal> {
        if (self.bytes, self.waits, waits) == (bytes, false, false) {
            return Ok(());
        }
        let held = &mut *self.account.held.borrow_mut();
        let all = held.bytes - self.bytes + bytes;
        let waiting = held.waiting - usize::from(self.waits) + usize::from(waits);
        if let Some(holding) = &mut held.holding {
            set(holding, all, waiting > 0)?;
        }
        (held.bytes, held.waiting) = (all, waiting);
        (self.bytes, self.waits) = (bytes, waits);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // less is always possible
        let _ = self.set(0, false);
    }
}

/// The connection ends because others need its memory.
pub(super) fn displaced() -> io::Error {
    io::Error::other("displaced")
}
