//! The records that the host of a request keeps of its steps.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_actors::clock;
use asyncsteps_core::replay::ReplayHooks;
use asyncsteps_core::{BodyResult, Error, StepError};

use super::facts::StepView;
use super::place::StepId;
use crate::recorder::{
    Blocks, BodyEnd, LevelEnd, RecordedStep, RequestRecorder, Run, Running, StepRecorder, Sublevel,
};
use crate::stored::Codec;

/// The host of a request.
pub(super) struct Host {
    pub(super) request: Rc<dyn RequestRecorder>,
    /// The function as a whole.
    pub(super) function: Rc<dyn StepRecorder>,
}

/// The steps of a function, or of an attempt of a step with sub-steps, or of an iteration or an item in it.
pub(super) struct RecordedLevel {
    /// The step around them.
    pub(super) around: Rc<dyn StepRecorder>,
    pub(super) at: Sublevel,
    steps: Vec<RecordedStep>,
    /// The step that was found last: the next one is mostly behind it.
    found: Cell<usize>,
}

impl RecordedLevel {
    /// The steps of these ways inside of the one `around`, of which the first `begins`, or which are only to be undone.
    pub(super) fn new(
        around: &Rc<dyn StepRecorder>,
        at: Sublevel,
        ways: &[Vec<StepView>],
        begins: bool,
    ) -> Result<Rc<Self>, Error> {
        let (around, steps) = (Rc::clone(around), around.steps(&at, ways, begins)?);
        Ok(Rc::new(Self { around, at, steps, found: Cell::new(0) }))
    }

    pub(super) fn find(&self, id: &Arc<StepId>) -> Option<&RecordedStep> {
        let (before, behind) = self.steps.split_at(self.found.get());
        let mut steps = behind.iter().chain(before);
        let at = steps.position(|step| Arc::ptr_eq(&step.view.step.id, id))?;
        let at = (self.found.get() + at) % self.steps.len();
        self.found.set(at);
        self.steps.get(at)
    }

    /// The replay hooks of steps that the executor adds around some of these.
    pub(super) fn inside(&self) -> Rc<dyn ReplayHooks> {
        self.around.inside(&self.at)
    }

    /// The steps ended normally, which may be final.
    pub(super) fn ended(&self, is_final: bool) -> Result<(), Error> {
        self.around.ended(&self.at, LevelEnd::All { is_final })
    }
}

impl Sublevel {
    /// An attempt of a step as a whole.
    pub(super) fn of(attempt: u32) -> Self {
        Self { attempt, part: None }
    }
}

impl dyn StepRecorder {
    /// The replay hooks of steps that the executor adds inside of an attempt of the step.
    pub(super) fn inside_attempt(&self, attempt: u32) -> Rc<dyn ReplayHooks> {
        self.inside(&Sublevel::of(attempt))
    }

    /// Makes the host store how many items an attempt of it has, which are known by their numbers.
    pub(super) fn numbers(&self, attempt: u32, count: usize) -> Result<(), Error> {
        let numbers = (0..count).map(|number| number.to_string()).collect();
        self.keys(attempt, numbers).map(drop)
    }

    /// Runs an attempt of the body, which the host has let begin, and makes the host store its result.
    pub(super) async fn run<T>(
        &self,
        (attempt, running): (u32, &Running),
        codec: Option<Codec<T>>,
        body: impl Future<Output = BodyResult<T>>,
    ) -> BodyResult<T> {
        let result = running.watch(body).await?;
        if let Some(codec) = codec {
            // an effect without a storable result was done all the same
            let stored = (codec.write)(&result).map_err(Error::outcome_unknown)?;
            self.ends(attempt, BodyEnd::Done(stored)).await?;
        }
        Ok(result)
    }

    /// Runs the undo, if the host lets it run.
    pub(super) async fn undo(
        &self,
        undo: impl Future<Output = Result<(), StepError>>,
    ) -> Result<(), StepError> {
        let running = self.begin(Run::Undo).await?;
        let undone = running.watch(undo).await.map_err(StepError::into_error);
        self.undone(undone.as_ref().copied()).await?;
        Ok(undone?)
    }
}

impl Running {
    /// Runs the body, and counts how often it runs for long without a pause.
    async fn watch<R>(&self, body: impl Future<Output = R>) -> R {
        let mut body = pin!(body);
        poll_fn(|cx| {
            let begun = clock::now();
            let polled = body.as_mut().poll(cx);
            let Blocks { least, count } = &*self.blocks;
            count.set(count.get() + u32::from(clock::now().saturating_since(begun) >= *least));
            polled
        })
        .await
    }
}
