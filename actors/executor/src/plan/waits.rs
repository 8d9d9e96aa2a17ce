//! Steps that only wait: for a time, or for a signal that others send to the request.

use std::time::{Duration, SystemTime};

use asyncsteps_core::{Error, codes, sleep};
use serde::de::DeserializeOwned;

use super::cx::Cx;
use super::read::Read;
use super::sender::{MaySend, Senders};
use super::service::Service;
use super::step::{Chain, Step};
use super::steps::Steps;
use crate::recorder::{BodyEnd, Kind, WaitEnd, Work};
use crate::stored::Codec;

impl<S: Service, P: 'static, I: Clone + 'static> Steps<S, P, I> {
    /// A step that completes after `pause`, and returns its input. In a [durable](crate::recorder) request it ends at
    /// the same time of day whatever crashes meanwhile.
    #[track_caller]
    pub fn pause(&self, name: &'static str, pause: Duration) -> Step<S, P, I, I, I> {
        pauses(Chain::new(), name, move |_, _| WaitEnd::After(pause))
    }

    /// A step that completes at the time of day that `until` returns, at once if that has passed, and returns its input.
    /// In a [durable](crate::recorder) request the time is recorded when the step begins.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use asyncsteps_executor::{Returns, Steps};
    ///
    /// struct Ride { at: u32 }
    ///
    /// fn remind(steps: &Steps<(), Ride>) -> Returns<()> {
    ///     let before = |at: u32| SystemTime::UNIX_EPOCH + Duration::from_secs(at.saturating_sub(3600).into());
    ///     steps.pause_until("an hour before", move |cx, ()| before(cx.params.at)).returns()
    /// }
    /// ```
    #[track_caller]
    pub fn pause_until(
        &self,
        name: &'static str,
        until: impl Fn(&Cx<S, P>, &I) -> SystemTime + Send + Sync + 'static,
    ) -> Step<S, P, I, I, I> {
        pauses(Chain::new(), name, move |cx, input| WaitEnd::At(until(cx, input)))
    }
}

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    /// A step that waits for a signal with the name of the step, and returns its value (FTN12 §1.3). A signal that came before the
    /// wait is kept for it. It waits for ever, unless it or a step around it has a [limit](Step::timeout). No step around
    /// it says [`retry`](Step::retry): an attempt that fails has taken the signal.
    ///
    /// A [durable](crate::recorder) request is signalled by its uid, from any process that has its journal. Others are
    /// signalled in their process, with [`Executor::signal`](crate::Executor::signal) and the [id](Cx::id) of the
    /// request. That is the program's own code; callers from outside send the signal only if the step says
    /// [who may](Step::from).
    #[track_caller]
    pub fn wait_signal<T>(&self, name: &'static str) -> Step<S, P, I, I, T>
    where
        T: DeserializeOwned + 'static,
    {
        signal(Chain::new(), name, |_, _| None)
    }

    /// The same for so long at the most; then it returns `None`. A value that is itself null counts as none.
    #[track_caller]
    pub fn wait_signal_within<T>(
        &self,
        name: &'static str,
        within: Duration,
    ) -> Step<S, P, I, I, Option<T>>
    where
        T: DeserializeOwned + 'static,
    {
        signal(Chain::new(), name, move |_, _| Some(WaitEnd::After(within)))
    }

    /// The same until the time of day that `until` returns at the latest.
    #[track_caller]
    pub fn wait_signal_until<T>(
        &self,
        name: &'static str,
        until: impl Fn(&Cx<S, P>, &I) -> SystemTime + Send + Sync + 'static,
    ) -> Step<S, P, I, I, Option<T>>
    where
        T: DeserializeOwned + 'static,
    {
        signal(Chain::new(), name, move |cx, input| Some(WaitEnd::At(until(cx, input))))
    }
}

