//! Who may send the signals that a step waits for.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use crate::executor::Caller;
use crate::security::{SecurityLevel, User};

/// A caller from outside of the program who sends a signal, and the request that waits for it.
#[derive(Debug)]
pub struct Sender<P> {
    /// The parameters of the request.
    pub params: Rc<P>,
    of: SenderOf,
}

/// The same, whatever the parameters are.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a host says all of it")]
pub struct SenderOf {
    /// The caller.
    pub caller: Caller,
    /// The request acts for the same user.
    pub is_own: bool,
}

impl<P> Sender<P> {
    /// The user; `None` for an anonymous caller.
    #[must_use]
    pub fn user(&self) -> Option<&User> {
        self.of.caller.user()
    }

    /// How well the caller is known (FTN8 §2.12).
    #[must_use]
    pub fn level(&self) -> SecurityLevel {
        self.of.caller.level()
    }

    /// Whether the request acts for the same user.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.of.is_own
    }
}

/// Decides who may send a signal, see [`Step::from`](super::Step::from): a [`SecurityLevel`] that the caller needs, or a
/// closure `|sender: &Sender<P>| -> bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say who may send a signal",
    note = "say a `SecurityLevel`, or `|sender: &Sender<P>| ..` with the type of the function's parameters"
)]
pub trait MaySend<P>: Send + Sync + 'static {
    /// Whether this caller may send it to this request.
    fn may_send(&self, sender: &Sender<P>) -> bool;
}

impl<P> MaySend<P> for SecurityLevel {
    fn may_send(&self, sender: &Sender<P>) -> bool {
        sender.level() >= *self
    }
}

impl<P, F> MaySend<P> for F
where
    F: Fn(&Sender<P>) -> bool + Send + Sync + 'static,
{
    fn may_send(&self, sender: &Sender<P>) -> bool {
        self(sender)
    }
}

/// Who may send the signals of a step: no caller from outside, unless it is said.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Senders")]
pub(super) struct Senders(Option<Arc<MaySendTo>>);

type MaySendTo = dyn Fn(&SenderOf, &Rc<dyn Any>) -> bool + Send + Sync;

impl Senders {
    pub(super) fn of<P: 'static>(senders: impl MaySend<P>) -> Self {
        Self(Some(Arc::new(move |of: &SenderOf, params: &Rc<dyn Any>| {
            let (params, of) = (Rc::clone(params).downcast(), of.clone());
            params.is_ok_and(|params| senders.may_send(&Sender { params, of }))
        })))
    }

    /// Whether this caller may send a signal to a request with these parameters.
    pub(super) fn allow(&self, of: &SenderOf, params: &Rc<dyn Any>) -> bool {
        self.0.as_ref().is_some_and(|allow| allow(of, params))
    }
}
