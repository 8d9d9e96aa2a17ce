//! How long the caller of a function waits, and its answer then.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{Added, AsyncSteps, Error, StepError, StepResult, Time};

use super::service::{Service, coded};

/// The name of the step that limits the wait of the caller.
const ANSWER: &str = "answer within";

/// How long the caller of a function waits, and the error that it gets then; see
/// [`Steps::answer_within`](super::Steps::answer_within).
#[derive(Clone, derive_more::Debug)]
pub struct AnswerWithin {
    pub(super) limit: Duration,
    #[debug(skip)]
    error: Arc<dyn Fn() -> Error + Send + Sync>,
}

impl AnswerWithin {
    pub(crate) fn new<S, E>(limit: Duration, error: impl Fn() -> E + Send + Sync + 'static) -> Self
    where
        S: Service,
        E: Into<StepError>,
    {
        Self { limit, error: Arc::new(move || coded::<S>(error().into()).into_error()) }
    }

    /// When the wait of a caller ends whose request arrived at this time.
    #[must_use]
    pub fn end(&self, arrived: Time) -> Time {
        arrived + self.limit
    }

    /// The error that the caller gets then, with its code for the service.
    #[must_use]
    pub fn error(&self) -> Error {
        (self.error)()
    }

    /// Adds the steps of the function within the limit of a request that arrived at this time. If that has passed,
    /// none of them begins.
    pub(crate) fn add(
        self,
        asi: &mut AsyncSteps,
        (arrived, source): (Time, &'static Location<'static>),
        steps: impl FnOnce(&mut AsyncSteps) -> StepResult + 'static,
    ) -> StepResult {
        let left = self.end(arrived).saturating_since(asi.now());
        if left.is_zero() {
            return Err(self.error().into());
        }
        let mut whole: Added<'_> = asi.add(move |asi, ()| steps(asi)).untyped();
        whole.named(ANSWER).located_at(source).ends_flow_after(left).on_error(move |asi, _| {
            if asi.is_ended_by_limit() { Err(self.error().into()) } else { Ok(()) }
        });
        Ok(())
    }
}
