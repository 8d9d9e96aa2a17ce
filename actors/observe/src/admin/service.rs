//! The interface `asyncsteps.admin:1.0`.

#![expect(clippy::unused_async, reason = "handlers are async functions")]

use asyncsteps_core::{BodyResult, Code};
use asyncsteps_futoin::typed::Interface;
use schemars::JsonSchema;
use serde::Deserialize;

use super::inspector::Inspector;
use super::locks::{LockInfo, WaitGraph};
use super::plan::FunctionPlan;
use super::types::{
    FlowsInFlight, FunctionReport, Health, RecentRequest, RefusedInfo, RequestSteps,
};
use crate::locks::Locks;
use asyncsteps_executor::plan::{Cx, Service};
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::{Functions, InFlightFilter};

/// How many flows and requests are reported by default.
const MOST: u16 = 100;

/// The bytes of a plan: a response has at most 65,536 (FTN3 §1.10), and has null where a field is not there.
const ANSWER: usize = 40_000;

/// The interface `asyncsteps.admin:1.0`: what runs in the executor that hosts it, why it waits, and an end to it.
///
/// ```
/// use asyncsteps_executor::Executor;
/// use asyncsteps_executor::security::SecurityLevel;
/// use asyncsteps_observe::admin::Admin;
///
/// let admin = Admin::new(SecurityLevel::System);
/// let executor = Executor::builder().service(admin.interface(), admin, Admin::define).build()?;
/// # Ok::<(), asyncsteps_executor::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Admin {
    level: SecurityLevel,
    locks: Locks,
}

/// Why the interface cannot report something.
#[derive(Debug, thiserror::Error, Code)]
#[non_exhaustive]
pub enum AdminError {
    /// The request is neither in flight nor kept.
    #[error("neither in flight nor kept: {0}")]
    #[code(public)]
    UnknownRequest(f64),
    /// No such function is hosted.
    #[error("no such function is hosted")]
    #[code(public)]
    UnknownFunction,
}

/// Which flows a caller wants.
#[derive(Debug, Deserialize, JsonSchema)]
struct WhichFlows {
    /// A part of the name of their functions.
    function: Option<String>,
    /// The local id of their user.
    user: Option<String>,
    /// What a branch of them waits for, in one word.
    cause: Option<String>,
    /// How many of them.
    most: Option<u16>,
}

/// Which requests a caller wants.
#[derive(Debug, Deserialize, JsonSchema)]
struct Which {
    /// A part of the name of their functions.
    function: Option<String>,
    /// How many of them.
    most: Option<u16>,
}

/// A function, by its full name.
#[derive(Debug, Deserialize, JsonSchema)]
struct Named {
    function: String,
}

/// A request, by its number.
#[derive(Debug, Deserialize, JsonSchema)]
struct Numbered {
    #[schemars(range(min = 0))]
    number: f64,
}

impl Service for Admin {
    type Errors = AdminError;
}

impl Admin {
    /// The interface for callers of this level: [`System`](SecurityLevel::System) leaves it to the
    /// process itself, [`PrivilegedOps`](SecurityLevel::PrivilegedOps) is for operators.
    #[must_use]
    pub fn new(level: SecurityLevel) -> Self {
        Self { level, locks: Locks::new() }
    }

    /// The locks that it reports; none unless set.
    #[must_use]
    pub fn locks(self, locks: Locks) -> Self {
        Self { locks, ..self }
    }

    /// The declaration of the interface; [`to_json`](Interface::to_json) returns it as clients read
    /// it.
    #[must_use]
    pub fn interface(&self) -> Interface {
        let id = "asyncsteps.admin:1.0".parse();
        let id = id.unwrap_or_else(|error| unreachable!("the name of an interface: {error}"));
        let mut interface = Interface::new(id);
        let (level, none) = (self.level, [""; 0]);
        interface.function::<(), Health>("health").seclvl(level).throws(none);
        interface.function::<WhichFlows, FlowsInFlight>("flows").seclvl(level).throws(none);
        let steps = interface.function::<Numbered, RequestSteps>("steps");
        steps.seclvl(level).throws(AdminError::CODES.iter().copied());
        interface.function::<Which, Vec<RecentRequest>>("recent").seclvl(level).throws(none);
        interface.function::<(), Vec<FunctionReport>>("functions").seclvl(level).throws(none);
        interface.function::<(), Vec<RefusedInfo>>("refused").seclvl(level).throws(none);
        interface.function::<(), Vec<LockInfo>>("locks").seclvl(level).throws(none);
        interface.function::<(), WaitGraph>("waitGraph").seclvl(level).throws(none);
        let plan = interface.function::<Named, FunctionPlan>("plan");
        plan.seclvl(level).throws(AdminError::CODES.iter().copied());
        interface.function::<Numbered, bool>("cancel").seclvl(level).throws(none);
        interface
    }

