//! Mutex, Throttle and Limiter for steps of any technology on any loops (FTN12 §2.3-2.5, §2.7.3).
//!
//! They use nothing but the function tables of those who come, so a flow of ours and a flow of
//! another implementation can wait in the same queue.
#![expect(unsafe_code, reason = "steps from outside are called here")]

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use asyncsteps::sync::mutex::{self, Lock, Ticket};
use asyncsteps::sync::{ISync, throttle};
use asyncsteps::{Time, codes};

use crate::abi::{FutoInAsyncSteps, FutoInAsyncStepsAPI, FutoInSync, FutoInSyncAPI};
use crate::aliases::Aliases;
use crate::guard::{Misuse, c_text, contained, report};
use crate::host::Host;

/// The table of all objects here.
pub(crate) static API: FutoInSyncAPI = FutoInSyncAPI { lock, unlock };

/// A flow or branch of some implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Who {
    /// The address of its function table.
    api: usize,
    id: isize,
}

/// The handle of a step that waits.
#[derive(Clone, Copy, Debug)]
struct Waiter(*mut FutoInAsyncSteps);

// SAFETY: the only thing done with it on other threads is to complete the step, which FTN12 allows
// on any thread
unsafe impl Send for Waiter {}

impl Waiter {
    fn api(self) -> FutoInAsyncStepsAPI {
        // SAFETY: the promise of `lock`
        let api = unsafe { (*self.0).api };
        // SAFETY: the promise of `lock`
        unsafe { *api }
    }

    fn who(self) -> Who {
        // SAFETY: the promise of `lock`
        let api = unsafe { (*self.0).api };
        let root_id = self.api().root_id;
        // SAFETY: FTN12 §2.7.2
        Who { api: api.addr(), id: unsafe { root_id(self.0) } }
    }

    fn wait(self) {
        let wait_external = self.api().wait_external;
        // SAFETY: FTN12 §2.7.2: called in the step
        unsafe { wait_external(self.0) };
    }

