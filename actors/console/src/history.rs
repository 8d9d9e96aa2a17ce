//! The last five minutes of figures, so that curves do not begin when a page is opened.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use asyncsteps_actors::clock::Clock;
use asyncsteps_executor::observe::Figures;
use asyncsteps_executor::{Executor, RefusalReason};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::snapshot::{FunctionInterval, Interval, milliseconds, overall, rows, wall_millis};

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// How many samples are kept: five minutes, as the page shows them.
const KEPT: usize = 300;

/// The most functions of a sample, the busiest ones: about 10 KiB.
const FUNCTIONS: usize = 20;

/// The samples, each as it is sent.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<VecDeque<Bytes>>>);

/// What a curve needs of a second: parts of a [snapshot](crate::snapshot::PageSnapshot).
#[derive(Serialize)]
struct Sample {
    at: f64,
    interval: Option<Interval>,
    health: SampledHealth,
    functions: Vec<FunctionInterval>,
}

#[derive(Serialize)]
struct SampledHealth {
    in_flight: usize,
    queued: usize,
    arbiter_delays: Vec<f64>,
    refusals: BTreeMap<&'static str, u64>,
}

impl History {
    /// Takes a sample each second, until the history is dropped or the executor closes; none outside of a runtime.
    pub(crate) fn start(executor: &Executor) -> Self {
        let history = Self::default();
        if let Ok(runtime) = Handle::try_current() {
            let (samples, executor) = (Arc::downgrade(&history.0), executor.clone());
            runtime.spawn(async move {
                let closing = executor.closing();
                tokio::select! {
                    () = keep(samples, &executor) => {}
                    () = closing => {}
                }
            });
        }
        history
    }

    /// All samples, the oldest first, as an array of JSON.
    pub(crate) fn json(&self) -> Bytes {
        let samples = self.0.lock();
        let parts: Vec<&[u8]> = samples.iter().map(Bytes::as_ref).collect();
        [&b"["[..], &parts.join(&b','), b"]"].concat().into()
    }
}

async fn keep(samples: Weak<Mutex<VecDeque<Bytes>>>, executor: &Executor) {
    let mut before: Option<(Clock, Figures)> = None;
    loop {
        sleep(PERIOD).await;
        let delays = executor.arbiter_delays().await.into_iter().map(milliseconds).collect();
        let Some(samples) = samples.upgrade() else { return };
        let figures = executor.figures();
        let passed = before.as_ref().map(|(at, figures)| (at.elapsed(), figures));
        let mut functions: Vec<FunctionInterval> = rows(&figures, passed);
        functions.retain(|function| function.rate() > 0.0);
        functions.sort_by(|one, other| other.rate().total_cmp(&one.rate()));
        functions.truncate(FUNCTIONS);
        let refusals = executor.refusals().into_iter().filter(|(_, count)| *count > 0);
        let health = SampledHealth {
            in_flight: executor.in_flight_count(),
            queued: executor.usage().queued,
            arbiter_delays: delays,
            refusals: refusals
                .map(|(reason, count)| (RefusalReason::as_str(reason), count))
                .collect(),
        };
        let interval = passed.map(|(time, before)| overall(time, &figures, before));
        let sample = Sample { at: wall_millis(), interval, health, functions };
        before = Some((Clock::start(), figures));
        let mut samples = samples.lock();
        if samples.len() == KEPT {
            samples.pop_front();
        }
        // figures can always be written
        samples.push_back(serde_json::to_vec(&sample).unwrap_or_default().into());
    }
}
