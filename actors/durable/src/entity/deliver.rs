//! Carries out a message: the request in the journal that has it, until its call has ended.

use std::rc::Rc;
use std::time::Duration;

use asyncsteps_executor::channel::Channel;
use asyncsteps_executor::message::Request;
use asyncsteps_executor::{Caller, Incoming};
use asyncsteps_journal::limits::TEXT_BYTES;
use asyncsteps_journal::record::{Ended, Ending, Started};
use asyncsteps_journal::request::{Append, Disposition, Loaded};
use asyncsteps_journal::{Event, POLL, Path, Record};
use serde_json::{Map, Value};

use super::headers::{CallHeaders, CarriedMessage, MessageEnd};
use super::mail::MessageId;
use crate::last_append::last_append;
use crate::records::cut;
use crate::response::response;
use crate::run::{FlowRun, WRONG, ending_of};
use crate::writer::{AppendAnswer, Stopped};

impl FlowRun<'_> {
    /// Carries out the message that this request is, for this function.
    pub(crate) async fn deliver(&self, function: String, started: &Started, loaded: &Loaded) {
        let uid = loaded.flow.uid;
        if self.taken.claimed.deaths >= DEATHS {
            let reason = format!("{DEATHS} owners in a row died with it");
            return self.taken.give_back(Disposition::Pause(reason)).await;
        }
        let params: Map<String, Value> = match started.parameters.decode() {
            Ok(params) => params,
            Err(error) => {
                let reason = format!("the parameters cannot be read: {error}");
                return self.taken.give_back(Disposition::Pause(reason)).await;
            }
        };
        let is_cancelled = loaded.inbox.cancel.is_some();
        let message = CarriedMessage { id: MessageId(uid), is_cancelled };
        let headers = Rc::new(CallHeaders::new(None, Some(message)));
        let incoming = Incoming::new(Request::new(&function, params), Channel::local())
            .with_caller(Caller::system())
            .with_recorded_trace(started.trace.as_deref())
            .with_headers(Rc::<CallHeaders>::clone(&headers));
        let response = response(self.executor.dispatch(incoming).await);
        let error = response.clone().and_then(|response| response.into_result().err());
        let refused = error.as_ref().filter(|error| WRONG.contains(&&*error.code));
        let ending = match (headers.end.get(), response) {
            (None, _) if is_cancelled && refused.is_some() => Ending::Cancelled,
            (None, _) => {
                if let Some(error) = refused.filter(|_| self.taken.claimed.epoch.get() > REFUSALS) {
                    // a program that refuses it: it would be refused again
                    let why = error.description.as_deref().unwrap_or_default();
                    let reason = format!("the message is refused: {} {why}", error.code);
                    return self
                        .taken
                        .give_back(Disposition::Pause(cut(&reason, TEXT_BYTES)))
                        .await;
                }
                tracing::debug!(message = %uid, ?error, "a message is tried again later");
                let again = Disposition::Park(Some(self.until_again()));
                // a cancel is known, and does not wake it again
                let seen = loaded.inbox.last;
                return self
                    .taken
                    .append_last(Append { seen, ..last_append(self.taken.claimed, again) })
                    .await;
            }
            (Some(MessageEnd::NotSent), _) => Ending::Cancelled,
            (Some(MessageEnd::CarriedOut), response) => ending_of(response),
        };
        let writer = self.taken.writer(loaded.flow.version, (loaded, loaded.inbox.last));
        let path = Path::template(&started.template);
        let ended = Record::new(path, Event::Ended(Ended { ending }));
        let (answer, _) = writer
            .append_last(|entry| {
                entry.records = vec![ended];
                // it takes nothing of its inbox any more
                entry.seen = u64::MAX;
            })
            .await;
        match answer {
            AppendAnswer::Written(_) => self.shared.tell_ended(uid),
            AppendAnswer::Stopped(Stopped::Refused(reason)) => {
                self.taken.give_back(Disposition::Pause(reason)).await;
            }
            AppendAnswer::Unseen | AppendAnswer::Stopped(Stopped::Lost) => {}
        }
    }

    /// How long a message waits that was not carried out: longer with each owner that has tried it, whatever the clock says.
    fn until_again(&self) -> Duration {
        let owners = u32::try_from(self.taken.claimed.epoch.get()).unwrap_or(u32::MAX);
        POLL.saturating_mul(owners).min(LONGEST)
    }
}

/// How long a message waits at the most until it is tried again.
const LONGEST: Duration = Duration::from_secs(60);

/// How many owners may refuse a message until it waits for an operator, which takes more than an hour: programs of two
/// versions run side by side, of which one does not know all parameters of the other.
const REFUSALS: u64 = 100;

/// How many owners in a row may die with a message until it waits for an operator.
const DEATHS: u32 = 30;
