//! What a flow does for its steps that begin other flows: its children. A child is named in the records of the flow
//! before it is stored, so whoever has the flow later knows which one that is.

use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Caller;
use asyncsteps_executor::recorder::{OUTCOME_UNKNOWN, Stored};
use asyncsteps_journal::record::{Ending, Keys, Parent, TakenSignal};
use asyncsteps_journal::request::{CancelledBy, FlowState, Signal};
use asyncsteps_journal::{Error as JournalError, Event, POLL, Path, Refused, Repeat, Uid, Value};
use serde_json::{Map, Value as Json};

use crate::answered::answered;
use crate::cancels::error_of_cancelled;
use crate::durable::Durable;
use crate::flow::DurableFlow;
use crate::marks::{CHILD, HAS_ENDED};
use crate::on_drop::on_drop;
use crate::records::error_of;
use crate::replay::RecordedEnd;
use crate::stored::stored;
use crate::submit::{NotSubmitted, Options, error_of_submit};

/// How often a flow looks whether its child has ended, if no signal says so: its process may have died before it sent one.
const LOOK: Duration = Duration::from_secs(60);

/// The step of a call that waits for the end of its child, beside the step that begins it.
pub(crate) const BEGIN: &str = "begin";
pub(crate) const WAIT: &str = "result";

/// What a step of a call has its flow do.
pub(crate) enum ChildWork {
    /// Stores the child, and returns its uid.
    Begin(ChildCall),
    /// Waits for the end of the child, and returns its result.
    Await(Uid),
    /// Ends the child, and returns a list with its result, if it has come to one.
    End(ChildCall),
}

/// The call of a durable function by a step.
pub(crate) struct ChildCall {
    pub(crate) function: &'static str,
    pub(crate) params: Map<String, Json>,
    pub(crate) caller: Caller,
}

impl DurableFlow {
    /// Does this for the step at this path.
    pub(crate) async fn child(
        self: Rc<Self>,
        path: Path,
        work: ChildWork,
    ) -> Result<Stored, Error> {
        let value = match work {
            ChildWork::Begin(call) => self.begin_child(&path, call).await?,
            ChildWork::Await(uid) => self.await_child(&path, uid).await?,
            ChildWork::End(call) => {
                let result: Option<Json> = match self.end_child(&path, call).await? {
                    Some(value) => Some(value.decode().map_err(unreadable)?),
                    None => None,
                };
                Value::encode_json(result.as_slice()).map_err(unreadable)?
            }
        };
        Ok(stored(&value))
    }

    /// The child that the step at this path has begun, or is about to.
    fn child_at(&self, path: &Path) -> Option<Uid> {
        let records = self.replay.borrow();
        records.at(&path.branch(CHILD))?.keys.as_ref()?.first()?.parse().ok()
    }

    async fn begin_child(self: &Rc<Self>, path: &Path, call: ChildCall) -> Result<Value, Error> {
        let uid = match self.child_at(path) {
            Some(uid) => uid,
            None => {
                let uid =
                    Uid::random().map_err(|it| Error::caused_by(codes::INTERNAL_ERROR, it))?;
                let keys = vec![uid.to_string()];
                self.record(&path.branch(CHILD), [Event::Keys(Keys { keys })]);
                uid
            }
        };
        self.stored().await;
        self.submit_child(uid, path, call).await.map_err(|error| error_of_submit(&error))?;
        Value::encode_result(&uid).map_err(unreadable)
    }

    /// Stores the child, unless it is stored already.
    async fn submit_child(
        self: &Rc<Self>,
        uid: Uid,
        step: &Path,
        call: ChildCall,
    ) -> Result<(), NotSubmitted> {
        let ChildCall { function, params, caller } = call;
        let durable = Durable { shared: Arc::clone(&self.shared) };
        let program = durable.program(function)?;
        let params = program.check(params, &caller, None)?;
        let parent = self.owned.uid();
        let options = Options::default().caller(caller).uid(uid).key(key_of(parent, uid));
        let options = options.child_of(Parent { uid: parent, step: step.clone() });
        // it is claimed before what nothing waits for
        let _awaited = durable.awaits(uid);
        loop {
            let submit =
                durable.submit_checked(Arc::clone(&program), params.clone(), options.clone());
            match Box::pin(submit).await {
                Err(NotSubmitted::Journal(JournalError::Refused(Refused::KeyInUse {
                    uid: known,
                    ..
                }))) if known == uid => return Ok(()),
                Err(NotSubmitted::Journal(error)) if error.repeat() == Repeat::Later => {
                    timer::sleep_until(clock::now() + POLL).await;
                }
                submitted => return submitted.map(drop),
            }
        }
    }

