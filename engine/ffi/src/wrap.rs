//! Steps in Rust on an engine of another technology (FTN12 §2.2.1 `wrap`).
//!
//! Code in Rust needs our `AsyncSteps`, which a foreign engine cannot make. So a foreign step hosts a
//! flow, and the flow runs the code. The foreign engine provides the event loop and timers of the
//! flow, and receives its errors; cancelling passes in both directions. Other threads share only the
//! waker.
#![expect(unsafe_code, reason = "a foreign engine is called through its table")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use std::{fmt, ptr};

use asyncsteps_core::{Arguments, AsyncSteps, Flow, Foreign, Outcome, StepReturn, Time, codes};
use parking_lot::Mutex;

use crate::abi::{FutoInArgs, FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInHandle};
use crate::guard::{Misuse, c_text, contained};
use crate::handle::Handle;
use crate::steps::Addition;
use crate::table::API;
use crate::value::Values;
use crate::wrapped::{FlowTurn, WrappedFlows};

/// Steps that could not be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(Misuse);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// Adds a step to the steps of any implementation (FTN12 §2.2.1 `wrap`).
///
/// `body` receives our interface, as in any step: a library written against this crate runs in it
/// unchanged. On our steps it is an ordinary step. On the steps of another implementation, everything
/// that it adds runs inside of one foreign step, on the thread of its event loop. Arguments, results,
/// errors, time limits and cancelling pass in both directions; state variables do not. Flows that it
/// launches run inside of the foreign step as well, and end with it.
///
/// Effects that have to be [undone](asyncsteps_core::Added::undo) are undone before the foreign step fails. If the step
/// is cancelled, its engine runs nothing for it any more: undos that need not wait run at once, and the others are
/// reported with their steps, as are steps that are [shielded](asyncsteps_core::Added::shielded) from a cancel
/// elsewhere.
///
/// ```
/// use asyncsteps_core::{AsyncSteps, Flow, run_to_end};
/// use asyncsteps_ffi::{Binary, wrap};
///
/// fn library(asi: &mut AsyncSteps, number: i32) {
///     asi.add(move |asi, ()| asi.success(number + 1));
/// }
///
/// let mut flow = Flow::new();
/// flow.success_step(41);
/// // SAFETY: the pointer is valid while `binary` calls
/// flow.binary(|bsi| unsafe { wrap(bsi, library) }).unwrap();
/// assert_eq!(run_to_end::<i32>(flow).unwrap(), 42);
/// ```
///
/// # Errors
/// [`Refused`] if `bsi` is null, or is our own and takes no steps now or on this thread.
///
/// # Safety
/// `bsi` is null or follows FTN12 §2.7.2, and steps can be added to it on this thread.
pub unsafe fn wrap<A, R, F>(bsi: *mut FutoInAsyncSteps, body: F) -> Result<(), Refused>
where
    A: Arguments,
    R: StepReturn,
    F: FnOnce(&mut AsyncSteps, A) -> R + 'static,
{
    // SAFETY: the caller's promise
    let Some(steps) = (unsafe { bsi.as_ref() }) else { return Err(Refused(Misuse::Null("bsi"))) };
    if ptr::eq(steps.api, &raw const API) {
        // SAFETY: the caller's promise
        let handle = unsafe { Handle::find(bsi) }.map_err(Refused)?;
        let add = move |asi: &mut AsyncSteps| {
            asi.add(body);
        };
        return handle.add(|_| Own(Box::new(add))).map_err(Refused);
    }
    let start = Box::new(move |values| {
        let mut flow = Flow::new();
        flow.success_step(Foreign(values));
        flow.add(body);
        flow
    });
    let id = HOSTED.with(|flows| flows.add(HostedFlow::New(start)));
    let foreign = ForeignSteps(bsi);
    // if the step never starts, the end of the steps around it forgets it
    foreign.remember(id);
    let add = foreign.api().add;
    // SAFETY: FTN12 §2.7.2
    unsafe { add(bsi, pointer(id), Some(start_hosted), None) };
    Ok(())
}

struct Own(Box<dyn FnOnce(&mut AsyncSteps)>);

impl Addition for Own {
    fn add_to(self, asi: &mut AsyncSteps) {
        (self.0)(asi);
    }
}

/// Foreign steps, on the thread of their event loop.
#[derive(Clone, Copy)]
struct ForeignSteps(*mut FutoInAsyncSteps);

impl ForeignSteps {
    fn api(self) -> FutoInAsyncStepsAPI {
        // SAFETY: the promise of `wrap`; later a handle of a step in progress
        let api = unsafe { (*self.0).api };
        // SAFETY: as above
        unsafe { *api }
    }

