//! Mutex, Throttle and Limiter for steps of any implementation on any loops (FTN12 §2.3-2.5).
//!
//! They use only the function tables of the steps that lock them, so that our flows and flows of
//! another implementation can wait in the same queue.
#![expect(unsafe_code, reason = "steps from outside are called here")]

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use asyncsteps_core::sync::mutex::{self, LockOutcome, Ticket};
use asyncsteps_core::sync::throttle;
use asyncsteps_core::{Time, codes};
use parking_lot::Mutex;

use crate::abi::{FutoInAsyncSteps, FutoInAsyncStepsAPI};
use crate::guard::{Misuse, c_text};
use crate::host::EventLoop;

/// A flow or branch of an implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ForeignIdentity {
    /// The address of its function table.
    api: usize,
    id: isize,
}

/// The handle of a step that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepWaiter(*mut FutoInAsyncSteps);

// SAFETY: the only thing done with it on other threads is to complete the step, which FTN12 allows
// on any thread
unsafe impl Send for StepWaiter {}

impl StepWaiter {
    /// The step that `bsi` belongs to.
    ///
    /// # Safety
    /// `bsi` follows FTN12 §2.7.2 and is valid as long as its step is in progress.
    pub(crate) unsafe fn new(bsi: *mut FutoInAsyncSteps) -> Self {
        Self(bsi)
    }

    fn api(self) -> FutoInAsyncStepsAPI {
        // SAFETY: the promise of `new`
        let api = unsafe { (*self.0).api };
        // SAFETY: the promise of `new`
        unsafe { *api }
    }

    fn identity(self) -> ForeignIdentity {
        // SAFETY: the promise of `new`
        let api = unsafe { (*self.0).api };
        let root_id = self.api().root_id;
        // SAFETY: FTN12 §2.7.2
        ForeignIdentity { api: api.addr(), id: unsafe { root_id(self.0) } }
    }

    fn wait(self) {
        let wait_external = self.api().wait_external;
        // SAFETY: FTN12 §2.7.2: called in the step
        unsafe { wait_external(self.0) };
    }

    /// Fails the step.
    pub(crate) fn fail(self, code: &str, info: &str) {
        let (code, info) = (c_text(code), c_text(info));
        let handle_error = self.api().handle_error;
        // SAFETY: FTN12 §2.7.2
        unsafe { handle_error(self.0, code.as_ptr(), info.as_ptr()) };
    }

