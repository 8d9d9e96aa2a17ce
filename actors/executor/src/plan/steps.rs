//! Where the steps of a function begin, and of each part of it.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::Location;
use std::time::Duration;

use asyncsteps_core::sync::StepLock;
use asyncsteps_core::{BodyResult, StepError};

use super::answer::AnswerWithin;
use super::cx::Cx;
use super::locks::{LockOfCx, lock_of_cx};
use super::mistake::mistaken;
use super::node::{Level, Node};
use super::retired::{Retired, RetiredStep};
use super::returns::IntoReturns;
use super::service::Service;
use super::step::{Chain, Returns, Step, group_at, pass};

/// The beginning of the steps of a function of the service `S`, whose parameters are `P`, or of a part of it, whose
/// first step takes `I`.
///
/// The function runs once, when the executor is built: it receives no request, and returns the steps that every request
/// goes through (FTN12 §1.5). Whatever depends on the request is a closure of a step.
///
/// ```
/// use asyncsteps_executor::{Returns, Service, Steps};
///
/// struct Payments;
/// # impl Service for Payments { type Errors = (); }
/// struct Charge { amount: i32 }
///
/// fn charge(steps: &Steps<Payments, Charge>) -> Returns<String> {
///     steps
///         .run("rate", async |cx, ()| Ok(cx.params.amount * 2))
///         .then("pay", async |_, amount| Ok(format!("{amount} paid")))
///         .returns()
/// }
/// ```
#[derive(derive_more::Debug)]
#[debug("Steps")]
pub struct Steps<S: Service, P: 'static, I = ()> {
    whole: RefCell<Whole>,
    retired: RefCell<Vec<RetiredStep>>,
    types: PhantomData<fn(S, P, I)>,
}

/// The options of the steps as a whole.
struct Whole {
    said: Vec<Policy>,
    answer: Option<(AnswerWithin, &'static Location<'static>)>,
}

/// Something that is said about steps as a whole.
enum Policy {
    Locked(LockOfCx),
    Limited(LockOfCx),
    Timeout(Duration),
}

/// Steps that are defined, and their options as a whole.
pub(super) struct Defined {
    pub(super) nodes: Vec<Node>,
    pub(super) answer: Option<(AnswerWithin, &'static Location<'static>)>,
}

impl<S: Service, P: 'static, I: 'static> Steps<S, P, I> {
    pub(super) fn new() -> Self {
        let whole = Whole { said: Vec::new(), answer: None };
        Self { whole: RefCell::new(whole), retired: RefCell::default(), types: PhantomData }
    }