    async fn await_child(self: &Rc<Self>, path: &Path, uid: Uid) -> Result<Value, Error> {
        let _forget = on_drop(|| self.shared.waiters.forget(uid));
        let _waiting = on_drop(|| self.activity.end_wait(path));
        let ending = loop {
            let (news, ended) = (self.signals.changed.notified(), self.shared.waiters.wait(uid));
            match self.shared.journal.status(uid).await {
                Ok(status) => {
                    if let Some(ending) = status.ending {
                        break ending;
                    }
                }
                Err(error) if error.repeat() == Repeat::Never => return Err(unknown(uid)),
                Err(_) => {}
            }
            let look = clock::now() + LOOK;
            self.activity.wait(path, Some(look));
            tokio::select! {
                biased;
                () = news => {}
                _ = ended => {}
                () = timer::sleep_until(look) => {}
            }
        };
        match ending {
            Ending::Completed(value) => {
                let number = self.signals.wake.borrow_mut().pop().unwrap_or_default();
                let (name, result) = (CHILD.to_owned(), value.clone());
                self.record(path, [Event::Signal(TakenSignal { number, name, value })]);
                Ok(result)
            }
            Ending::Failed(failure) => Err(error_of(&failure)),
            Ending::Cancelled | _ => Err(error_of_cancelled(uid)),
        }
    }

    /// Cancels the child, and waits until it has undone what it did: returns its result if it has completed. If that takes
    /// long, the flow is put aside, and nothing that is in front of the step is undone meanwhile.
    async fn end_child(
        self: &Rc<Self>,
        path: &Path,
        call: ChildCall,
    ) -> Result<Option<Value>, Error> {
        let Some(uid) = self.child_at(path) else { return Ok(None) };
        let wait: Option<Path> = path
            .as_str()
            .strip_suffix(BEGIN)
            .and_then(|level| format!("{level}{WAIT}").parse().ok());
        let end_at = |path: &Path| self.replay.borrow().at(path).and_then(|at| at.end.clone());
        if let Some(RecordedEnd::Done(result)) = wait.and_then(|wait| end_at(&wait)) {
            return Ok(Some(result));
        }
        let is_stored = matches!(end_at(path), Some(RecordedEnd::Done(_)));
        let durable = Durable { shared: Arc::clone(&self.shared) };
        let ended = async {
            if !self.cancel_child((uid, is_stored), path, call).await? {
                return Ok(Ending::Cancelled);
            }
            durable.wait_ended(uid).await
        };
        let why = tokio::select! {
            biased;
            ended = ended => match ended {
                Ok(Ending::Completed(result)) => return Ok(Some(result)),
                Ok(Ending::Failed(_) | Ending::Cancelled | _) => return Ok(None),
                Err(JournalError::Refused(Refused::NoFlow(_))) => return Err(unknown(uid)),
                Err(error) => format!("{path} does not end the request {uid}: {error}"),
            },
            () = timer::sleep_until(clock::now() + POLL) => {
                format!("{path} waits for the request {uid}")
            }
        };
        // an error would let the steps in front be undone
        self.leave(self.tries_again(path, why));
        pending().await
    }

    /// Cancels the child, if there is one or an owner of the past may store one yet: that is stored, and ends before it
    /// begins. Returns whether there is one.
    async fn cancel_child(
        self: &Rc<Self>,
        (uid, is_stored): (Uid, bool),
        step: &Path,
        call: ChildCall,
    ) -> Result<bool, JournalError> {
        let by = || CancelledBy::Person(format!("the request {} that began it", self.owned.uid()));
        let cancel = || answered(|| self.shared.journal.cancel(uid, by(), None));
        match cancel().await {
            Err(JournalError::Refused(Refused::NoFlow(_))) if !is_stored => {}
            cancelled => return cancelled.map(|_| true),
        }
        match self.submit_child(uid, step, call).await {
            Ok(()) => cancel().await.map(|_| true),
            Err(NotSubmitted::Journal(error)) => Err(error),
            // nothing can store it
            Err(_) => Ok(false),
        }
    }

    /// The flow has ended: wakes the one that began it, unless that is in this process and knows.
    pub(crate) async fn wake_parent(&self, is_known: bool) {
        let Some(parent) = self.parent else { return };
        let journal = &self.shared.journal;
        let Ok(status) = journal.status(parent).await else { return };
        let is_parked = status.flow.state == FlowState::Parked;
        if status.ending.is_some() || is_known && !is_parked {
            return;
        }
        self.wake(parent).await;
    }

    /// Wakes another flow, which looks by itself as well whether this one has ended.
    pub(crate) async fn wake(&self, other: Uid) {
        let Ok(value) = Value::encode(&()) else { unreachable!("nothing can be written") };
        let signal = Signal { id: self.owned.uid(), name: HAS_ENDED.to_owned(), value };
        let journal = &self.shared.journal;
        if let Err(error) = answered(|| journal.signal(other, signal.clone())).await {
            tracing::debug!(flow = %other, %error, "it looks by itself whether another one has ended");
        }
    }
}

/// The key of a child, by which it is known in lists whose it is.
fn key_of(parent: Uid, child: Uid) -> String {
    format!("{HAS_ENDED} {parent} {child}")
}

/// The parent of a child with this key.
pub(crate) fn parent_in(key: &str) -> Option<Uid> {
    key.strip_prefix(HAS_ENDED)?.split(' ').nth(1)?.parse().ok()
}

/// The error of a step whose child was forgotten.
fn unknown(uid: Uid) -> Error {
    Error::with_info(OUTCOME_UNKNOWN, format!("the request {uid} is not known any more"))
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::caused_by(codes::INTERNAL_ERROR, error)
}
