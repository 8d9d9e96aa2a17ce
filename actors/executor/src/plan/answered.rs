//! A step that answers the callers of its function, which goes on.

use std::marker::PhantomData;

use asyncsteps_core::{Args, AsyncSteps};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::facts::Facts;
use super::form::Form;
use super::service::Service;
use super::step::{EndsAs, OrEnd, Step, pass};

/// The name of the step.
const ANSWERS: &str = "answers";

/// A step before [answers](Step::answers) the callers of the function with `R`: that is its result.
#[derive(derive_more::Debug)]
#[debug("Answers")]
pub struct Answers<R>(PhantomData<fn() -> R>);

#[diagnostic::do_not_recommend]
impl<T, R: 'static> EndsAs<T> for Answers<R> {
    type Result = R;
}

#[diagnostic::do_not_recommend]
impl<B, R> OrEnd<B> for Answers<R> {
    type Ends = Self;
}

impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
{
    /// Answers the callers of the function with the result of the steps up to here, and goes on.
    ///
    /// In a [durable](crate::recorder) request that is a step of its own with the name `answers`: once it is recorded,
    /// callers wait no longer, each later call with the same key gets the same answer, and no limit of a caller
    /// ([`answer_within`](super::Steps::answer_within)) ends the request. What follows runs as it does without a caller: if
    /// it fails, everything is undone, also what was answered, and the [status](crate::recorder) of the request says so.
    /// The answer is the result of the function, whatever the last step returns. A client that is to follow the request
    /// gets [its id](super::Cx::id) in it. In other requests the callers get the answer when the steps have ended.
    ///
    /// It is for the steps of the function itself, once, and not for a part of it.
    #[track_caller]
    pub fn answers(self) -> Step<S, P, I, T, T, Answers<T>>
    where
        T: Clone + Serialize + DeserializeOwned,
        E: OrEnd<T>,
    {
        let mut answers = self.then(ANSWERS, async |_, answer: T| Ok(answer)).recorded();
        answers.last.facts.answers = true;
        pass(answers.into_chain().goes_on_in::<T, T, _>(
            Facts::new::<S, T, T>(Form::Group),
            |rest| {
                move |asi: &mut AsyncSteps, cx: Context, answer: T, _: &_| {
                    rest.go_on(asi, &cx, answer.clone())?;
                    asi.add_inner(move |asi, _: Args| asi.success((answer,)));
                    Ok(())
                }
            },
        ))
    }
}
