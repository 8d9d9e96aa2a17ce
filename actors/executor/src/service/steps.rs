//! The steps of a function.

use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sync::ISync;
use asyncsteps_core::{
    Added, Args, Arguments, AsyncSteps, BodyResult, Error, Flow, StepError, StepResult, StepReturn,
    codes, sleep,
};

use super::answer::AnswerWithin;
use super::context::{Cx, Service};
use super::retired::Retired;
use super::step::Step;
use crate::executor::RequestSteps;
use crate::recorder::{Codec, Kind, StepRecorder, WaitFor};

/// The steps of a function, which know the state `S` of the service and the parameters `P`.
///
/// Steps run in the order added, after the function returned. Each is an async closure, so that what
/// is written behind it can try it again; [`Step::then`] hands a result to the next step, as a type
/// that the compiler checks.
pub struct Steps<S: Service, P> {
    pub(super) flow: Flow,
    /// What is said of steps that are no more; in a box, because few functions have such.
    retired: Option<Box<Flow>>,
    pub(super) cx: Cx<S, P>,
    this: Policies,
    /// How long the caller waits.
    answer: Option<AnswerWithin>,
    /// The normal end of the steps is final.
    pub(super) is_final: bool,
    /// It has steps whose types and names are not known.
    has_plain: bool,
}

/// Why a host cannot remember some steps.
const NOT_REMEMBERED: &str = "steps without a name, which `sleep` and `plain` add, cannot be in a durable \
                              request";

/// Why sub-steps do not say when a caller is answered.
const ANSWER_OF_SUBSTEPS: &str =
    "`answer_within` is said for the function as a whole, not for sub-steps";

