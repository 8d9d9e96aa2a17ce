//! The response in a reply of the executor.

use asyncsteps_executor::message::Response;
use asyncsteps_executor::{Reply, ReplyBody};

/// The response, if there is one.
pub(crate) fn response(reply: Reply) -> Option<Response> {
    match reply.into_parts().1 {
        ReplyBody::Message(message) => Some(message.response().clone()),
        ReplyBody::Nothing | ReplyBody::Raw(_) => None,
    }
}
