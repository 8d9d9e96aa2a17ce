//! The schedules that the journal keeps, as this process has read them.

use std::collections::HashMap;
use std::sync::Arc;

use asyncsteps_journal::Value;
use asyncsteps_journal::request::ReadSchedule;
use parking_lot::Mutex;
use tokio::task::yield_now;

use crate::schedule::ScheduledRequests;

/// What was read last, by name. It takes a millisecond to find out that a rare expression means some time, so what has
/// not changed is not read again.
#[derive(Debug, Default)]
pub(crate) struct KeptSchedules(Mutex<HashMap<String, Arc<KeptSchedule>>>);

#[derive(Debug)]
struct KeptSchedule {
    value: Result<Value, String>,
    /// `None` if it cannot be read, which the log has said.
    scheduled: Option<Arc<ScheduledRequests>>,
    /// The program declared it when it was paused or resumed.
    is_of_program: bool,
}

impl KeptSchedules {
    /// Reads what the journal keeps; returns it without the schedules whose names the program has.
    pub(crate) async fn read(
        &self,
        stored: Vec<ReadSchedule>,
        own: &[Arc<ScheduledRequests>],
    ) -> Vec<Arc<ScheduledRequests>> {
        let (mut read, mut all) = (HashMap::new(), Vec::new());
        for stored in stored {
            let known = self.0.lock().get(&stored.name).cloned();
            let known = known.filter(|known| known.value == stored.value);
            let kept = match known {
                Some(known) => known,
                None => {
                    // other work of this thread comes between
                    yield_now().await;
                    let scheduled = ScheduledRequests::read(&stored).map_err(|error| {
                        let name = &stored.name;
                        tracing::warn!(error, name, "a stored schedule cannot be read");
                    });
                    let (scheduled, is_of_program) = scheduled.ok().unzip();
                    let is_of_program = is_of_program.unwrap_or_default();
                    let scheduled = scheduled.map(Arc::new);
                    Arc::new(KeptSchedule { value: stored.value, scheduled, is_of_program })
                }
            };
            if !kept.is_of_program && !own.iter().any(|own| own.name() == stored.name) {
                all.extend(kept.scheduled.clone());
            }
            read.insert(stored.name, kept);
        }
        for own in own {
            let kept = read.get(own.name()).filter(|kept| kept.is_of_program);
            let kept = kept.and_then(|kept| kept.scheduled.as_ref());
            own.pause(kept.is_some_and(|kept| kept.is_paused()));
        }
        *self.0.lock() = read;
        all
    }
}
