//! What is said behind the steps of durable functions.

use std::time::Duration;

use asyncsteps_core::{Arguments, Error, codes};
use asyncsteps_executor::recorder::{Codec, Kind, WaitFor};
use asyncsteps_executor::service::{Body, Items, Leaf, Loop, Parts};
use asyncsteps_executor::{Service, Step, Steps};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a crash does to the body of a step. Each body in a durable function says one of these; in other
/// functions they do nothing.
#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
#[diagnostic::on_unimplemented(
    message = "the result of this step cannot be recorded",
    note = "a result that survives a crash derives `serde::Serialize` and `serde::Deserialize`"
)]
pub trait Recorded<T>: Sized {
    /// The result is recorded: after a crash the step gives it again without running. If the crash came
    /// before the record, the body runs again, with the same [key](asyncsteps_executor::Cx::key): at least
    /// once.
    fn recorded(self) -> Self;

    /// The same at most once: if it began and it is not known how it ended, the step fails with
    /// `OutcomeUnknown`, and is undone as [`Undo::Unknown`](asyncsteps_core::Undo::Unknown).
    ///
    /// A process that stands still for longer than its lease may go on with the body when another one has
    /// the request. So at most once holds where the other side refuses what is out of date.
    fn once(self) -> Self;
}

impl<S, P, A, T> Recorded<T> for Step<'_, S, P, A, T, Body>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: Serialize + DeserializeOwned + 'static,
{
    fn recorded(self) -> Self {
        self.remembered(Kind::Recorded, Some(Codec::of_results()))
    }

    fn once(self) -> Self {
        self.remembered(Kind::Once, Some(Codec::of_results()))
    }
}

/// Each of the results is recorded, so what is done is not done again. Items of
/// [`each`](asyncsteps_executor::Steps::each) are told apart by their position, which has to be the same
/// whenever the request goes on; those of [`each_by`](asyncsteps_executor::Steps::each_by) by their keys,
/// which are recorded when the step begins: if there are others when it goes on, the request is paused.
impl<S, P, A, R> Recorded<Vec<R>> for Step<'_, S, P, A, Vec<R>, Items<R>>
where
    S: Service,
    P: 'static,
    A: Arguments,
    R: Serialize + DeserializeOwned + 'static,
{
    fn recorded(self) -> Self {
        self.remembered(Kind::Recorded, Some(Codec::of_results()))
            .items_remembered(Codec::of_results())
    }

    fn once(self) -> Self {
        self.remembered(Kind::Once, Some(Codec::of_results())).items_remembered(Codec::of_results())
    }
}

/// Each item that ended well is recorded, and the first of them is the winner: after a crash a race that
/// was decided is not run again.
impl<S, P, A, R> Recorded<R> for Step<'_, S, P, A, R, Items<R>>
where
    S: Service,
    P: 'static,
    A: Arguments,
    R: Serialize + DeserializeOwned + 'static,
{
    fn recorded(self) -> Self {
        self.remembered(Kind::Recorded, Some(Codec::of_results()))
            .items_remembered(Codec::of_results())
    }

    fn once(self) -> Self {
        self.remembered(Kind::Once, Some(Codec::of_results())).items_remembered(Codec::of_results())
    }
}

/// Each of the results is recorded, so what is done is not done again.
impl<S, P, A, B> Recorded<(A, B)> for Step<'_, S, P, (), (A, B), Parts>
where
    S: Service,
    P: 'static,
    A: Serialize + DeserializeOwned + 'static,
    B: Serialize + DeserializeOwned + 'static,
{
    fn recorded(self) -> Self {
        self.remembered(Kind::Recorded, Some(Codec::of_results()))
            .parts_remembered((Codec::of_results(), Codec::of_results()))
    }

    fn once(self) -> Self {
        self.remembered(Kind::Once, Some(Codec::of_results()))
            .parts_remembered((Codec::of_results(), Codec::of_results()))
    }
}