    fn answer(self, answer: SyncAnswer) {
        match answer {
            SyncAnswer::Enter => {
                let success = self.api().success;
                // SAFETY: FTN12 §2.7.2
                unsafe { success(self.0, ptr::null_mut()) };
            }
            SyncAnswer::Reject(info) => self.fail(codes::DEFENSE_REJECTED, info),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum SyncAnswer {
    Enter,
    Reject(&'static str),
}

/// A mutex, a throttle, or a mutex around a throttle.
pub(crate) struct SyncObject {
    state: Mutex<SyncObjectState>,
    /// The clock of a throttle.
    host: Option<Arc<dyn EventLoop>>,
}

struct SyncObjectState {
    mutex: Option<mutex::Queue<StepWaiter, ForeignIdentity>>,
    throttle: Option<throttle::Queue<StepWaiter>>,
    /// The waits in the mutex, and those in the throttle.
    in_mutex: HashMap<ForeignIdentity, Ticket>,
    in_throttle: HashMap<ForeignIdentity, (Ticket, StepWaiter)>,
    /// There is a timer for the end of the throttle's period.
    is_watched: bool,
    /// The object was freed: no flow enters any more.
    is_retired: bool,
}

impl SyncObject {
    pub(crate) fn mutex(options: mutex::Options) -> Self {
        Self::new(Some(mutex::Queue::new(options)), None, None)
    }

    pub(crate) fn throttle(options: throttle::Options, host: Arc<dyn EventLoop>) -> Self {
        Self::new(None, Some(throttle::Queue::new(options)), Some(host))
    }

    pub(crate) fn limiter(
        outer: mutex::Options,
        inner: throttle::Options,
        host: Arc<dyn EventLoop>,
    ) -> Self {
        let (outer, inner) = (mutex::Queue::new(outer), throttle::Queue::new(inner));
        Self::new(Some(outer), Some(inner), Some(host))
    }

    fn new(
        mutex: Option<mutex::Queue<StepWaiter, ForeignIdentity>>,
        throttle: Option<throttle::Queue<StepWaiter>>,
        host: Option<Arc<dyn EventLoop>>,
    ) -> Self {
        let (in_mutex, in_throttle) = (HashMap::new(), HashMap::new());
        let state = SyncObjectState {
            mutex,
            throttle,
            in_mutex,
            in_throttle,
            is_watched: false,
            is_retired: false,
        };
        Self { state: Mutex::new(state), host }
    }

    /// Lets no flow enter any more. Refused while a flow is inside or waits.
    pub(crate) fn retire(&self) -> Result<(), Misuse> {
        let mut state = self.state.lock();
        if !state.is_idle() {
            return Err(Misuse::Rule("a flow holds the synchronisation object or waits for it"));
        }
        state.is_retired = true;
        Ok(())
    }

    pub(crate) fn lock(self: &Arc<Self>, waiter: StepWaiter) -> Result<(), Misuse> {
        let (identity, now) = (waiter.identity(), self.now());
        let mut result = Ok(());
        answer_all(self.change(|state, answers| {
            if state.is_retired {
                result = Err(GONE);
                return;
            }
            state.admit(now, answers);
            match state.join(identity, waiter, now) {
                Ok(true) => {}
                // before the lock is released, so that the step waits before it is completed
                Ok(false) => waiter.wait(),
                Err(full) => answers.push((waiter, SyncAnswer::Reject(full))),
            }
        }));
        result
    }

    pub(crate) fn unlock(self: &Arc<Self>, waiter: StepWaiter) {
        let (identity, now) = (waiter.identity(), self.now());
        answer_all(self.change(|state, answers| state.leave(identity, now, answers)));
    }

    fn now(&self) -> Time {
        self.host.as_ref().map_or(Time::ZERO, |host| host.now())
    }

    /// Changes the state, and sets a timer for the end of the period if a flow waits for it.
    fn change(
        self: &Arc<Self>,
        change: impl FnOnce(&mut SyncObjectState, &mut Answers),
    ) -> Answers {
        let mut answers = Answers::new();
        let mut state = self.state.lock();
        change(&mut state, &mut answers);
        let deadline = state.throttle.as_ref().and_then(throttle::Queue::deadline);
        let watch = deadline.filter(|_| !state.is_watched);
        state.is_watched |= watch.is_some();
        drop(state);
        if let (Some(at), Some(host)) = (watch, &self.host) {
            let (object, on) = (Arc::downgrade(self), Arc::clone(host));
            host.post(Box::new(move || {
                // the timer is not cancelled: it does nothing if the object is gone
                drop(on.defer_until(at, Box::new(move || Self::end_period(&object))));
            }));
        }
        answers
    }

    fn end_period(object: &Weak<Self>) {
        let Some(object) = object.upgrade() else { return };
        let now = object.now();
        answer_all(object.change(|state, answers| {
            state.is_watched = false;
            state.admit(now, answers);
        }));
    }
}

type Answers = Vec<(StepWaiter, SyncAnswer)>;

/// Answers without a lock held, because a step may lock the object again at once.
fn answer_all(answers: Answers) {
    for (waiter, answer) in answers {
        waiter.answer(answer);
    }
}

impl SyncObjectState {
    fn is_idle(&self) -> bool {
        let mutex = self.mutex.as_ref().is_none_or(|mutex| mutex.holders() + mutex.queued() == 0);
        mutex && self.throttle.as_ref().is_none_or(|throttle| throttle.queued() == 0)
    }

    /// Enters or queues. `true` if it entered; the error says why it was rejected.
    fn join(
        &mut self,
        identity: ForeignIdentity,
        waiter: StepWaiter,
        now: Time,
    ) -> Result<bool, &'static str> {
        let lock = self
            .mutex
            .as_mut()
            .map_or(LockOutcome::Entered, |mutex| mutex.lock(identity, || waiter));
        match lock {
            LockOutcome::Entered => self.pass(identity, waiter, now),
            LockOutcome::Queued(ticket) => {
                self.in_mutex.insert(identity, ticket);
                Ok(false)
            }
            LockOutcome::Rejected => Err("Mutex queue limit"),
        }
    }

    /// The same for the throttle, inside of the mutex.
    fn pass(
        &mut self,
        identity: ForeignIdentity,
        waiter: StepWaiter,
        now: Time,
    ) -> Result<bool, &'static str> {
        let Some(throttle) = &mut self.throttle else { return Ok(true) };
        match throttle.lock(now, || waiter) {
            LockOutcome::Entered => Ok(true),
            LockOutcome::Queued(ticket) => {
                self.in_throttle.insert(identity, (ticket, waiter));
                Ok(false)
            }
            LockOutcome::Rejected => Err("Throttle queue limit"),
        }
    }

    /// Withdraws from both queues, or leaves once.
    fn leave(&mut self, identity: ForeignIdentity, now: Time, answers: &mut Answers) {
        if let (Some((ticket, _)), Some(throttle)) =
            (self.in_throttle.remove(&identity), &mut self.throttle)
        {
            throttle.withdraw(ticket);
        }
        let Some(mutex) = &mut self.mutex else { return };
        if let Some(ticket) = self.in_mutex.remove(&identity)
            && mutex.withdraw(ticket)
        {
            return;
        }
        let Some((next, waiter)) = mutex.unlock(identity) else { return };
        self.in_mutex.remove(&next);
        match self.pass(next, waiter, now) {
            Ok(true) => answers.push((waiter, SyncAnswer::Enter)),
            Ok(false) => {}
            Err(full) => answers.push((waiter, SyncAnswer::Reject(full))),
        }
    }

    /// Lets the flows enter that the throttle admits by now.
    fn admit(&mut self, now: Time, answers: &mut Answers) {
        let Some(throttle) = &mut self.throttle else { return };
        while let Some(waiter) = throttle.admit(now) {
            let admitted =
                self.in_throttle.iter().find(|(_, (_, other))| ptr::eq(other.0, waiter.0));
            if let Some(identity) = admitted.map(|(identity, _)| *identity) {
                self.in_throttle.remove(&identity);
                answers.push((waiter, SyncAnswer::Enter));
            }
        }
    }
}

/// The misuse of an object that was freed.
pub(crate) const GONE: Misuse = Misuse::Rule("the synchronisation object was freed");

/// A queue limit as C has it; `UINT32_MAX` is no limit.
pub(crate) fn limit(max_queue: u32) -> Option<u32> {
    (max_queue != u32::MAX).then_some(max_queue)
}

pub(crate) fn mutex_options(max: u32, max_queue: u32) -> Result<mutex::Options, Misuse> {
    Ok(mutex::Options { max: some(max)?, max_queue: limit(max_queue) })
}

pub(crate) fn throttle_options(
    max: u32,
    period_ms: u32,
    max_queue: u32,
) -> Result<throttle::Options, Misuse> {
    let period = Duration::from_millis(some(period_ms)?.into());
    Ok(throttle::Options { max: some(max)?, period, max_queue: limit(max_queue) })
}

/// A limit that is not 0, with which no flow could enter.
fn some(limit: u32) -> Result<u32, Misuse> {
    if limit == 0 { Err(Misuse::Rule("with a limit of 0 no flow could enter")) } else { Ok(limit) }
}
