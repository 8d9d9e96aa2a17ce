//! Checks whether open requests go on with a program, without carrying anything out.

use asyncsteps_journal::dump::Dump;
use asyncsteps_journal::request::Loaded;
use asyncsteps_journal::{Error, Path, Uid};

use crate::caller;
use crate::durable::Durable;
use crate::records::started;
use crate::replay::Replay;
use crate::writer::RecordTicket;

/// Whether a program goes on with a request that another one has begun, see
/// [`Durable::replay_check`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replayed {
    /// The request.
    pub uid: Uid,
    /// The name of its function in the journal.
    pub template: String,
    /// Why it would be paused, or found by no node: the records, and what the program has. `None` if it goes on.
    pub divergence: Option<String>,
}

impl Durable {
    /// The open requests of the journal, to be kept in a file for [`replay_check`](Self::replay_check).
    ///
    /// # Errors
    /// The errors of the journal.
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn dump(&self) -> Result<Dump, Error> {
        Dump::read(&*self.shared.journal).await
    }

    /// Reports for each request of a dump whether it goes on with the functions of this handle, before these are
    /// deployed. The journal of this handle is not asked; one in memory will do.
    ///
    /// The plan of each function is compared with all records of a request, as it is before the request goes on. No
    /// step runs; a [`dynamic`](asyncsteps_executor::plan::Step::dynamic) step is defined from the recorded value. The
    /// state of each [entity](crate::entity) is read.
    ///
    /// ```no_run
    /// # use asyncsteps_durable::{Durable, journal::{dump::Dump, memory::Memory}};
    /// # fn check(durable: Durable) -> Result<(), Box<dyn std::error::Error>> {
    /// let dump = Dump::from_bytes(&std::fs::read("requests.dump")?)?;
    /// for request in durable.replay_check(&dump) {
    ///     assert_eq!(request.divergence, None, "{}", request.uid);
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn replay_check(&self, dump: &Dump) -> Vec<Replayed> {
        let replayed = dump.flows().iter().map(|loaded| Replayed {
            uid: loaded.flow.uid,
            template: loaded.flow.template.clone(),
            divergence: self.compare(loaded).err(),
        });
        replayed.collect()
    }

    /// Compares a request with its program; fails with the reason why it does not go on.
    fn compare(&self, loaded: &Loaded) -> Result<(), String> {
        let template = &loaded.flow.template;
        if let Some(reads) = self.shared.reads(template) {
            return reads(loaded);
        }
        if self.shared.message_function(template).is_some() {
            return Ok(());
        }
        let program = self.shared.program(template);
        let program = program.ok_or_else(|| format!("there is no function {template}"))?;
        let version = loaded.flow.version;
        if program.version != version && !program.compatible.contains(&version) {
            let own = program.version;
            return Err(format!(
                "it has version {version}, and the program only goes on from {own}"
            ));
        }
        let started = started(loaded).ok_or("it has no beginning")?;
        let params = started.parameters.decode().map_err(|error| error.to_string())?;
        let caller = caller::read(started.user.as_deref())?;
        program.check(params, &caller, None).map_err(|error| error.to_string())?;
        let records = Replay::of(loaded, |_| RecordTicket::default());
        records.compare((&Path::template(template), started), &program.planned)
    }
}