    /// Calls `forget` with this id when the step has ended.
    fn remember(self, id: u64) {
        let stack = self.api().stack;
        // SAFETY: FTN12 §2.7.2
        let memory = unsafe { stack(self.0, size_of::<u64>(), Some(forget)) }.cast::<u64>();
        if !memory.is_null() {
            // SAFETY: it has room for a id and is aligned for one
            unsafe { memory.write(id) };
        }
    }

    fn end(self, outcome: Outcome) {
        let (code, info) = match outcome {
            Outcome::Success(args) => {
                let Ok(Foreign(values)) = args.into_typed::<Foreign<Values>>() else { return };
                let mut args = values.into_raw();
                let success = self.api().success;
                // SAFETY: FTN12 §2.7.2
                return unsafe { success(self.0, &raw mut args) };
            }
            Outcome::Error(error) => (c_text(error.code()), error.info().map(c_text)),
            Outcome::Cancelled => (c_text(codes::INTERNAL_ERROR), Some(c_text("cancelled"))),
        };
        let (fail, info) = (self.api().handle_error, info.as_ref());
        // SAFETY: FTN12 §2.7.2
        unsafe { fail(self.0, code.as_ptr(), info.map_or(ptr::null(), |info| info.as_ptr())) };
    }
}

thread_local! {
    static HOSTED: HostedFlows = HostedFlows::default();
}

/// The flows that foreign steps host on this thread, by ids that are never used twice. Foreign engines
/// keep the ids only.
#[derive(Default)]
struct HostedFlows {
    hosted: RefCell<BTreeMap<u64, HostedFlow>>,
    last_id: Cell<u64>,
}

enum HostedFlow {
    New(Box<dyn FnOnce(Values) -> Flow>),
    Running(Rc<FlowDriver>),
}

impl HostedFlows {
    fn add(&self, hosted: HostedFlow) -> u64 {
        let id = self.last_id.get() + 1;
        self.last_id.set(id);
        self.hosted.borrow_mut().insert(id, hosted);
        id
    }
}

fn take(id: u64) -> Option<HostedFlow> {
    HOSTED.try_with(|flows| flows.hosted.borrow_mut().remove(&id)).ok().flatten()
}

fn running(id: u64) -> Option<Rc<FlowDriver>> {
    HOSTED.with(|flows| match flows.hosted.borrow().get(&id)? {
        HostedFlow::Running(driver) => Some(Rc::clone(driver)),
        HostedFlow::New(_) => None,
    })
}

fn pointer(id: u64) -> *mut c_void {
    ptr::without_provenance_mut(usize::try_from(id).unwrap_or_default())
}

fn id_of(pointer: *mut c_void) -> u64 {
    pointer.addr() as u64
}

/// A flow and the foreign step that hosts it.
struct FlowDriver {
    id: u64,
    step: ForeignSteps,
    /// `None` while it runs.
    flows: RefCell<Option<WrappedFlows>>,
    wake: Arc<TurnWaker>,
    started: Instant,
    /// The time of the last timer. The flow's time is at least this, because the foreign engine may
    /// have another clock.
    reached: Cell<Time>,
    timer: Cell<Option<(Time, FutoInHandle)>>,
}

impl FlowDriver {
    /// One turn; `true` if the flow goes on. The step must be in progress.
    fn turn(&self) -> bool {
        let Some(mut flows) = self.flows.take() else { return true };
        let now = self.now();
        match flows.run(now, &Waker::from(Arc::clone(&self.wake))) {
            FlowTurn::Over(outcome) => {
                self.disarm();
                self.wake.arm(None);
                self.step.end(outcome);
                return false;
            }
            FlowTurn::Ready => self.wake.wake_by_ref(),
            FlowTurn::Waiting(deadline) => self.arm(deadline, now),
        }
        self.flows.replace(Some(flows));
        true
    }

    fn now(&self) -> Time {
        Time::from_epoch(self.started.elapsed()).max(self.reached.get())
    }

    fn arm(&self, at: Option<Time>, now: Time) {
        if self.timer.get().map(|(armed, _)| armed) == at {
            return;
        }
        self.disarm();
        let Some(at) = at else { return };
        let pause = at.saturating_since(now).as_nanos().div_ceil(MILLISECOND.as_nanos());
        let (schedule, pause) =
            (self.step.api().sched_deferred, u32::try_from(pause).unwrap_or(u32::MAX));
        // SAFETY: FTN12 §2.7.2
        let handle = unsafe { schedule(self.step.0, pause, pointer(self.id), Some(expire)) };
        self.timer.set(Some((at, handle)));
    }

