//! Steps of a request whose host [remembers](crate::recorder) them.

use std::any::Any;
use std::cell::OnceCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use asyncsteps_actors::clock;
use asyncsteps_core::{BodyResult, Error};

use super::key::Item;
use crate::recorder::{Codec, DefinedStep, StepRecorder};

/// A step that gives `T`, and what its host remembers of it.
pub(super) struct Remembered<T> {
    pub(super) step: Rc<DefinedStep>,
    pub(super) memory: Rc<dyn StepRecorder>,
    pub(super) codec: OnceCell<Codec<T>>,
    /// Those of several things that it does, which give an `R` each: an `Rc<RememberedItems<R>>`.
    pub(super) items: OnceCell<Box<dyn Any>>,
}

/// What a host remembers of several things that a body does; shared with the body, which runs later.
pub(super) struct RememberedItems<R> {
    codec: OnceCell<Codec<R>>,
    memory: OnceCell<Rc<dyn StepRecorder>>,
}

impl<R> RememberedItems<R> {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self { codec: OnceCell::new(), memory: OnceCell::new() })
    }

    /// They are those of this step.
    pub(super) fn belong_to(&self, memory: &Rc<dyn StepRecorder>) {
        let _ = self.memory.set(Rc::clone(memory));
    }

    /// Their results are stored like this.
    pub(super) fn stored_as(&self, codec: Codec<R>) {
        let _ = self.codec.set(codec);
    }

    /// They have these keys; gives those in the order of an earlier run.
    pub(super) fn keys(&self, keys: Vec<String>) -> Result<Vec<String>, Error> {
        match (self.codec.get(), self.memory.get()) {
            (Some(_), Some(memory)) => memory.keys(1, keys),
            _ => Ok(keys),
        }
    }

    /// The first of so many that ended well in an earlier run.
    pub(super) fn first_stored(&self, count: usize) -> Result<Option<R>, Error> {
        let Some((codec, memory)) = self.codec.get().zip(self.memory.get()) else {
            return Ok(None);
        };
        let mut items = (0..count).map(|number| memory.item(&Item::Nth(number).text()));
        let stored = items.find_map(|item| item.stored());
        stored.map(|stored| (codec.read)(&stored)).transpose()
    }

    /// Does one of them, unless it was done in an earlier run.
    pub(super) async fn run(
        &self,
        item: &Item,
        attempt: u32,
        body: impl Future<Output = BodyResult<R>>,
    ) -> BodyResult<R> {
        let Some((codec, memory)) = self.codec.get().zip(self.memory.get()) else {
            return body.await;
        };
        let memory = memory.item(&item.text());
        if let Some(stored) = memory.stored() {
            return Ok((codec.read)(&stored)?);
        }
        let _running = memory.begin(attempt).await?;
        let result = body.await?;
        store(&*memory, codec, attempt, &result).await?;
        Ok(result)
    }
}

/// What a host remembers of the things that a step does.
pub(super) trait KeptParts: 'static {
    /// They are those of this step.
    fn belong_to(&self, memory: &Rc<dyn StepRecorder>);
}

/// What a host remembers of one of them.
pub(super) type Kept<R> = Rc<RememberedItems<R>>;

impl<A: 'static, B: 'static> KeptParts for (Kept<A>, Kept<B>) {
    fn belong_to(&self, memory: &Rc<dyn StepRecorder>) {
        self.0.belong_to(memory);
        self.1.belong_to(memory);
    }
}

impl<A: 'static, B: 'static, C: 'static> KeptParts for (Kept<A>, Kept<B>, Kept<C>) {
    fn belong_to(&self, memory: &Rc<dyn StepRecorder>) {
        self.0.belong_to(memory);
        self.1.belong_to(memory);
        self.2.belong_to(memory);
    }
}

impl<T> Remembered<T> {
    pub(super) fn new(step: Rc<DefinedStep>, memory: Rc<dyn StepRecorder>) -> Rc<Self> {
        Rc::new(Self { step, memory, codec: OnceCell::new(), items: OnceCell::new() })
    }

    /// Runs the body, and notifies the host how long it runs without a pause.
    pub(super) async fn watched<R>(&self, body: impl Future<Output = R>) -> R {
        let mut body = pin!(body);
        poll_fn(|cx| {
            let begun = clock::now();
            let polled = body.as_mut().poll(cx);
            self.memory.ran(clock::now().saturating_since(begun));
            polled
        })
        .await
    }

    /// An attempt of the body gave this result.
    pub(super) async fn done(&self, attempt: u32, result: &T) -> BodyResult<()> {
        if let Some(codec) = self.codec.get() {
            store(&*self.memory, codec, attempt, result).await?;
        }
        Ok(())
    }
}

/// Has the host store the result of an attempt. What cannot be stored was done all the same.
async fn store<T>(
    memory: &dyn StepRecorder,
    codec: &Codec<T>,
    attempt: u32,
    result: &T,
) -> Result<(), Error> {
    let stored = (codec.write)(result).map_err(Error::outcome_unknown)?;
    memory.done(attempt, stored).await
}
