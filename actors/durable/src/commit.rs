//! A flow commits the transaction of a step together with its record.

use std::future::pending;
use std::rc::Rc;

use asyncsteps_core::Error;
use asyncsteps_journal::transaction::Prepared;
use asyncsteps_journal::{Event, Path, Record, Value};

use crate::detached::detached;
use crate::flow::DurableFlow;
use crate::writer::NotCommitted;

impl DurableFlow {
    /// Commits the transaction of the step at this path with its record and the records before that. It goes on if the
    /// step is left, so that the outcome is known all the same.
    pub(crate) async fn commit(
        self: Rc<Self>,
        prepared: Box<dyn Prepared>,
        (path, attempt): (Path, u32),
        before: Option<Event>,
    ) -> Result<Value, Error> {
        let flow = Rc::clone(&self);
        let before = before.map(|event| Record::new(path.clone(), event));
        let committed = detached(async move {
            let before = before.into_iter().collect();
            let records = flow.owned.writer.commit(prepared, (path, attempt), before).await?;
            let value = records.last().and_then(|(_, record)| {
                let Event::Done(done) = &record.event else { return None };
                Some(done.value.clone())
            });
            flow.replay.borrow_mut().add_stored(records);
            Ok(value)
        });
        match committed.await {
            Ok(Some(value)) => Ok(value),
            Ok(None) => unreachable!("the last record is that of the result"),
            Err(NotCommitted::Failed(error)) => Err(error),
            Err(NotCommitted::Stopped(stopped)) => {
                self.leave(stopped.into());
                pending().await
            }
        }
    }
}