    fn disarm(&self) {
        if let Some((_, mut handle)) = self.timer.take() {
            let cancel = self.step.api().sched_cancel;
            // SAFETY: FTN12 §2.7.2
            unsafe { cancel(self.step.0, &raw mut handle) };
        }
    }

    /// Cancels the flow. The foreign step has ended or is about to, so its handle is not used.
    fn cancel(&self) {
        self.wake.arm(None);
        if let Some(flows) = self.flows.take() {
            flows.cancel(self.now());
        }
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Wakes the flow from any thread: the foreign engine calls it back, at most once per turn.
struct TurnWaker {
    id: u64,
    /// The step, as long as it is in progress.
    step: Mutex<Option<WakeableStep>>,
}

/// A step in progress, and whether its engine already has to call it back.
#[derive(Clone, Copy)]
struct WakeableStep {
    bsi: *mut FutoInAsyncSteps,
    is_woken: bool,
}

// SAFETY: from other threads it is only used for `sched_immediate`, which FTN12 allows there
unsafe impl Send for WakeableStep {}

impl TurnWaker {
    /// Lets the waker use this step once; `None` ends its use.
    fn arm(&self, step: Option<ForeignSteps>) {
        let step = step.map(|step| WakeableStep { bsi: step.0, is_woken: false });
        *self.step.lock() = step;
    }
}

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // held while calling, so that the step cannot end in between
        let mut step = self.step.lock();
        if let Some(step) = step.as_mut().filter(|step| !step.is_woken) {
            step.is_woken = true;
            let schedule = ForeignSteps(step.bsi).api().sched_immediate;
            // SAFETY: FTN12 §2.7.2: the step is in progress
            unsafe { schedule(step.bsi, pointer(self.id), Some(go_on)) };
        }
    }
}

unsafe extern "C" fn start_hosted(
    bsi: *mut FutoInAsyncSteps,
    data: *mut c_void,
    args: *const FutoInArgs,
) {
    contained("wrap", || {
        let id = id_of(data);
        let Some(HostedFlow::New(start)) = take(id) else { return };
        // SAFETY: a callback may take its arguments
        let values = unsafe { Values::take(args.cast_mut()) }.unwrap_or(Values::NONE);
        start_driver(ForeignSteps(bsi), id, start(values));
    });
}

#[expect(clippy::disallowed_methods, reason = "foreign engines tell no time")]
fn start_driver(step: ForeignSteps, id: u64, flow: Flow) {
    let wake = Arc::new(TurnWaker { id, step: Mutex::new(None) });
    let driver = Rc::new(FlowDriver {
        id,
        step,
        flows: RefCell::new(Some(WrappedFlows::new(flow))),
        wake,
        started: Instant::now(),
        reached: Cell::new(Time::ZERO),
        timer: Cell::new(None),
    });
    // the step waits before anything can wake it
    driver.wake.arm(Some(step));
    step.remember(id);
    let (wait, set_cancel) = (step.api().wait_external, step.api().set_cancel);
    // SAFETY: FTN12 §2.7.2
    unsafe { wait(step.0) };
    // SAFETY: FTN12 §2.7.2
    unsafe { set_cancel(step.0, pointer(id), Some(cancel_hosted)) };
    HOSTED.with(|flows| {
        flows.hosted.borrow_mut().insert(id, HostedFlow::Running(Rc::clone(&driver)));
    });
    turn(&driver);
}

fn turn(driver: &Rc<FlowDriver>) {
    if !driver.turn() {
        take(driver.id);
    }
}

unsafe extern "C" fn go_on(data: *mut c_void) {
    contained("wrap", || {
        let Some(driver) = running(id_of(data)) else { return };
        driver.wake.arm(Some(driver.step));
        turn(&driver);
    });
}

unsafe extern "C" fn expire(data: *mut c_void) {
    contained("wrap", || {
        let Some(driver) = running(id_of(data)) else { return };
        if let Some((at, _)) = driver.timer.take() {
            driver.reached.set(at);
        }
        turn(&driver);
    });
}

unsafe extern "C" fn cancel_hosted(_: *mut FutoInAsyncSteps, data: *mut c_void) {
    contained("wrap", || {
        if let Some(HostedFlow::Running(driver)) = take(id_of(data)) {
            driver.disarm();
            driver.cancel();
        }
    });
}

/// The cleanup of the memory with an id: its step has ended.
unsafe extern "C" fn forget(memory: *mut c_void) {
    // SAFETY: `remember` wrote it there
    let id = unsafe { memory.cast::<u64>().read() };
    contained("wrap", || {
        if let Some(HostedFlow::Running(driver)) = take(id) {
            driver.cancel();
        }
    });
}
