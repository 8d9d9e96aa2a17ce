//! Bodies of transactions that have run, and the records of their steps.

use std::error::Error as StdError;

use asyncsteps_core::codes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::check;
use crate::coding::Encoded;
use crate::error::{NotWritten, Refused};
use crate::record::{Done, Event, Record};
use crate::request::{Append, Appended};
use crate::seal::Seal;
use crate::time::{Clock, SystemClock, Timestamp};
use crate::transaction::{Committed, StepEntry};
use crate::value::Value;

/// The result of the body of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    value: Value,
    /// How long it took, in milliseconds.
    millis: u64,
}

impl Ran {
    /// A body that began at `began` returned this result.
    ///
    /// # Errors
    /// If it cannot be recorded.
    pub(crate) fn new<T>(result: &T, began: Timestamp) -> Result<Self, asyncsteps_core::Error>
    where
        T: Serialize + DeserializeOwned,
    {
        let value = Value::encode_result(result).map_err(|error| {
            asyncsteps_core::Error::with_info(codes::INTERNAL_ERROR, error.to_string())
        })?;
        let millis = SystemClock.now().as_millis().saturating_sub(began.as_millis());
        Ok(Self { value, millis })
    }

    fn record(&self, step: &StepEntry) -> Record {
        let Self { value, millis } = self.clone();
        let done = Done { value, attempt: step.attempt, millis };
        Record::new(step.path.clone(), Event::Done(done))
    }

    /// The append with the record of this result, and its records as they are stored.
    pub(crate) fn entry(
        &self,
        step: &StepEntry,
        seal: &Seal,
    ) -> (Append, Result<Vec<Encoded>, Refused>) {
        let mut append = step.append.clone();
        append.records.push(self.record(step));
        let encoded = check::append(&append, seal);
        (append, encoded)
    }

    /// How the transaction ended whose entry got this answer.
    pub(crate) fn committed(
        &self,
        step: &StepEntry,
        answer: Result<Appended, NotWritten>,
    ) -> Committed {
        match answer {
            Ok(written) => Committed::Written(written, self.record(step)),
            Err(not_written) => Committed::NotWritten(not_written),
        }
    }
}

/// The error of a step whose transaction the database refuses.
pub(crate) fn refused(cause: impl StdError + Send + Sync + 'static) -> asyncsteps_core::Error {
    asyncsteps_core::Error::caused_by(codes::INTERNAL_ERROR, cause)
}
