//! Events of an executor, for applications that watch it (FTN6).

use asyncsteps_core::Error;

use asyncsteps_futoin::message::{Request, Response};

use super::guarded::guarded;
use super::outcome::RequestOver;
use crate::channel::Channel;

/// The events of an executor. Each does nothing unless it is implemented; an executor without hooks
/// pays nothing for them. They are called on the arbiter of the request and must be short. A panic of
/// one is logged, and the request goes on.
#[expect(unused_variables, reason = "the names are for implementations")]
pub trait Hooks: Send + Sync {
    /// A request came, not yet checked.
    fn request(&self, request: &Request, channel: &Channel) {}

    /// A request is answered with a message, by its function or by a check.
    fn response(&self, response: &Response, channel: &Channel) {}

    /// A request has ended, in whatever way: it was answered or refused, or its caller went away.
    fn over(&self, request: &RequestOver<'_>) {}

    /// A function ended with an error that its interface does not declare: its caller gets
    /// InternalError only. `function` is its full name, `iface:version:function`.
    fn not_expected(&self, function: &str, error: &Error) {}

    /// The executor is built and takes requests.
    fn ready(&self) {}

    /// The executor takes no more requests; those in flight go on.
    fn close(&self) {}

    /// The bytes of a message that came or goes over a channel, also if they are malformed.
    fn message(&self, bytes: &[u8], way: Direction, channel: &Channel) {}
}

/// Hooks whose panics are logged and go no further.
pub(super) struct GuardedHooks<H>(pub(super) H);

impl<H: Hooks> GuardedHooks<H> {
    fn call(&self, hook: impl FnOnce(&H)) {
        guarded("a hook panicked", || hook(&self.0));
    }
}

impl<H: Hooks> Hooks for GuardedHooks<H> {
    fn request(&self, request: &Request, channel: &Channel) {
        self.call(|hooks| hooks.request(request, channel));
    }

    fn response(&self, response: &Response, channel: &Channel) {
        self.call(|hooks| hooks.response(response, channel));
    }

    fn over(&self, request: &RequestOver<'_>) {
        self.call(|hooks| hooks.over(request));
    }

    fn not_expected(&self, function: &str, error: &Error) {
        self.call(|hooks| hooks.not_expected(function, error));
    }

    fn ready(&self) {
        self.call(H::ready);
    }

    fn close(&self) {
        self.call(H::close);
    }

    fn message(&self, bytes: &[u8], way: Direction, channel: &Channel) {
        self.call(|hooks| hooks.message(bytes, way, channel));
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third direction")]
pub enum Direction {
    /// To this executor.
    In,
    /// From this executor.
    Out,
}