    /// The steps that `define` returns, within their options as a whole. `source` is where the
    /// application wrote it.
    pub(super) fn define<R: 'static>(
        source: &'static Location<'static>,
        define: impl FnOnce(&Self) -> Returns<R>,
    ) -> Defined {
        let steps = Self::new();
        let defined = define(&steps).into_nodes::<S, P, I>(source);
        let Whole { said, answer } = steps.whole.into_inner();
        let retired = steps.retired.into_inner().into_iter().map(RetiredStep::into_node::<S, I>);
        let nodes = retired.chain(defined).collect();
        if said.is_empty() {
            return Defined { nodes, answer };
        }
        let whole: Step<S, P, I, I, R> = group_at(source, Chain::new(), "", Level::whole(nodes));
        let whole = said.into_iter().fold(whole, |whole, policy| match policy {
            Policy::Locked(lock) => whole.holding(lock),
            Policy::Limited(limiter) => whole.in_place(limiter),
            Policy::Timeout(limit) => whole.timeout(limit),
        });
        Defined { nodes: whole.returns().into_nodes::<S, P, I>(source), answer }
    }

    /// [`define`](Self::define) for steps inside of others.
    #[track_caller]
    pub(super) fn inside<R>(define: impl FnOnce(&Self) -> R) -> Vec<Node>
    where
        R: IntoReturns<S, P, I>,
    {
        let source = Location::caller();
        let Defined { nodes, answer } = Self::define(source, |steps| define(steps).into_returns());
        if let Some((_, source)) = answer {
            mistaken(
                source,
                "`answer_within` is said for the function as a whole, not for a part of it",
            );
        }
        nodes
    }

    /// Runs all steps while the lock is held that `lock` returns, see [`Step::locked`].
    pub fn locked<L: StepLock>(
        &self,
        lock: impl Fn(&Cx<S, P>) -> L + Send + Sync + 'static,
    ) -> &Self {
        self.say(Policy::Locked(lock_of_cx(lock)))
    }

    /// Runs all steps while a place is held in the limiter that `limiter` returns, see [`Step::limited`].
    pub fn limited<L: StepLock>(
        &self,
        limiter: impl Fn(&Cx<S, P>) -> L + Send + Sync + 'static,
    ) -> &Self {
        self.say(Policy::Limited(lock_of_cx(limiter)))
    }

    /// Limits the time of all steps, see [`Step::timeout`]. A later call replaces an earlier one.
    pub fn timeout(&self, limit: Duration) -> &Self {
        self.say(Policy::Timeout(limit))
    }

    fn say(&self, policy: Policy) -> &Self {
        self.whole.borrow_mut().said.push(policy);
        self
    }

    /// Ends the wait of the caller this long after its request arrived: it gets this error of the service then,
    /// unless the function has ended before. An error without a code of the service is InternalError.
    ///
    /// The steps are cut then and undone behind the answer: under their locks, in the budget, among the requests [in
    /// flight](crate::Executor::in_flight), and a graceful [close](crate::Executor::close) waits for that. A
    /// [`timeout`](Self::timeout) of the function, in contrast, is answered when everything is undone. The limit has to
    /// be lower than that of [requests](crate::Builder::request_timeout). It is an option of the function, not of a
    /// part of it. If it is set twice, the last one counts.
    ///
    /// In a [durable](crate::recorder) request result or limit is decided once, for all callers with its key. If the
    /// journal does not decide in time, the caller gets `OutcomeUnknown`, with the name of the request. A definition
    /// that was loaded has to have that code in `throws`.
    #[track_caller]
    pub fn answer_within<E: Into<StepError>>(
        &self,
        limit: Duration,
        error: impl Fn() -> E + Send + Sync + 'static,
    ) -> &Self {
        if limit.is_zero() {
            mistaken(Location::caller(), "`answer_within` no time: no step could begin");
        }
        let answer = AnswerWithin::new::<S, E>(limit, error);
        self.whole.borrow_mut().answer = Some((answer, Location::caller()));
        self
    }

    /// Says that an earlier version of the function had a step of this name among these, with sub-steps or without: its
    /// records in a [durable](crate::recorder) request do not count as a difference between the request and the
    /// function. In other requests it does nothing.
    ///
    /// If the request fails after the step had its effect, that may have to be undone, and only the function
    /// knows how: see [`Retired::undo`]. It is undone after the other steps here. Without an undo the
    /// request is paused then, if the step began with one.
    #[track_caller]
    pub fn retired(&self, name: &'static str) -> Retired<'_, S, P> {
        Retired::add(&self.retired, name)
    }

    /// The first step, an async closure that takes what these steps take: `()` in a function. See
    /// [`Step::then`].
    #[track_caller]
    pub fn run<T, F>(&self, name: &'static str, body: F) -> Step<S, P, I, I, T>
    where
        T: 'static,
        F: AsyncFn(&Cx<S, P>, I) -> BodyResult<T> + Send + Sync + 'static,
    {
        Chain::new().body(name, body)
    }

    /// No steps: they return their input, such as a way in which there is nothing to do.
    #[track_caller]
    pub fn pass(&self) -> Step<S, P, I, I, I> {
        pass(Chain::new())
    }
}
