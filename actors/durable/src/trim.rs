//! Nodes forget requests that ended long ago.

use std::future::pending;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_journal::limits::BATCH;

use crate::shared::DurableShared;

/// How often such requests are looked for.
const ROUND: Duration = Duration::from_secs(60);

/// Trims as long as it is polled, if the program says how long requests are remembered.
pub(crate) async fn trim(shared: &DurableShared) {
    let Some(age) = shared.settings.lock().remembers else { return pending().await };
    loop {
        match shared.journal.trim(age).await {
            // more are left
            Ok(BATCH) => continue,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the journal keeps requests that ended long ago");
            }
        }
        timer::sleep_until(clock::now() + ROUND).await;
    }
}