    fn answer(self, answer: Answer) {
        let api = self.api();
        match answer {
            // SAFETY: FTN12 §2.7.2
            Answer::Enter => unsafe { (api.success)(self.0, ptr::null_mut()) },
            Answer::Reject(info) => {
                let (code, info) = (c_text(codes::DEFENSE_REJECTED), c_text(info));
                // SAFETY: FTN12 §2.7.2
                unsafe { (api.handle_error)(self.0, code.as_ptr(), info.as_ptr()) };
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Enter,
    Reject(&'static str),
}

/// A mutex, a throttle, or a mutex around a throttle.
pub(crate) struct Object {
    state: Mutex<State>,
    /// Tells the time to a throttle.
    host: Option<Arc<dyn Host>>,
}

struct State {
    mutex: Option<mutex::Queue<Waiter, Who>>,
    throttle: Option<throttle::Queue<Waiter>>,
    /// Who waits in the mutex, and in the throttle.
    in_mutex: HashMap<Who, Ticket>,
    in_throttle: HashMap<Who, (Ticket, Waiter)>,
    /// The end of the throttle's period will be noticed.
    is_watched: bool,
    /// Nobody enters any more.
    is_retired: bool,
}

impl Object {
    pub(crate) fn mutex(options: mutex::Options) -> Self {
        Self::new(Some(mutex::Queue::new(options)), None, None)
    }

    pub(crate) fn throttle(options: throttle::Options, host: Arc<dyn Host>) -> Self {
        Self::new(None, Some(throttle::Queue::new(options)), Some(host))
    }

    pub(crate) fn limiter(
        outer: mutex::Options,
        inner: throttle::Options,
        host: Arc<dyn Host>,
    ) -> Self {
        let (outer, inner) = (mutex::Queue::new(outer), throttle::Queue::new(inner));
        Self::new(Some(outer), Some(inner), Some(host))
    }

    fn new(
        mutex: Option<mutex::Queue<Waiter, Who>>,
        throttle: Option<throttle::Queue<Waiter>>,
        host: Option<Arc<dyn Host>>,
    ) -> Self {
        let (in_mutex, in_throttle) = (HashMap::new(), HashMap::new());
        let state =
            State { mutex, throttle, in_mutex, in_throttle, is_watched: false, is_retired: false };
        Self { state: Mutex::new(state), host }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nobody enter any more; refused while somebody is inside or waits.
    fn retire(&self) -> Result<(), Misuse> {
        let mut state = self.state();
        if !state.is_idle() {
            return Err(Misuse::Rule("a flow holds the synchronisation object or waits for it"));
        }
        state.is_retired = true;
        Ok(())
    }

    fn lock(self: &Arc<Self>, waiter: Waiter) -> Result<(), Misuse> {
        let (who, now) = (waiter.who(), self.now());
        let mut result = Ok(());
        answer_all(self.change(|state, answers| {
            if state.is_retired {
                result = Err(GONE);
                return;
            }
            state.admit(now, answers);
            match state.join(who, waiter, now) {
                Ok(true) => {}
                // before anybody can complete the step
                Ok(false) => waiter.wait(),
                Err(full) => answers.push((waiter, Answer::Reject(full))),
            }
        }));
        result
    }

    fn unlock(self: &Arc<Self>, waiter: Waiter) {
        let (who, now) = (waiter.who(), self.now());
        answer_all(self.change(|state, answers| state.leave(who, now, answers)));
    }

    fn now(&self) -> Time {
        self.host.as_ref().map_or(Time::ZERO, |host| host.now())
    }

    /// Changes the state, and keeps an eye on the end of the period if somebody waits for it.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut Answers)) -> Answers {
        let mut answers = Answers::new();
        let mut state = self.state();
        change(&mut state, &mut answers);
        let deadline = state.throttle.as_ref().and_then(throttle::Queue::deadline);
        let watch = deadline.filter(|_| !state.is_watched);
        state.is_watched |= watch.is_some();
        drop(state);
        if let (Some(at), Some(host)) = (watch, &self.host) {
            let (object, on) = (Arc::downgrade(self), Arc::clone(host));
            host.post(Box::new(move || {
                // it is not taken back: an object that is gone is not found
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

type Answers = Vec<(Waiter, Answer)>;

/// Nothing is locked meanwhile, because a step may answer by coming back.
fn answer_all(answers: Answers) {
    for (waiter, answer) in answers {
        waiter.answer(answer);
    }
}

impl State {
    fn is_idle(&self) -> bool {
        let mutex = self.mutex.as_ref().is_none_or(|mutex| mutex.holders() + mutex.queued() == 0);
        mutex && self.throttle.as_ref().is_none_or(|throttle| throttle.queued() == 0)
    }

    /// Enters, or gets a place in a queue; says whether it entered, or why it was rejected.
    fn join(&mut self, who: Who, waiter: Waiter, now: Time) -> Result<bool, &'static str> {
        let lock = self.mutex.as_mut().map_or(Lock::Entered, |mutex| mutex.lock(who, || waiter));
        match lock {
            Lock::Entered => self.pass(who, waiter, now),
            Lock::Queued(ticket) => {
                self.in_mutex.insert(who, ticket);
                Ok(false)
            }
            Lock::Rejected => Err("Mutex queue limit"),
        }
    }

    /// The same for the throttle, once inside of the mutex.
    fn pass(&mut self, who: Who, waiter: Waiter, now: Time) -> Result<bool, &'static str> {
        let Some(throttle) = &mut self.throttle else { return Ok(true) };
        match throttle.lock(now, || waiter) {
            Lock::Entered => Ok(true),
            Lock::Queued(ticket) => {
                self.in_throttle.insert(who, (ticket, waiter));
                Ok(false)
            }
            Lock::Rejected => Err("Throttle queue limit"),
        }
    }

    /// Gives up the places in both queues, or leaves once.
    fn leave(&mut self, who: Who, now: Time, answers: &mut Answers) {
        if let (Some((ticket, _)), Some(throttle)) =
            (self.in_throttle.remove(&who), &mut self.throttle)
        {
            throttle.withdraw(ticket);
        }
        let Some(mutex) = &mut self.mutex else { return };
        if let Some(ticket) = self.in_mutex.remove(&who)
            && mutex.withdraw(ticket)
        {
            return;
        }
        let Some((next, waiter)) = mutex.unlock(who) else { return };
        self.in_mutex.remove(&next);
        match self.pass(next, waiter, now) {
            Ok(true) => answers.push((waiter, Answer::Enter)),
            Ok(false) => {}
            Err(full) => answers.push((waiter, Answer::Reject(full))),
        }
    }

    /// Lets in whom the throttle admits by now.
    fn admit(&mut self, now: Time, answers: &mut Answers) {
        let Some(throttle) = &mut self.throttle else { return };
        while let Some(waiter) = throttle.admit(now) {
            let admitted =
                self.in_throttle.iter().find(|(_, (_, other))| ptr::eq(other.0, waiter.0));
            if let Some(who) = admitted.map(|(who, _)| *who) {
                self.in_throttle.remove(&who);
                answers.push((waiter, Answer::Enter));
            }
        }
    }
}

/// What a `FutoInSync*` of ours points to: never freed, see `handle.rs`.
#[repr(C)]
pub(crate) struct Slot {
    aliases: Aliases<FutoInSync>,
    generation: AtomicU32,
    object: Mutex<Option<Held>>,
}

/// What is behind a pointer.
#[derive(Clone)]
pub(crate) enum Held {
    /// Uses the tables of those who come.
    ForAll(Arc<Object>),
    /// Only takes steps of this library.
    ForOurs(Arc<dyn ISync + Send + Sync>),
}

// SAFETY: `aliases` never change, everything else is made for several threads
unsafe impl Sync for Slot {}

static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// Makes an object known outside.
pub(crate) fn open(object: Held) -> *mut FutoInSync {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let slot = free.unwrap_or_else(|| {
        let slot = Box::leak(Box::new(Slot {
            aliases: Aliases::new(|| FutoInSync { api: &raw const API }),
            generation: AtomicU32::new(0),
            object: Mutex::default(),
        }));
        slot.aliases.pin();
        slot
    });
    *slot.object() = Some(object);
    slot.pointer()
}

/// Frees an object; refused while flows use one that is [`Held::ForAll`].
///
/// # Safety
/// `sync` is null or follows FTN12 §2.7.3.
pub(crate) unsafe fn close(sync: *mut FutoInSync) -> Result<(), Misuse> {
    // SAFETY: the caller's promise
    let slot = unsafe { find(sync) }?;
    let object = {
        let mut place = slot.object();
        if sync != slot.pointer() {
            return Err(GONE);
        }
        if let Some(Held::ForAll(object)) = &*place {
            object.retire()?;
        }
        let object = place.take().ok_or(GONE)?;
        slot.generation.fetch_add(1, Ordering::AcqRel);
        object
    };
    FREE.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    drop(object);
    Ok(())
}

const GONE: Misuse = Misuse::Rule("the synchronisation object was freed");

impl Slot {
    fn object(&self) -> MutexGuard<'_, Option<Held>> {
        self.object.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pointer(&'static self) -> *mut FutoInSync {
        self.aliases.pointer(self.generation.load(Ordering::Acquire))
    }
}

/// # Safety
/// `sync` is null or follows FTN12 §2.7.3.
unsafe fn find(sync: *mut FutoInSync) -> Result<&'static Slot, Misuse> {
    // SAFETY: the caller's promise
    let Some(face) = (unsafe { sync.as_ref() }) else { return Err(Misuse::Null("sync")) };
    if !ptr::eq(face.api, &raw const API) {
        return Err(Misuse::Rule("the synchronisation object is of another library"));
    }
    // SAFETY: it points to one
    let slot = unsafe { Aliases::find(face) }.ok_or(Misuse::Rule("sync is a copy"))?;
    // SAFETY: aliases with this table are at the beginning of slots, which are never freed
    Ok(unsafe { &*slot.cast() })
}

/// # Safety
/// As `find`.
unsafe fn held(sync: *mut FutoInSync) -> Result<Held, Misuse> {
    // SAFETY: the caller's promise
    let slot = unsafe { find(sync) }?;
    let held = slot.object().clone();
    held.filter(|_| sync == slot.pointer()).ok_or(GONE)
}

/// The object behind a pointer if it only takes steps of this library.
///
/// # Safety
/// As `find`.
pub(crate) unsafe fn for_ours(sync: *mut FutoInSync) -> Option<Arc<dyn ISync + Send + Sync>> {
    // SAFETY: the caller's promise
    match unsafe { held(sync) } {
        Ok(Held::ForOurs(object)) => Some(object),
        Ok(Held::ForAll(_)) | Err(_) => None,
    }
}

/// # Safety
/// As `find`.
unsafe fn object(sync: *mut FutoInSync) -> Result<Arc<Object>, Misuse> {
    // SAFETY: the caller's promise
    match unsafe { held(sync) }? {
        Held::ForAll(object) => Ok(object),
        Held::ForOurs(_) => Err(Misuse::Rule("the object only takes steps of its own library")),
    }
}

/// # Safety
/// Both are null or follow FTN12 §2.7.2 and §2.7.3.
unsafe extern "C" fn lock(bsi: *mut FutoInAsyncSteps, sync: *mut FutoInSync) {
    contained("lock", || {
        if bsi.is_null() {
            report("lock: bsi is NULL");
            return;
        }
        // SAFETY: the caller's promise
        match unsafe { object(sync) }.and_then(|object| object.lock(Waiter(bsi))) {
            Ok(()) => {}
            Err(misuse) => {
                report(&format!("lock: {misuse}"));
                let (code, info) = (c_text(codes::INTERNAL_ERROR), c_text(&misuse.to_string()));
                let fail = Waiter(bsi).api().handle_error;
                // SAFETY: FTN12 §2.7.2: called in a step, which fails instead of entering
                unsafe { fail(bsi, code.as_ptr(), info.as_ptr()) };
            }
        }
    });
}

/// # Safety
/// As `lock`.
unsafe extern "C" fn unlock(bsi: *mut FutoInAsyncSteps, sync: *mut FutoInSync) {
    contained("unlock", || {
        // SAFETY: the caller's promise
        match unsafe { object(sync) } {
            _ if bsi.is_null() => report("unlock: bsi is NULL"),
            Ok(object) => object.unlock(Waiter(bsi)),
            Err(misuse) => report(&format!("unlock: {misuse}")),
        }
    });
}

/// The limits that C has as numbers.
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

/// A limit that lets somebody in.
fn some(limit: u32) -> Result<u32, Misuse> {
    if limit == 0 { Err(Misuse::Rule("a limit of 0 lets nobody in")) } else { Ok(limit) }
}