impl<S, P, I, A, T, E> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    I: 'static,
    A: 'static,
    T: 'static,
{
    /// [`pause`](Steps::pause) that passes on what the step before returns.
    #[track_caller]
    pub fn then_pause(self, name: &'static str, pause: Duration) -> Step<S, P, I, T, T, E>
    where
        T: Clone,
    {
        pauses(self.into_chain(), name, move |_, _| WaitEnd::After(pause))
    }

    /// [`pause_until`](Steps::pause_until) that passes on what the step before returns.
    #[track_caller]
    pub fn then_pause_until(
        self,
        name: &'static str,
        until: impl Fn(&Cx<S, P>, &T) -> SystemTime + Send + Sync + 'static,
    ) -> Step<S, P, I, T, T, E>
    where
        T: Clone,
    {
        pauses(self.into_chain(), name, move |cx, input| WaitEnd::At(until(cx, input)))
    }

    /// Which callers from outside of the program may send the signal that the step [waits](Steps::wait_signal) for: those
    /// of a level, or those of whom a closure returns true. None may unless it is said, also no operator. The program's
    /// own code may always, and so may callers of the level System.
    ///
    /// ```
    /// use asyncsteps_executor::plan::Sender;
    /// use asyncsteps_executor::security::SecurityLevel;
    /// use asyncsteps_executor::{Returns, Steps};
    ///
    /// struct Ride { driver: String }
    ///
    /// fn ride(steps: &Steps<(), Ride>) -> Returns<String> {
    ///     let is_driver = |sender: &Sender<Ride>| {
    ///         sender.user().is_some_and(|user| user.local_id() == sender.params.driver)
    ///     };
    ///     steps
    ///         .wait_signal::<()>("delivered").from(is_driver)
    ///         .then_wait_signal::<String>("checked").from(SecurityLevel::PrivilegedOps)
    ///         .returns()
    /// }
    /// ```
    ///
    /// Several steps of one function that wait for one name have to allow the caller, all of them. The host of the
    /// request asks before it stores the signal, from the parameters alone: so no caller from outside sends a signal to
    /// a step that is inside of a [dynamic](Self::dynamic) one.
    pub fn from(mut self, senders: impl MaySend<P>) -> Self {
        match &mut self.last.facts.senders {
            Some(of_step) => *of_step = Senders::of(senders),
            None => self.last.facts.misplaced.push("from"),
        }
        self
    }

    /// [`wait_signal`](Steps::wait_signal) behind a step.
    #[track_caller]
    pub fn then_wait_signal<U>(self, name: &'static str) -> Step<S, P, I, T, U, E>
    where
        U: DeserializeOwned + 'static,
    {
        signal(self.into_chain(), name, |_, _| None)
    }

    /// A step without a body, in which the host of a durable request waits as `work` of the result of this one says.
    #[track_caller]
    pub fn then_host_wait<U>(
        self,
        name: &'static str,
        codec: Codec<U>,
        work: fn(T) -> Work,
    ) -> Step<S, P, I, T, U, E>
    where
        U: 'static,
    {
        let waits =
            async move |cx: &Cx<S, P>, input: T| Ok((codec.read)(&cx.by_host(work(input)).await?)?);
        let mut step = self.into_chain().body(name, waits);
        step.last.facts.kind = Some(Kind::Wait);
        step.last.facts.read = Some(Read::of(codec));
        step
    }

    /// [`wait_signal_within`](Steps::wait_signal_within) behind a step.
    #[track_caller]
    pub fn then_wait_signal_within<U>(
        self,
        name: &'static str,
        within: Duration,
    ) -> Step<S, P, I, T, Option<U>, E>
    where
        U: DeserializeOwned + 'static,
    {
        signal(self.into_chain(), name, move |_, _| Some(WaitEnd::After(within)))
    }

    /// [`wait_signal_until`](Steps::wait_signal_until) behind a step.
    #[track_caller]
    pub fn then_wait_signal_until<U>(
        self,
        name: &'static str,
        until: impl Fn(&Cx<S, P>, &T) -> SystemTime + Send + Sync + 'static,
    ) -> Step<S, P, I, T, Option<U>, E>
    where
        U: DeserializeOwned + 'static,
    {
        signal(self.into_chain(), name, move |cx, input| Some(WaitEnd::At(until(cx, input))))
    }
}

#[track_caller]
fn pauses<S, P, I, A, E>(
    chain: Chain,
    name: &'static str,
    until: impl Fn(&Cx<S, P>, &A) -> WaitEnd + Send + Sync + 'static,
) -> Step<S, P, I, A, A, E>
where
    S: Service,
    P: 'static,
    A: Clone + 'static,
{
    let mut step = chain.body(name, async move |cx: &Cx<S, P>, input: A| {
        let until = until(cx, &input);
        match cx.context.recorded() {
            Some(step) => {
                step.ends(cx.attempt(), BodyEnd::Pauses(until)).await?;
            }
            None => sleep(until.left()).await,
        }
        Ok(input)
    });
    step.last.facts.kind = Some(Kind::Wait);
    step.last.facts.read = Some(Read::of(Codec { write: |()| Ok([].into()), read: |_| Ok(()) }));
    step.last.facts.passes = true;
    step.last.said.passes = true;
    step
}

#[track_caller]
fn signal<S, P, I, A, T, E>(
    chain: Chain,
    name: &'static str,
    until: impl Fn(&Cx<S, P>, &A) -> Option<WaitEnd> + Send + Sync + 'static,
) -> Step<S, P, I, A, T, E>
where
    S: Service,
    P: 'static,
    A: 'static,
    T: DeserializeOwned + 'static,
{
    let mut step = chain.body(name, async move |cx: &Cx<S, P>, input: A| {
        let until = until(cx, &input);
        if let Some(step) = cx.context.recorded() {
            let stored = step.ends(cx.attempt(), BodyEnd::AwaitsSignal(until)).await?;
            return Ok((Codec::<T>::of_others().read)(&stored)?);
        }
        let value = cx.context.signal(name, until.map(WaitEnd::left)).await?;
        T::deserialize(value).map_err(|error| Error::caused_by(codes::INTERNAL_ERROR, error).into())
    });
    step.last.facts.senders = Some(Senders::default());
    step.last.facts.kind = Some(Kind::Wait);
    step.last.facts.read = Some(Read::of(Codec::<T>::of_others()));
    step
}
