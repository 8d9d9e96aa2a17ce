//! The records that the host of a request keeps of its steps.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_core::replay::{NotUndone, ReplayHooks};
use asyncsteps_core::{BodyResult, Error, StepError};

use super::place::{Inside, StepId};
use crate::recorder::{DefinedStep, Part, RequestRecorder, StepRecorder};
use crate::stored::Codec;

/// The host of a request.
pub(super) struct Host {
    pub(super) request: Rc<dyn RequestRecorder>,
    /// The function as a whole.
    pub(super) function: Rc<dyn StepRecorder>,
    /// The steps of the function.
    pub(super) level: OnceCell<Rc<RecordedLevel>>,
}

/// A step of a request that a host records.
pub(super) struct RecordedStep {
    pub(super) id: Arc<StepId>,
    pub(super) step: Rc<DefinedStep>,
    pub(super) memory: Rc<dyn StepRecorder>,
}

/// The steps of a function, or of an attempt of a step with sub-steps, or of an iteration or an item in it.
pub(super) struct RecordedLevel {
    /// The step around them.
    pub(super) around: Rc<dyn StepRecorder>,
    pub(super) attempt: u32,
    pub(super) path: Vec<Part>,
    pub(super) steps: Vec<Rc<RecordedStep>>,
    /// The step that was found last: the next one is mostly behind it.
    pub(super) found: Cell<usize>,
}

impl RecordedLevel {
    pub(super) fn find(&self, id: &Arc<StepId>) -> Option<Rc<RecordedStep>> {
        let (before, behind) = self.steps.split_at(self.found.get());
        let mut steps = behind.iter().chain(before);
        let at = steps.position(|step| Arc::ptr_eq(&step.id, id))?;
        let at = (self.found.get() + at) % self.steps.len();
        self.found.set(at);
        self.steps.get(at).cloned()
    }

    /// The replay hooks of steps that the executor adds around some of these.
    pub(super) fn inside(&self) -> Rc<dyn ReplayHooks> {
        self.around.inside(self.attempt, &self.path)
    }

    /// Notifies the host of the steps, before the first of them starts.
    pub(super) fn begin(&self) -> Result<(), Error> {
        let steps: Vec<_> = self.steps.iter().map(|step| Rc::clone(&step.step)).collect();
        self.around.defined(self.attempt, &self.path, &steps)
    }

    /// The steps ended normally, which may be final.
    pub(super) fn ended(&self, is_final: bool) {
        self.around.ended(&self.path, is_final);
    }
}

impl RecordedStep {
    /// Its name and its number, as the host knows it.
    pub(super) fn name(&self) -> (&'static str, usize) {
        self.step.known_as().unwrap_or_else(|| self.id.numbered())
    }

    /// The path of the steps inside of an attempt of it.
    pub(super) fn path_of(&self, attempt: u32, inside: Option<&Inside>) -> Vec<Part> {
        let mut path: Vec<_> = self.step.parts().collect();
        path.extend((attempt > 1).then_some(Part::Attempt(attempt)));
        path.extend(inside.map(|inside| match inside {
            Inside::Iteration(index) => Part::Iteration(*index),
            Inside::Item(number, None) => Part::Item(number.to_string().into()),
            Inside::Item(_, Some(key)) => Part::Item(Rc::clone(key)),
        }));
        path
    }

    /// The replay hooks of steps that the executor adds inside of an attempt of it.
    pub(super) fn inside(&self, attempt: u32) -> Rc<dyn ReplayHooks> {
        self.memory.inside(attempt, &self.path_of(attempt, None))
    }

    /// Makes the host store how many items an attempt of it has, which are known by their numbers.
    pub(super) fn numbers(&self, attempt: u32, count: usize) -> Result<(), Error> {
        let numbers = (0..count).map(|number| number.to_string()).collect();
        self.memory.keys(attempt, numbers).map(drop)
    }

    /// Runs an attempt of the body, which the host has let begin, and makes the host store its result.
    pub(super) async fn run<T>(
        &self,
        attempt: u32,
        codec: Option<Codec<T>>,
        body: impl Future<Output = BodyResult<T>>,
    ) -> BodyResult<T> {
        let result = self.watched(body).await?;
        if let Some(codec) = codec {
            // an effect without a storable result was done all the same
            let stored = (codec.write)(&result).map_err(Error::outcome_unknown)?;
            self.memory.done(attempt, stored).await?;
        }
        Ok(result)
    }

    /// Runs the body, and notifies the host how long it runs without a pause.
    async fn watched<R>(&self, body: impl Future<Output = R>) -> R {
        let mut body = pin!(body);
        poll_fn(|cx| {
            let begun = clock::now();
            let polled = body.as_mut().poll(cx);
            self.memory.ran(clock::now().saturating_since(begun));
            polled
        })
        .await
    }

    /// Runs the undo, if the host lets it run.
    pub(super) async fn undo(
        &self,
        undo: impl Future<Output = Result<(), StepError>>,
    ) -> Result<(), StepError> {
        let running = self.memory.begin_undo().await;
        if running.is_none() {
            return Err(NotUndone.into());
        }
        match self.watched(undo).await {
            Ok(()) => self.memory.undone().await,
            Err(error) => {
                let error = error.into_error();
                self.memory.undo_failed(&error);
                return Err(error.into());
            }
        }
        Ok(())
    }
}
