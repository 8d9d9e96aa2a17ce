//! Processes look after each other's payments: one that died cannot pay back what its orders owe.
//!
//! Each process counts its signs of life in the database. A process whose count stops is dead for
//! the others, and its open payments are abandoned and paid back. No clocks are compared, only
//! rounds of one's own. A process that was only slow loses nothing: the order of an abandoned
//! payment is refused, and the bank refuses calls that come after their refund.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::sleep;

use crate::payments::Payments;
use crate::store::StoreError;

/// How often a process reports that it lives and looks after the others.
const ROUND: Duration = Duration::from_secs(10);

/// A process that is silent for this number of rounds is dead: more than a disk or a busy machine
/// makes it wait.
const SILENT_ROUNDS: u32 = 3;

/// The processes as they were in the last round.
#[derive(Default)]
struct OtherProcesses(HashMap<String, SeenProcess>);

#[derive(Clone, Copy)]
struct SeenProcess {
    beats: i64,
    /// For how many rounds the count has not changed.
    silent: u32,
}

impl Payments {
    /// Reports to the other processes on the database that this one lives, and pays back what is owed, also by ended
    /// processes: at once, and then every ten seconds, without an end. A process that was killed counts as ended after
    /// half a minute.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest to the other processes, and to the next one.
    pub async fn look_after_payments(self) {
        let mut others = OtherProcesses::default();
        loop {
            match self.round(&mut others).await {
                Ok(0) => {}
                Ok(payments) => tracing::info!(payments, "paid back what was owed"),
                Err(error) => tracing::error!(%error, "what is owed is not known"),
            }
            sleep(ROUND).await;
        }
    }

    /// Reports to the other processes that this one has ended, so that they need not wait until it is
    /// silent.
    ///
    /// # Errors
    /// [`StoreError`] if the database fails; then they wait.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.store.instances_ended(vec![self.instance.to_string()]).await
    }

    /// Returns how many payments were paid back.
    async fn round(&self, others: &mut OtherProcesses) -> Result<usize, StoreError> {
        let beats = self.store.instance_lives(&self.instance).await?;
        let dead = others.dead(beats);
        if !dead.is_empty() {
            tracing::warn!(?dead, "processes have died");
            self.store.instances_ended(dead).await?;
        }
        let mut paid_back = 0;
        for key in self.store.owed_payments().await? {
            // one that fails keeps no other from being paid back
            match self.pay_back(&key).await {
                Ok(()) => paid_back += 1,
                Err(error) => tracing::error!(%error, key, "a payment was not paid back"),
            }
        }
        Ok(paid_back)
    }
}

impl OtherProcesses {
    /// Notes how often each process has reported that it lives; returns the dead ones.
    fn dead(&mut self, beats: HashMap<String, i64>) -> Vec<String> {
        let seen = |(name, beats): (String, i64)| {
            let silent = match self.0.get(&name) {
                Some(before) if before.beats == beats => before.silent + 1,
                _ => 0,
            };
            (name, SeenProcess { beats, silent })
        };
        self.0 = beats.into_iter().map(seen).collect();
        let is_dead = |(name, seen): (&String, &SeenProcess)| {
            (seen.silent >= SILENT_ROUNDS).then(|| name.clone())
        };
        self.0.iter().filter_map(is_dead).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_when_its_count_stands_still() {
        let mut others = OtherProcesses::default();
        let mut round = |beats: &[(&str, i64)]| {
            others.dead(beats.iter().map(|(name, beats)| ((*name).to_owned(), *beats)).collect())
        };
        for beat in 0..10 {
            assert!(round(&[("me", beat), ("slow", beat / 3)]).is_empty());
        }
        for beat in 10..12 {
            assert!(round(&[("me", beat), ("slow", 3)]).is_empty());
        }
        assert_eq!(round(&[("me", 12), ("slow", 3)]), ["slow"]);
        assert!(round(&[("me", 13)]).is_empty(), "it is forgotten");
        assert!(round(&[("me", 14), ("slow", 3)]).is_empty(), "and new when it comes back");
    }
}