/// Something that is said about the function as a whole.
type Policy = Box<dyn FnOnce(&mut Added<'_>)>;

/// What is said about the function as a whole.
#[derive(Default)]
struct Policies {
    said: Vec<Policy>,
    /// It holds a lock, or a place in a limiter.
    locks: bool,
}

impl<S: Service, P: 'static> Steps<S, P> {
    pub(super) fn new(cx: Cx<S, P>) -> Self {
        let (flow, retired, this) = (Flow::new(), None, Policies::default());
        Self { flow, retired, cx, this, answer: None, is_final: false, has_plain: false }
    }

    /// The context that bodies get, to be used while steps are added. Bodies have their own.
    #[must_use]
    pub fn cx(&self) -> Cx<S, P> {
        self.cx.clone()
    }

    /// The function as a whole, to say something about it.
    pub fn this(&mut self) -> FunctionPolicies<'_> {
        FunctionPolicies(&mut self.this)
    }

    /// Ends the wait of the caller this long after its request arrived: it gets this error of the service then,
    /// unless the function has ended before. An error without a code of the service is InternalError.
    ///
    /// The steps are cut then and undone behind the answer: under their locks, in the budget, among the requests
    /// [in flight](crate::Executor::in_flight), and a graceful [close](crate::Executor::close) waits for that. A
    /// [`timeout`](FunctionPolicies::timeout) of the function, in contrast, is answered when everything is undone. The limit
    /// has to be lower than that of [requests](crate::Builder::request_timeout), which is InternalError. It is said
    /// for the function: said for sub-steps it is InternalError. Said twice, the last one counts.
    ///
    /// In a [durable](crate::recorder) request result or limit is decided once, for all callers with its key. What
    /// the limit depends on is known before the request is stored: the function is entered for that, and none of
    /// its steps runs. If the journal does not decide in time, the caller gets `OutcomeUnknown`, with the name of
    /// the request. A definition that was loaded has to have that code in `throws`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use asyncsteps_core::{BodyResult, Code};
    /// # use asyncsteps_executor::{Returns, Service, Steps};
    /// # struct Travel;
    /// # impl Travel { async fn reserve(&self, _: &str) -> BodyResult<String> { Ok("seat 7".into()) } }
    /// #[derive(Debug, Code, thiserror::Error)]
    /// enum TravelError {
    ///     #[error("the airline is slow: nothing was booked")]
    ///     #[code(public)]
    ///     Slow,
    /// }
    /// # impl Service for Travel { type Errors = TravelError; }
    ///
    /// fn book(asi: &mut Steps<Travel, ()>) -> Returns<String> {
    ///     asi.answer_within(Duration::from_secs(2), || TravelError::Slow);
    ///     asi.run("reserve", async |cx, ()| cx.reserve(cx.key()).await).into()
    /// }
    /// ```
    pub fn answer_within<E>(&mut self, limit: Duration, error: impl Fn() -> E + 'static)
    where
        E: Into<StepError>,
    {
        self.answer = Some(AnswerWithin::new::<S, E>(limit, error));
    }

    pub(super) fn take_answer(&mut self) -> Option<AnswerWithin> {
        self.answer.take()
    }

    /// Adds a step that is an async closure (FTN12 §1.13). `body` takes the result of the step before
    /// it, `()` for none.
    ///
    /// In the body `?` takes any error. One that [`Service::Errors`] lists has its code when the step
    /// ends. `name` is the name of the step in stacks, errors and traces, and in its [key](Cx::key).
    #[track_caller]
    pub fn run<A, T, F>(&mut self, name: &'static str, body: F) -> Step<'_, S, P, A, T>
    where
        A: Arguments,
        T: 'static,
        F: AsyncFn(&Cx<S, P>, A) -> BodyResult<T> + 'static,
    {
        Step::add(&mut self.flow, &self.cx, name, body)
    }

    /// Adds a step with a name that completes after `pause`. In a [durable](crate::recorder) request it
    /// ends at the same time of day whatever crashes meanwhile.
    #[track_caller]
    pub fn pause(&mut self, name: &'static str, pause: Duration) -> Step<'_, S, P, (), ()> {
        let codec = Codec { write: |()| Ok([].into()), read: |_| Ok(()) };
        self.wait(name, WaitFor::Time(pause), codec, async move || {
            sleep(pause).await;
            Ok(())
        })
    }

    /// Adds a step that the host of a durable request has wait. `otherwise` is for other requests.
    #[track_caller]
    pub fn wait<T, F>(
        &mut self,
        name: &'static str,
        wait: WaitFor,
        codec: Codec<T>,
        otherwise: F,
    ) -> Step<'_, S, P, (), T>
    where
        T: 'static,
        F: AsyncFn() -> BodyResult<T> + 'static,
    {
        let memory = Rc::new(OnceCell::<Rc<dyn StepRecorder>>::new());
        let of_body = Rc::clone(&memory);
        let step = self.run(name, async move |_, ()| match of_body.get() {
            Some(memory) => Ok((codec.read)(&memory.wait(wait.clone()).await?)?),
            None => otherwise().await,
        });
        if let Some(remembered) = &step.remembered {
            let _ = memory.set(Rc::clone(&remembered.memory));
        }
        step.stored_by_host(Kind::Wait, codec)
    }

    /// Says that an earlier version of the function had a step of this name among these, with sub-steps or
    /// without: what a [durable](crate::recorder) request has recorded of it does not count as a difference
    /// between the request and the function. In other requests it does nothing.
    ///
    /// If the request fails after the step had its effect, that may have to be undone, and only the function
    /// knows how: see [`Retired::undo`]. It is undone after the other steps here. Without an undo the
    /// request is paused then, if the step began with one.
    #[track_caller]
    pub fn retired(&mut self, name: &'static str) -> Retired<'_, S, P> {
        match self.cx.memory() {
            Some(_) => {
                let flow = self.retired.get_or_insert_default();
                Retired::add(flow, &self.cx, name)
            }
            None => Retired::none(),
        }
    }

    /// Adds a step that completes after `pause`.
    #[track_caller]
    pub fn sleep(&mut self, pause: Duration) {
        self.has_plain = true;
        self.flow.sleep(pause);
    }

    /// The flow that the steps are added to, for what this interface does not offer: loops, and steps
    /// as FTN12 has them. Their results are checked when they run.
    pub fn plain(&mut self) -> &mut Flow {
        self.has_plain = true;
        &mut self.flow
    }

    /// Makes the steps sub-steps of the running one.
    ///
    /// # Errors
    /// Those of a host that cannot remember them.
    pub(super) fn finish(self, asi: &mut AsyncSteps) -> StepResult {
        let Self { flow, retired, cx, this, answer, is_final, has_plain } = self;
        if answer.is_some() && cx.is_nested() {
            return asi.error(codes::INTERNAL_ERROR, ANSWER_OF_SUBSTEPS);
        }
        // the host of a durable request ends the wait of its caller
        if let Some(answer) = answer.filter(|_| cx.memory().is_none()) {
            let whole = Self { flow, retired, cx, this, answer: None, is_final, has_plain };
            let arrived = asi.request()?.begun();
            let source = whole.cx.source();
            return answer.add(asi, (arrived, source), move |asi| whole.finish(asi));
        }
        let inside = cx.memory_inside();
        if cx.memory().is_some() {
            if has_plain {
                return asi.error(codes::INTERNAL_ERROR, NOT_REMEMBERED);
            }
            cx.check_defined()?;
            if this.locks {
                cx.locks();
            }
        }
        let (source, is_remembered) = (cx.source(), cx.memory().is_some());
        if !is_final && this.said.is_empty() {
            append(asi, retired, flow);
        } else {
            let steps = move |asi: &mut AsyncSteps, ()| append(asi, retired, flow);
            let mut whole = if is_final { asi.scope(steps) } else { asi.add(steps) };
            whole.located_at(source);
            if let Some(inside) = inside {
                whole.remembered(inside);
            }
            for policy in this.said {
                policy(&mut whole);
            }
        }
        if is_remembered && cx.is_nested() {
            asi.add(move |asi, result: Args| {
                cx.ended();
                asi.success(result)
            })
            .located_at(source);
        }
        Ok(())
    }
}

fn append(asi: &mut AsyncSteps, retired: Option<Box<Flow>>, steps: Flow) {
    if let Some(retired) = retired {
        asi.append(*retired);
    }
    asi.append(steps);
}

/// The policies of the function as a whole: locks, limits, retries. They nest as those of a step, see [`Added`].
pub struct FunctionPolicies<'a>(&'a mut Policies);

#[expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "what is given back only serves to say more about it"
)]
impl FunctionPolicies<'_> {
    /// Runs the function while it holds `lock`, see [`Added::locked`].
    pub fn locked<O: ISync + Clone + 'static>(self, lock: &O) -> Self {
        self.0.locks = true;
        let lock = lock.clone();
        self.say(move |whole| _ = whole.locked(&lock))
    }

    /// Runs the function while it holds a place in `limiter`, see [`Added::limited`].
    pub fn limited<O: ISync + Clone + 'static>(self, limiter: &O) -> Self {
        self.0.locks = true;
        let limiter = limiter.clone();
        self.say(move |whole| _ = whole.limited(&limiter))
    }

    /// Limits the time of the function, see [`Added::timeout`]. A later call replaces an earlier one. Sub-steps, and
    /// each pass of a loop, have a limit of their own.
    pub fn timeout(self, limit: Duration) -> Self {
        self.say(move |whole| _ = whole.timeout(limit))
    }

    /// Sets the error handler of the function, see [`Added::on_error`].
    pub fn on_error<R, F>(self, handler: F) -> Self
    where
        R: StepReturn,
        F: FnOnce(&mut AsyncSteps, &Error) -> R + 'static,
    {
        self.say(move |whole| _ = whole.on_error(handler))
    }

    fn say(self, policy: impl FnOnce(&mut Added<'_>) + 'static) -> Self {
        self.0.said.push(Box::new(policy));
        self
    }
}

impl<S: Service, P> fmt::Debug for Steps<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("cx", &self.cx).finish_non_exhaustive()
    }
}

impl fmt::Debug for FunctionPolicies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FunctionPolicies({})", self.0.said.len())
    }
}
