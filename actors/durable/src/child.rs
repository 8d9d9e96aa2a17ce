//! What a flow does for its steps that begin other flows: its children. A child is named in the records of the flow
//! before it is stored, so whoever has the flow later knows which one that is.

use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::{Error, codes};
use asyncsteps_executor::Caller;
use asyncsteps_executor::recorder::{OUTCOME_UNKNOWN, Stored};
use asyncsteps_journal::record::{Ending, Keys, Parent, TakenSignal};
use asyncsteps_journal::request::{CancelledBy, Signal};
use asyncsteps_journal::{Error as JournalError, Event, POLL, Path, Refused, Uid, Value};
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

/// The steps of a call: one begins the child, and one waits for it.
pub(crate) const BEGIN: &str = "begin";
pub(crate) const WAIT: &str = "result";

/// What a step of a call has its flow do.
pub(crate) enum ChildWork {
    /// Stores the child, and returns its uid.
    Begin(ChildCall),
    /// Waits for the end of the child, and returns its result.
    Await(Uid),
    /// Ends the child, and returns its result if it has come to one, or nothing at all.
    End(ChildCall),
}

/// The call of a durable function by a step.
pub(crate) struct ChildCall {
    pub(crate) function: &'static str,
    pub(crate) params: Map<String, Json>,
    pub(crate) caller: Caller,
    /// The step waits for the end.
    pub(crate) waits: bool,
}

impl DurableFlow {
    /// Does this for the step at this path.
    pub(crate) async fn child(
        self: Rc<Self>,
        path: Path,
        work: ChildWork,
    ) -> Result<Stored, Error> {
        let value = match work {
            ChildWork::Begin(call) => Some(self.begin_child(&path, call).await?),
            ChildWork::Await(uid) => Some(self.await_child(&path, uid).await?),
            ChildWork::End(call) => self.end_child(&path, call).await?,
        };
        Ok(value.map_or_else(|| [].into(), |value| stored(&value)))
    }

    /// The child that the step at this path has begun, or is about to.
    fn child_at(&self, path: &Path) -> Option<Uid> {
        let records = self.replay.borrow();
        records.at(&path.branch(CHILD))?.keys.as_ref()?.first()?.parse().ok()
    }

    fn durable(&self) -> Durable {
        Durable { shared: Arc::clone(&self.shared) }
    }

    async fn begin_child(self: &Rc<Self>, path: &Path, call: ChildCall) -> Result<Value, Error> {
        let uid = match self.child_at(path) {
            Some(uid) => uid,
            None => {
                let uid = Uid::random().map_err(|error| Error::unexpected(error.to_string()))?;
                let keys = vec![uid.to_string()];
                self.record(&path.branch(CHILD), [Event::Keys(Keys { keys })]);
                uid
            }
        };
        self.stored().await;
        match self.submit_child(uid, path, call).await {
            Ok(()) => {}
            // if it is away, the step begins anew
            Err(NotSubmitted::Journal(error)) => {
                return Err(Error::caused_by(codes::INTERNAL_ERROR, error));
            }
            Err(error) => return Err(error_of_submit(&error)),
        }
        Value::encode_result(&uid).map_err(|error| Error::unexpected(error.to_string()))
    }

    /// Stores the child, unless it is stored already.
    async fn submit_child(
        &self,
        uid: Uid,
        step: &Path,
        call: ChildCall,
    ) -> Result<(), NotSubmitted> {
        let ChildCall { function, params, caller, waits } = call;
        let (durable, parent) = (self.durable(), self.owned.uid());
        let program = durable.program(function)?;
        let params = program.check(params, &caller, None)?;
        // lists show by it whose child it is
        let key = format!("{HAS_ENDED} {parent} {uid}");
        let options = Options::default().caller(caller).uid(uid).key(key);
        let options = options.child_of(Parent { uid: parent, step: step.clone(), waits });
        Box::pin(durable.submit_checked(program, params, options)).await.map(drop)
    }

