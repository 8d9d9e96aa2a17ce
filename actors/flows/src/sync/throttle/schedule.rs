//! The open periods of a throttle, over all keys.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use actix::Message;
use asyncsteps_core::Time;

/// Notifies the actor that the first period of the schedule was opened.
pub(super) struct PeriodOpened;

impl Message for PeriodOpened {
    type Result = ();
}

/// The open periods, by their end.
pub(super) struct PeriodSchedule<K> {
    /// The number distinguishes periods that end together.
    ends: BTreeMap<(Time, u64), Arc<K>>,
    count: u64,
    /// Whether the actor is going to look again.
    told: bool,
}

impl<K> Default for PeriodSchedule<K> {
    fn default() -> Self {
        Self { ends: BTreeMap::new(), count: 0, told: false }
    }
}

impl<K> PeriodSchedule<K> {
    pub(super) fn add(&mut self, end: Time, key: Arc<K>) {
        self.count += 1;
        self.ends.insert((end, self.count), key);
    }

    /// Notes that the actor is about to be notified; returns whether it was before.
    pub(super) fn tell(&mut self) -> bool {
        mem::replace(&mut self.told, true)
    }

    /// Takes the keys whose periods have expired.
    pub(super) fn take_over(&mut self, now: Time) -> Vec<Arc<K>> {
        let open = self.ends.split_off(&(now, u64::MAX));
        mem::replace(&mut self.ends, open).into_values().collect()
    }

    /// When the next period ends; with none the actor has to be notified of the next one.
    pub(super) fn next_end(&mut self) -> Option<Time> {
        let end = self.ends.first_key_value().map(|((end, _), _)| *end);
        self.told = end.is_some();
        end
    }
}
