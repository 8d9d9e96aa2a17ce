//! The function `submit` of `asyncsteps.jobs:1.0`.

use std::time::Duration;

use asyncsteps_core::{BodyResult, Error, codes};
use asyncsteps_executor::{Cx, KeyPolicy, checked_key};
use asyncsteps_journal::Uid;

use super::allowed::JobsFunction;
use super::params::{KeyedJob, Submission, time};
use super::service::{Jobs, JobsError};
use crate::left::wall;
use crate::submit::{NotSubmitted, Options, error_of_submit};

/// How far ahead a job may start: a later one is rather a time in another unit.
const LATEST_START: Duration = Duration::from_secs(366 * 24 * 3_600);

impl Jobs {
    pub(super) async fn submit(cx: &Cx<Self, Submission>) -> BodyResult<KeyedJob> {
        cx.check(JobsFunction::Submit)?;
        let Submission { function, params, key, policy, tags, start, deadline } = &*cx.params;
        let request = cx.request();
        let options = Options::default().caller(request.caller()).counted_from(request.channel());
        let options = options.tags(tags.iter().flatten());
        let key = match (key.as_deref(), request.received()?.idempotency_key()?) {
            (Some(_), Some(_)) => {
                let info =
                    "the job has a `key` and a header Idempotency-Key: one of them is enough";
                return Err(Error::with_info(codes::INVALID_REQUEST, info).into());
            }
            (Some(key), None) => Some((checked_key(key)?, KeyPolicy::default())),
            (None, header) => header,
        };
        let own = Uid::random()?;
        let options = key.into_iter().fold(options.uid(own), |options, (key, of_header)| {
            options.key(key).key_policy(policy.unwrap_or(of_header))
        });
        if start.is_some_and(|at| time(at) > wall().after(LATEST_START)) {
            let info = "`start` is more than 366 days ahead";
            return Err(Error::with_info(codes::INVALID_REQUEST, info).into());
        }
        let options = start.iter().fold(options, |options, at| options.start(time(*at)));
        let options = deadline.iter().fold(options, |options, at| options.deadline(time(*at)));
        match cx.durable.submit(function, params, options).await {
            Ok(uid) => {
                let (earlier, mut outcome) = (uid != own, None);
                if earlier {
                    outcome = cx.durable.shared.journal.status(uid).await?.flow.outcome;
                }
                let (uid, outcome) = (uid.to_string(), outcome.unwrap_or_default());
                Ok(KeyedJob { uid, earlier, outcome })
            }
            Err(error @ NotSubmitted::KeyTaken { .. }) => {
                Err(JobsError::KeyTaken(error.to_string()).into())
            }
            Err(NotSubmitted::NoFunction(name)) => Err(JobsError::NotDurable(name).into()),
            Err(error) => Err(error_of_submit(&error).into()),
        }
    }
}
