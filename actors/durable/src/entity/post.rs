//! Stores the messages of a call.
//!
//! A message is a request in the journal of its own, which any node carries out when its time has come. It is stored
//! before the changes of the call that sends it, so it is not lost; and the entity keeps the names of messages that it has
//! sent with its state, so one of a call that was not stored is not carried out, and none is carried out twice.

use std::mem;
use std::sync::Arc;

use asyncsteps_actors::carried;
use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Caller;
use asyncsteps_executor::message::Request;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{CancelledBy, FirstOwner, Submit};
use asyncsteps_journal::{Journal, Value};
use futures_util::future::try_join_all;
use tokio::runtime::Handle;

use super::kind::{EntityKind, EntityName};
use super::mail::{Mail, Message, MessageId};
use crate::answered::answered;
use crate::caller;
use crate::shared::{DurableShared, MESSAGE_VERSION};
use crate::submit::error_of_submit;

/// The requests that are the messages, each of which is carried out if the entity says then that it has sent it;
/// InternalError if one could not be: the interface has not its function, or that does not take its parameters.
pub(super) fn requests(
    mail: &Mail,
    shared: &DurableShared,
    (kind, name): (&EntityKind, &EntityName),
) -> Result<Vec<Submit>, Error> {
    let request = |(id, message): &(MessageId, Message)| {
        let Message { function, params, after } = message;
        let wrong = |why: String| {
            let info = format!("a message to {function} cannot be carried out: {why}");
            Error::with_info(codes::INTERNAL_ERROR, info)
        };
        let template = kind.template(function);
        let Some(known) = shared.message_function(&template) else {
            return Err(wrong("no function of this name may change the entity".to_owned()));
        };
        let params = kind.addressed(name, params.clone());
        let request = Request::new(&known.function, params.clone());
        let checked = known.checks.check(request, &Caller::system());
        let params = checked.map_err(|refusal| wrong(refusal.to_string()))?.unwrap_or(params);
        let parameters = Value::encode_json(&params).map_err(|error| wrong(error.to_string()))?;
        let started = Started {
            template,
            version: MESSAGE_VERSION,
            parameters,
            // it is nobody's but the service's
            user: caller::write(&Caller::system()),
            deadline: None,
            trace: asyncsteps_actors::trace::current().map(carried::to_record),
            schedule: None,
            is_asked_for: false,
            parent: None,
        };
        let owner = match after.is_zero() {
            true => FirstOwner::Any,
            false => FirstOwner::AnyAfter(*after),
        };
        Ok(Submit::new(id.0, started, owner))
    };
    mail.messages().iter().map(request).collect()
}

/// Messages that are stored, or being stored, for a call that may still fail: those of one that ends without its changes
/// are cancelled, as they would stay until their time.
pub(super) struct Unsent(Vec<MessageId>, Arc<dyn Journal>);

impl Unsent {
    pub(super) fn new(sent: &[MessageId], journal: &Arc<dyn Journal>) -> Self {
        Self(sent.to_vec(), Arc::clone(journal))
    }

    /// The changes of the call are true, so the messages are sent.
    pub(super) fn sent(mut self) {
        self.0.clear();
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        cancel(mem::take(&mut self.0), &self.1);
    }
}

/// Cancels messages that the entity does not know as sent: it says so, and then they end.
pub(super) fn cancel(messages: Vec<MessageId>, journal: &Arc<dyn Journal>) {
    if messages.is_empty() {
        return;
    }
    let Ok(runtime) = Handle::try_current() else { return };
    let journal = Arc::clone(journal);
    runtime.spawn(async move {
        for MessageId(uid) in messages {
            let by = || CancelledBy::from("the entity that has sent it");
            if let Err(error) = answered(|| journal.cancel(uid, by(), None)).await {
                tracing::debug!(message = %uid, %error, "a message waits for its time");
            }
        }
    });
}

/// Stores them, all at the same time, so that they share a flush.
pub(super) async fn store(requests: Vec<Submit>, journal: &dyn Journal) -> Result<(), Error> {
    let stored = requests.iter().map(|submit| answered(|| journal.submit(submit.clone())));
    let stored = try_join_all(stored).await;
    stored.map(|_| ()).map_err(|error| error_of_submit(&error.into()))
}
