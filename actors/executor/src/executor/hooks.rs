//! What an application may watch (FTN6, the events of an executor).

use asyncsteps::Error;

use crate::channel::Channel;
use asyncsteps_futoin::message::{Request, Response};

/// The events of an executor. Each does nothing unless it is implemented; an executor without hooks
/// pays nothing for them. They are called on the arbiter of the request and must be short.
#[expect(unused_variables, reason = "the names are for who implements it")]
pub trait Hooks: Send + Sync {
    /// A request came, not yet checked.
    fn request(&self, request: &Request, channel: &Channel) {}

    /// A request is answered with a message, by its function or by a check.
    fn response(&self, response: &Response, channel: &Channel) {}

    /// A function ended with an error that its interface does not declare: its caller is told
    /// InternalError only. `function` is its full name, `iface:version:function`.
    fn not_expected(&self, function: &str, error: &Error) {}

    /// The executor is built and takes requests.
    fn ready(&self) {}

    /// The executor takes no more requests; those in flight go on.
    fn close(&self) {}

    /// The bytes of a message that came or goes over a channel, also of one that is none.
    fn message(&self, bytes: &[u8], way: Way, channel: &Channel) {}
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way")]
pub enum Way {
    /// To this executor.
    In,
    /// From this executor.
    Out,
}
