//! How a node uses the cluster's database.

use std::time::Duration;

use crate::error::Error;

/// The shortest lease: below it, the pauses of a busy machine would end leases.
const SHORTEST: Duration = Duration::from_millis(100);

/// The longest lease: locks of a node that was killed are held for so long.
const LONGEST: Duration = Duration::from_secs(3600);

/// How a node uses the cluster's database. All nodes of a cluster have the same schema; the other
/// settings may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The schema with the tables of the cluster, `asyncsteps_cluster` by default: up to 40 lower-case
    /// letters, digits and `_`. Several clusters in one database have different ones.
    pub schema: String,
    /// How long locks of this node are held after its last sign of life: 10 s by default, from 100 ms to
    /// an hour. It is renewed each third of it, so that one renewal may be lost. Longer, and others wait
    /// longer for the locks of a node that was killed; shorter, and a slow network costs sections.
    pub lease: Duration,
    /// How often a node that waits for a lock asks for it: 1 s by default, at least 10 ms. It is notified when a lock
    /// is released, so this bounds its wait where that message is lost.
    pub poll: Duration,
}

impl Default for Config {
    /// The schema `asyncsteps_cluster`, a lease of 10 s, and a poll each second.
    fn default() -> Self {
        let (lease, poll) = (Duration::from_secs(10), Duration::from_secs(1));
        Self { schema: "asyncsteps_cluster".to_owned(), lease, poll }
    }
}

impl Config {
    /// Checks settings that come from outside.
    ///
    /// # Errors
    /// [`Error::Config`], which names the setting.
    pub fn check(&self) -> Result<(), Error> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_schema = (1..=40).contains(&self.schema.len())
            && self.schema.bytes().all(is_name)
            && !self.schema.as_bytes()[0].is_ascii_digit();
        if !is_schema {
            return Err(Error::Config(format!(
                "the schema {:?} is not made of 1 to 40 lower-case letters, digits and `_`, with no \
                 digit first",
                self.schema
            )));
        }
        if !(SHORTEST..=LONGEST).contains(&self.lease) {
            return Err(Error::Config(format!(
                "the lease of {:?} is not between {SHORTEST:?} and {LONGEST:?}",
                self.lease
            )));
        }
        if self.poll < Duration::from_millis(10) {
            return Err(Error::Config(format!("the poll of {:?} is below 10 ms", self.poll)));
        }
        Ok(())
    }
}
