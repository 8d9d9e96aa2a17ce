//! The function of `asyncsteps.jobs:1.0` that removes what is recorded about people.

use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_executor::Cx;
use asyncsteps_journal::Uid;

use super::allowed::JobsFunction;
use super::params::Erasure;
use super::service::{Jobs, limit};
use super::types::JobsErased;
use crate::erase::{Erase, Erased};

impl Jobs {
    pub(super) async fn erase(cx: &Cx<Self, Erasure>) -> BodyResult<JobsErased> {
        cx.check(JobsFunction::Erase)?;
        let whose = match (cx.params.user.clone(), cx.params.key.clone()) {
            (Some(user), None) => Erase::User(user),
            (None, Some(key)) => Erase::Key(key),
            (Some(_), Some(_)) | (None, None) => {
                let info = "either a `user` or a `key` is erased";
                return Err(Error::with_info(codes::INVALID_REQUEST, info).into());
            }
        };
        let Erased { removed, schedules, unread, open, named } = cx.durable.erase(whose).await?;
        let uids = named.iter().take(limit(None)).map(Uid::to_string).collect();
        Ok(JobsErased { removed, schedules, unread, open, uids })
    }
}
