//! Who may send a signal to a job.

use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_executor::Cx;
use asyncsteps_executor::plan::SenderOf;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_journal::record::Started;
use asyncsteps_journal::request::Loaded;
use asyncsteps_journal::{self as journal, Refused, Uid, Value};

use super::service::{Jobs, JobsError, job_error, sees_all};
use crate::stored::stored;
use crate::{caller, records};

impl Jobs {
    /// The job of this name, if the caller may send it a signal of this name and its steps can read the value.
    pub(super) async fn signalled<P>(
        cx: &Cx<Self, P>,
        (uid, name): (&str, &str),
        value: &Value,
    ) -> BodyResult<Uid> {
        let unknown = || JobsError::UnknownJob(uid.to_owned());
        let job: Uid = uid.parse().map_err(|_| unknown())?;
        let loaded = match cx.durable.shared.journal.load(job).await {
            Err(journal::Error::Refused(Refused::NoFlow(_))) => return Err(unknown().into()),
            loaded => loaded.map_err(|error| job_error(cx, error))?,
        };
        let started = records::started(&loaded).ok_or_else(unknown)?;
        let caller = cx.request().caller();
        let is_own = caller::is_same(started.user.as_deref(), caller::write(&caller).as_deref());
        if may_send(cx, (&loaded, started), name, &SenderOf { caller, is_own })? {
            let program = cx.durable.shared.program(&loaded.flow.template);
            if program.is_none_or(|it| it.planned.reads_signal(name, &stored(value))) {
                return Ok(job);
            }
            let info = format!("`value` is not of the type of the signal `{name}`");
            return Err(Error::with_info(codes::INVALID_REQUEST, info).into());
        }
        if !is_own && !sees_all(cx) {
            return Err(unknown().into());
        }
        let info = "no step of the job takes this signal from this caller";
        Err(Error::with_info(codes::SECURITY_ERROR, info).into())
    }
}

/// Whether the steps of a job take a signal of this name from this caller. It is not known where the process that is
/// asked does not have the function; then they do not.
fn may_send<P>(
    cx: &Cx<Jobs, P>,
    (loaded, started): (&Loaded, &Started),
    name: &str,
    sender: &SenderOf,
) -> BodyResult<bool> {
    if cx.request().level() == SecurityLevel::System {
        return Ok(true);
    }
    let Some(program) = cx.durable.shared.program(&loaded.flow.template) else { return Ok(false) };
    Ok(program.planned.may_send(name, sender, started.parameters.decode()?)?)
}