/// Each of the results is recorded, so what is done is not done again.
impl<S, P, A, B, C> Recorded<(A, B, C)> for Step<'_, S, P, (), (A, B, C), Parts>
where
    S: Service,
    P: 'static,
    A: Serialize + DeserializeOwned + 'static,
    B: Serialize + DeserializeOwned + 'static,
    C: Serialize + DeserializeOwned + 'static,
{
    fn recorded(self) -> Self {
        let codecs = (Codec::of_results(), Codec::of_results(), Codec::of_results());
        self.remembered(Kind::Recorded, Some(Codec::of_results())).parts_remembered(codecs)
    }

    fn once(self) -> Self {
        let codecs = (Codec::of_results(), Codec::of_results(), Codec::of_results());
        self.remembered(Kind::Once, Some(Codec::of_results())).parts_remembered(codecs)
    }
}

/// The state that goes from one iteration to the next is recorded, and the result of the loop: after a
/// crash the loop goes on with the iteration that had begun. What is recorded of an iteration is removed
/// when it ends, unless one of its steps can be undone.
impl<S, P, A, T, St> Recorded<T> for Step<'_, S, P, A, T, Loop<St>>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: Serialize + DeserializeOwned + 'static,
    St: Serialize + DeserializeOwned + 'static,
{
    fn recorded(self) -> Self {
        self.loop_remembered(Codec::of_results(), Codec::of_results())
    }

    fn once(self) -> Self {
        self.recorded()
    }
}

/// A step that may run again.
#[expect(
    clippy::return_self_not_must_use,
    reason = "the step is added already: what is given back only serves to say more about it"
)]
pub trait Repeatable {
    /// Nothing is recorded: the body runs again whenever the request goes on. For what only reads or
    /// computes.
    fn repeatable(self) -> Self;
}

/// The kinds of steps that may run again: those of a transaction are done once.
trait MayRepeat {}

impl MayRepeat for Body {}

impl<R> MayRepeat for Items<R> {}

impl MayRepeat for Parts {}

impl<S, P, A, T, K> Repeatable for Step<'_, S, P, A, T, K>
where
    S: Service,
    P: 'static,
    A: Arguments,
    T: 'static,
    K: Leaf<T> + MayRepeat,
{
    fn repeatable(self) -> Self {
        self.remembered(Kind::Repeatable, None)
    }
}

/// Waits for what others tell a durable request with [`Durable::signal`](crate::Durable::signal).
pub trait Signals<S: Service, P> {
    /// Adds a step that waits for a signal with the name of the step, and gives its value. A signal that
    /// came before the wait is kept for it.
    ///
    /// In a request that is not durable it fails with InternalError.
    fn wait_for<V>(&mut self, name: &'static str) -> Step<'_, S, P, (), V>
    where
        V: DeserializeOwned + 'static;

    /// The same for so long at the most; then it gives `None`. A value that is itself null counts as
    /// none.
    fn wait_for_within<V>(
        &mut self,
        name: &'static str,
        within: Duration,
    ) -> Step<'_, S, P, (), Option<V>>
    where
        V: DeserializeOwned + 'static;
}

impl<S: Service, P: 'static> Signals<S, P> for Steps<S, P> {
    #[track_caller]
    fn wait_for<V>(&mut self, name: &'static str) -> Step<'_, S, P, (), V>
    where
        V: DeserializeOwned + 'static,
    {
        self.wait(name, WaitFor::Signal(None), Codec::of_others(), async || {
            Err(not_durable().into())
        })
    }

    #[track_caller]
    fn wait_for_within<V>(
        &mut self,
        name: &'static str,
        within: Duration,
    ) -> Step<'_, S, P, (), Option<V>>
    where
        V: DeserializeOwned + 'static,
    {
        let wait = WaitFor::Signal(Some(within));
        self.wait(name, wait, Codec::of_others(), async || Err(not_durable().into()))
    }
}

fn not_durable() -> Error {
    Error::with_info(codes::INTERNAL_ERROR, "only a durable request waits for signals")
}
