//! From the messages of a connection to their replies.

use std::rc::Rc;

use asyncsteps_futoin::message::{Message, Response};
use bytes::Bytes;

use crate::http::head::RequestHead;
use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::{Direction, Executor, Incoming, Reply};

/// The result of handling a message.
pub(super) enum Handled {
    /// It was a request, and this is the reply.
    Request(Reply),
    /// It answers a call to the other end.
    Response(Response),
    /// It is malformed or has no id, so it cannot be answered.
    Nothing,
}

/// The handler of the messages of one connection; a cheap handle.
#[derive(Clone)]
pub(super) struct MessageHandler {
    pub(super) executor: Executor,
    pub(super) channel: Channel,
    /// The request of the upgrade, whose credentials hold for messages without their own.
    pub(super) upgrade: Rc<RequestHead>,
}

impl MessageHandler {
    /// Handles a message: a request is carried out, which may take a while.
    pub(super) async fn handle(self, bytes: Bytes) -> Handled {
        let Self { executor, channel, upgrade } = self;
        let admitted = executor.admit(&channel).await;
        let size = bytes.len();
        let parsed = Message::parse(&bytes);
        // a request may wait for long, and all that it says is parsed
        drop(bytes);
        let (rid, coding, request) = match parsed {
            Ok(Message::Response(response)) => return Handled::Response(response),
            Ok(Message::Request(request)) => {
                (request.rid().cloned(), request.coding(), Ok(request))
            }
            Err(refusal) => (refusal.rid().cloned(), refusal.coding(), Err(refusal)),
        };
        if rid.is_none() {
            executor.count_unanswerable(&channel);
            return Handled::Nothing;
        }
        Handled::Request(match (admitted, request) {
            (Err(refused), _) => Reply::refused(&refused, rid.as_ref(), coding),
            (Ok(_), Err(refusal)) => executor.refuse(refusal, &channel),
            (Ok(permit), Ok(request)) => {
                let incoming = Incoming::new(request, channel)
                    .with_size(size)
                    .with_client_permit(permit)
                    .with_credentials(upgrade.credentials())
                    .with_headers(upgrade);
                executor.dispatch(incoming).await
            }
        })
    }

    /// Passes a message to the hooks.
    pub(super) fn trace(&self, message: &[u8], way: Direction) {
        self.executor.trace_message(message, way, &self.channel);
    }
}