    /// The functions of the interface, for [`Builder::service`](asyncsteps_executor::Builder::service).
    pub fn define(functions: &mut Functions<Self>) {
        functions
            .on("health", Self::health)
            .on("flows", Self::flows)
            .on("steps", Self::steps)
            .on("recent", Self::recent)
            .on("functions", Self::functions)
            .on("refused", Self::refused)
            .on("locks", Self::lock_list)
            .on("waitGraph", Self::wait_graph)
            .on("plan", Self::plan)
            .on("cancel", Self::cancel);
    }

    async fn health(cx: &Cx<Self, ()>) -> BodyResult<Health> {
        Ok(inspector(cx).health().await)
    }

    async fn flows(cx: &Cx<Self, WhichFlows>) -> BodyResult<FlowsInFlight> {
        let most = cx.params.most.unwrap_or(MOST).into();
        Ok(inspector(cx).flows(cx.params.filter(), most).await)
    }

    async fn steps(cx: &Cx<Self, Numbered>) -> BodyResult<RequestSteps> {
        let unknown = AdminError::UnknownRequest(cx.params.number);
        let Some(number) = cx.params.whole() else { return Err(unknown.into()) };
        Ok(inspector(cx).steps(number).await.ok_or(unknown)?)
    }

    async fn recent(cx: &Cx<Self, Which>) -> BodyResult<Vec<RecentRequest>> {
        Ok(inspector(cx).recent(cx.params.function(), cx.params.most()))
    }

    async fn functions(cx: &Cx<Self, ()>) -> BodyResult<Vec<FunctionReport>> {
        Ok(inspector(cx).functions())
    }

    async fn lock_list(cx: &Cx<Self, ()>) -> BodyResult<Vec<LockInfo>> {
        Ok(inspector(cx).locks().await)
    }

    async fn refused(cx: &Cx<Self, ()>) -> BodyResult<Vec<RefusedInfo>> {
        Ok(inspector(cx).refused())
    }

    async fn wait_graph(cx: &Cx<Self, ()>) -> BodyResult<WaitGraph> {
        Ok(inspector(cx).wait_graph().await)
    }

    async fn plan(cx: &Cx<Self, Named>) -> BodyResult<FunctionPlan> {
        let plan = inspector(cx).plan(&cx.params.function).await;
        Ok(plan.ok_or(AdminError::UnknownFunction)?.within(ANSWER))
    }

    async fn cancel(cx: &Cx<Self, Numbered>) -> BodyResult<bool> {
        let Some(number) = cx.params.whole() else { return Ok(false) };
        Ok(inspector(cx).cancel(number).await)
    }
}

/// Asks the executor that serves the request.
fn inspector<P>(cx: &Cx<Admin, P>) -> Inspector {
    Inspector::new(&cx.request().executor(), cx.locks.clone())
}

impl WhichFlows {
    fn filter(&self) -> InFlightFilter {
        let Self { function, user, cause, .. } = self;
        let filter = InFlightFilter::default();
        let filter = function.iter().fold(filter, |filter, part| filter.function(part));
        let filter = user.iter().fold(filter, |filter, user| filter.user(user));
        cause.iter().fold(filter, |filter, cause| filter.waits_for(cause))
    }
}

impl Which {
    fn function(&self) -> &str {
        self.function.as_deref().unwrap_or_default()
    }

    fn most(&self) -> usize {
        self.most.unwrap_or(MOST).into()
    }
}

impl Numbered {
    /// The number, if it is whole and a float can represent it exactly.
    fn whole(&self) -> Option<u64> {
        /// Up to this number each whole number has a float of its own.
        const LARGEST: f64 = 9_007_199_254_740_992.0;
        let is_whole = self.number.fract() == 0.0 && (0.0..=LARGEST).contains(&self.number);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole")]
        is_whole.then_some(self.number as u64)
    }
}
