//! How steps are made before they are added: alike for levels and for parallel branches.

use std::error::Error as StdError;
use std::panic::Location;

use super::AsyncSteps;
use super::branches::Parallel;
use super::level::{Awaited, Branches, Entry, Kind, Special, Unstarted};
use super::loops::Loop;
use crate::args::{Args, Arguments};
use crate::codes;
use crate::error::{Error, StepResult};
use crate::sync::{ISync, Synced};

type At = &'static Location<'static>;

impl Entry {
    pub(super) fn step<F>(body: F, location: At) -> Self
    where
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        Self::Step { body: Box::new(body), handler: None, location }
    }

    pub(super) fn parallel(define: impl FnOnce(&mut Parallel), location: At) -> Self {
        let mut parallel = Parallel { entries: Vec::new() };
        define(&mut parallel);
        let branches = Unstarted::Own(parallel.entries.into_iter());
        Self::Special(Special::Parallel(Box::new(Branches::new(branches, location))))
    }

    pub(super) fn sync<O, F>(object: &O, body: F, location: At) -> Self
    where
        O: ISync + Clone + 'static,
        F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
    {
        let step = Synced { object: object.clone(), body, handler: None, location };
        Self::Special(Special::Sync(Box::new(step)))
    }

    pub(super) fn await_<T, E, Fut>(future: Fut, location: At) -> Self
    where
        T: Arguments,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
        Fut: Future<Output = Result<T, E>> + 'static,
    {
        let body = move |asi: &mut AsyncSteps, _| {
            let (key, _) = asi.wait_key(0);
            let waker = super::drive::future_waker(asi.inbox(), key);
            let future = Box::pin(async move {
                future.await.map(Arguments::into_args).map_err(|error| {
                    match error.into().downcast::<Error>() {
                        Ok(error) => *error,
                        Err(error) => Error::caused_by(codes::INTERNAL_ERROR, error),
                    }
                })
            });
            asi.become_kind(Kind::Await(Box::new(Awaited { future, waker })));
            Ok(())
        };
        Self::step(body, location)
    }

    pub(super) fn looped<I, F>(items: I, body: F, location: At) -> Self
    where
        I: Iterator + 'static,
        F: FnMut(&mut AsyncSteps, I::Item) -> StepResult + 'static,
    {
        let body = Box::new(Loop { items, body, label: None });
        Self::Special(Special::Loop { body, location })
    }
}