    async fn await_child(&self, path: &Path, uid: Uid) -> Result<Value, Error> {
        let _waiting = on_drop(|| self.activity.end_wait(path));
        let durable = self.durable();
        let mut ended = pin!(durable.wait_ended(uid));
        let ending = loop {
            let look = clock::now() + LOOK;
            self.activity.wait(path, Some(look));
            tokio::select! {
                biased;
                ending = &mut ended => break ending.map_err(|_| unknown(uid))?,
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
    async fn end_child(&self, path: &Path, call: ChildCall) -> Result<Option<Value>, Error> {
        let Some(uid) = self.child_at(path) else { return Ok(None) };
        let end_at = |path: &Path| self.replay.borrow().at(path).and_then(|at| at.end.clone());
        let level = path.as_str().strip_suffix(BEGIN);
        let wait = level.and_then(|level| format!("{level}{WAIT}").parse().ok());
        if let Some(RecordedEnd::Done(result)) = wait.and_then(|wait| end_at(&wait)) {
            return Ok(Some(result));
        }
        let is_stored = matches!(end_at(path), Some(RecordedEnd::Done(_)));
        let why = tokio::select! {
            biased;
            ended = self.cancelled_child((uid, is_stored), path, call) => match ended {
                Ok(Ending::Completed(result)) => return Ok(Some(result)),
                Ok(Ending::Failed(_) | Ending::Cancelled | _) => return Ok(None),
                Err(JournalError::Refused(Refused::NoFlow(_))) => return Err(unknown(uid)),
                Err(error) => format!("does not end the request {uid}: {error}"),
            },
            () = timer::sleep_until(clock::now() + POLL) => format!("waits for the request {uid}"),
        };
        // an error would let the steps in front be undone
        self.leave(self.tries_again(path, format!("{path} {why}")));
        pending().await
    }

    /// How the child ends, which is cancelled. If it is not stored, an owner of the past may store it yet: so it is, and
    /// ends before it begins.
    async fn cancelled_child(
        &self,
        (uid, is_stored): (Uid, bool),
        step: &Path,
        call: ChildCall,
    ) -> Result<Ending, JournalError> {
        let by = || CancelledBy::Person(format!("the request {} that began it", self.owned.uid()));
        let journal = &self.shared.journal;
        let cancel = || async {
            // a second cancel would let it go on while it waits for an operator
            match journal.status(uid).await?.flow.cancel {
                Some(_) => Ok(()),
                None => answered(|| journal.cancel(uid, by(), None)).await.map(drop),
            }
        };
        let cancelled = cancel().await;
        if matches!(cancelled, Err(JournalError::Refused(Refused::NoFlow(_)))) && !is_stored {
            match self.submit_child(uid, step, call).await {
                Ok(()) => cancel().await?,
                Err(NotSubmitted::Journal(error)) => return Err(error),
                // nothing can store it
                Err(_) => return Ok(Ending::Cancelled),
            };
        }
        self.durable().wait_ended(uid).await
    }

    /// Wakes another flow, which looks by itself as well whether this one has ended.
    pub(crate) async fn wake(&self, other: Uid) {
        let Ok(value) = Value::encode(&()) else { unreachable!("nothing can be written") };
        let signal = Signal { id: self.owned.uid(), name: HAS_ENDED.to_owned(), value };
        let journal = &self.shared.journal;
        if let Err(error) = answered(|| journal.signal(other, signal.clone())).await {
            tracing::debug!(flow = %other, %error, "it is not woken");
        }
    }
}

/// The parent of a child with this key.
pub(crate) fn parent_in(key: &str) -> Option<Uid> {
    key.strip_prefix(HAS_ENDED)?.split(' ').nth(1)?.parse().ok()
}

/// The error of a step whose child was forgotten.
fn unknown(uid: Uid) -> Error {
    Error::with_info(OUTCOME_UNKNOWN, format!("the request {uid} is not known any more"))
}
