//! Stores the messages of a call.
//!
//! A message is a request in the journal of its own, which any node carries out when its time has come. It is stored
//! before the changes of the call that sends it, so it is not lost; and the entity keeps the names of messages that it has
//! sent with its state, so one of a call that was not stored is not carried out, and none is carried out twice.

use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Caller;
use asyncsteps_executor::message::Request;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::{FirstOwner, Submit};
use asyncsteps_journal::{Journal, Value};
use futures_util::future::try_join_all;

use super::kind::{EntityKind, EntityName};
use super::mail::{MESSAGE_VERSION, Mail, Message};
use crate::answered::answered;
use crate::caller;
use crate::shared::DurableShared;
use crate::submit::error_of_submit;

/// Whether the messages can be carried out: the interface has their functions, and these take their parameters.
pub(super) fn check(
    mail: &Mail,
    shared: &DurableShared,
    (kind, name): (&EntityKind, &EntityName),
) -> Result<(), Error> {
    for (_, Message { function, params, .. }) in mail.messages() {
        let wrong = |why: String| {
            let info = format!("a message to {function} cannot be carried out: {why}");
            Error::with_info(codes::INTERNAL_ERROR, info)
        };
        let Some(known) = shared.message_function(&kind.template(function)) else {
            return Err(wrong("no function of this name may change the entity".to_owned()));
        };
        let params = kind.addressed(name, params.clone());
        Value::encode_json(&params).map_err(|error| wrong(error.to_string()))?;
        let request = Request::new(&known.function, params);
        let checked = known.checks.check(request, &Caller::system());
        checked.map_err(|refusal| wrong(refusal.to_string()))?;
    }
    Ok(())
}

/// Stores the messages, each of which is carried out if the entity says then that it has sent it.
pub(super) async fn store(
    mail: &Mail,
    journal: &dyn Journal,
    (kind, name): (&EntityKind, &EntityName),
) -> Result<(), Error> {
    let stored = mail.messages().iter().map(async |(id, Message { function, params, after })| {
        let params = kind.addressed(name, params.clone());
        let parameters = Value::encode_json(&params);
        let started = Started {
            template: kind.template(function),
            version: MESSAGE_VERSION,
            parameters: parameters.map_err(|error| error_of_submit(&error.into()))?,
            // it is nobody's but the service's
            user: caller::write(&Caller::system()),
            deadline: None,
            trace: asyncsteps_actors::trace::current().map(|trace| trace.to_string()),
            schedule: None,
        };
        let owner = match after.is_zero() {
            true => FirstOwner::Any,
            false => FirstOwner::AnyAfter(*after),
        };
        let submit = Submit { uid: id.0, started, key: None, owner, quota: None };
        let stored = answered(|| journal.submit(submit.clone())).await;
        stored.map(|_| ()).map_err(|error| error_of_submit(&error.into()))
    });
    // all at the same time, so that they share a flush
    try_join_all(stored).await.map(|_| ())
}
