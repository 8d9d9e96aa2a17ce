//! The throttle (FTN12 §1.11.2, §2.4): entries per period, shared by all arbiters.
//!
//! A key exists while there is a handle to it or a window is open, so any number of keys over time
//! takes no memory. One actor ends the windows of all keys; it has one timer, and none while all
//! keys are idle.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Guarded, OnceLock, Weak};
use std::task::{Context as TaskContext, Poll};

use actix::{
    Actor, Addr, Arbiter, ArbiterHandle, AsyncContext, Context, Handler, Message, MessageResult,
};
use asyncsteps::sync::mutex::{Lock as Answer, Ticket};
use asyncsteps::sync::throttle::{Options, Queue};
use asyncsteps::sync::{ISync, Section};
use asyncsteps::{AsyncSteps, Awaitable, Error, Identity, Stack, StepResult, Time, codes};

use super::actor::{self, Enter, GetLoad};
use super::keys::Keys;
use super::lock::{Grant, Label, Load, guarded, rejected};
use crate::clock::Clock;

const QUEUE_LIMIT: &str = "Throttle queue limit";

/// A throttle for flows on all arbiters, and for other code. Cheap to clone.
///
/// Use it with `asi.sync(&throttle, ...)`. Up to `max` entries per period, first come, first
/// served; who waits longer than its flow lets it leaves the queue. Its actor ends the periods: when
/// it died, because its arbiter did, every entry fails with `InternalError`.
///
/// ```
/// # use asyncsteps::Flow;
/// # use asyncsteps_actors::{flow::start_flow, sync::Throttle};
/// # actix::System::new().block_on(async {
/// let mails = Throttle::start(Default::default());
/// let mut flow = Flow::new();
/// flow.sync(&mails.key("ann"), |asi, ()| asi.success("the first one in this second"));
/// assert!(start_flow::<String>(flow).await.is_ok());
/// # });
/// ```
#[derive(Clone)]
pub struct Throttle(Arc<Cell>);

/// The throttle of one key.
struct Cell {
    state: Guarded<State>,
    key: Arc<str>,
    kind: Arc<Kind>,
}

struct State {
    queue: Queue<Grant>,
    /// Whether it is in the schedule, which keeps it alive.
    scheduled: bool,
}

/// What the throttles of all keys have in common.
struct Kind {
    name: &'static str,
    options: Options,
    clock: Clock,
    keys: Keys<Cell>,
    schedule: Guarded<Schedule>,
    actor: OnceLock<Addr<ThrottleActor>>,
    /// The actor is gone.
    closed: AtomicBool,
}

/// The open windows.
#[derive(Default)]
struct Schedule {
    /// By their end; the number tells those apart that end together.
    ends: BTreeMap<(Time, u64), Arc<Cell>>,
    count: u64,
    /// Whether the actor knows that it has to look again.
    told: bool,
}

impl Throttle {
    /// Starts a throttle with its actor on this arbiter.
    ///
    /// # Panics
    /// Outside of an actix arbiter; there, use [`start_on`](Self::start_on). If `max` is 0 or
    /// `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn start(options: Options) -> Self {
        let here = Arbiter::try_current();
        assert!(here.is_some(), "a throttle starts on an actix arbiter; elsewhere use `start_on`");
        Self::with("", options, Actor::start)
    }

    /// Starts a throttle with its actor on another arbiter.
    ///
    /// # Panics
    /// If `max` is 0 or `period` is zero, see [`Options::check`].
    #[must_use]
    #[track_caller]
    pub fn start_on(arbiter: &ArbiterHandle, options: Options) -> Self {
        Self::named_on("", arbiter, options)
    }

    /// The same with a name for people.
    #[track_caller]
    pub(super) fn named_on(name: &'static str, arbiter: &ArbiterHandle, options: Options) -> Self {
        Self::with(name, options, |actor| ThrottleActor::start_in_arbiter(arbiter, |_| actor))
    }

    #[track_caller]
    fn with(
        name: &'static str,
        options: Options,
        start: impl FnOnce(ThrottleActor) -> Addr<ThrottleActor>,
    ) -> Self {
        if let Err(zero) = options.check() {
            panic!("{zero}");
        }
        let kind = Arc::new(Kind {
            name,
            options,
            clock: Clock::start(),
            keys: Keys::new(),
            schedule: Guarded::default(),
            actor: OnceLock::new(),
            closed: AtomicBool::new(false),
        });
        let actor = start(ThrottleActor { kind: Arc::downgrade(&kind) });
        kind.actor.get_or_init(|| actor);
        Self(Kind::key(&kind, ""))
    }

    /// The throttle of a key: each key has periods of its own, under the same limits. The empty
    /// key is the throttle that was made first.
    #[must_use]
    pub fn key(&self, key: impl AsRef<str>) -> Self {
        Self(Kind::key(&self.0.kind, key.as_ref()))
    }

    /// Enters outside of flows, by the same queue; ready when the entry is counted.
    ///
    /// # Errors
    /// `DefenseRejected` if the queue is full, `InternalError` if the actor is gone.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the place in the queue.
    pub fn enter(&self) -> Entering {
        Entering(Place { cell: Arc::clone(&self.0), ticket: None })
    }

    /// Enters if that needs no waiting; says whether it did.
    ///
    /// # Errors
    /// `InternalError` if the actor is gone.
    pub fn try_enter(&self) -> Result<bool, Error> {
        self.0.act(self.0.kind.clock.now(), Queue::enter)
    }

    /// The address of the actor, which takes [`Enter`] messages. It does not keep the throttle
    /// alive: without a handle to it they fail with `InternalError`.
    #[must_use]
    pub fn address(&self) -> Addr<ThrottleActor> {
        self.0.kind.actor.get().cloned().unwrap_or_else(|| unreachable!("it is set at the start"))
    }

    /// How many keys have entries in the current period, and how many owners wait, over all keys.
    #[must_use]
    pub fn load(&self) -> Load {
        self.0.kind.load()
    }
}

impl Kind {
    fn key(kind: &Arc<Self>, key: &str) -> Arc<Cell> {
        kind.keys.get(key, |key| Cell {
            state: Guarded::new(State { queue: Queue::new(kind.options), scheduled: false }),
            key,
            kind: Arc::clone(kind),
        })
    }

    fn load(&self) -> Load {
        self.keys.all().iter().fold(Load::NONE, |load, cell| {
            let state = guarded(&cell.state);
            load.with(state.scheduled, 0, state.queue.queued())
        })
    }

    /// Sees to it that the actor ends a window.
    fn schedule(&self, end: Time, cell: Arc<Cell>) {
        let told = {
            let mut schedule = guarded(&self.schedule);
            // an actor that is gone has emptied the schedule for the last time
            if self.closed.load(Ordering::SeqCst) {
                return;
            }
            schedule.add(end, cell);
            std::mem::replace(&mut schedule.told, true)
        };
        if !told {
            self.tell_actor();
        }
    }

    /// There is at most one of these messages at a time; if the actor dies without handling it, it
    /// closes the throttle.
    #[expect(clippy::disallowed_methods, reason = "see above")]
    fn tell_actor(&self) {
        if let Some(actor) = self.actor.get() {
            actor.do_send(WindowOpened);
        }
    }

    /// The actor is gone: nobody would let the waiting ones in.
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        drop(std::mem::take(&mut *guarded(&self.schedule)));
        for cell in self.keys.all() {
            let dismissed: Vec<_> = {
                let mut state = guarded(&cell.state);
                std::iter::from_fn(|| state.queue.dismiss()).collect()
            };
            dismissed.into_iter().for_each(|grant| grant.fail(gone()));
        }
    }
}

fn gone() -> Error {
    Error::with_info(codes::INTERNAL_ERROR, "the actor of the throttle is gone")
}

impl Schedule {
    fn add(&mut self, end: Time, cell: Arc<Cell>) {
        self.count += 1;
        self.ends.insert((end, self.count), cell);
    }

    fn next_end(&self) -> Option<Time> {
        self.ends.first_key_value().map(|((end, _), _)| *end)
    }
}

impl State {
    /// Lets in whose turn has come.
    fn admit(&mut self, now: Time) -> Vec<Grant> {
        std::iter::from_fn(|| self.queue.admit(now)).collect()
    }
}

impl Cell {
    /// Lets in whose turn has come, then acts.
    fn act<R>(
        self: &Arc<Self>,
        now: Time,
        act: impl FnOnce(&mut Queue<Grant>, Time) -> R,
    ) -> Result<R, Error> {
        let mut state = guarded(&self.state);
        // checked while the queue is locked: whoever joins it before it is closed is dismissed
        if self.kind.closed.load(Ordering::SeqCst) {
            return Err(gone());
        }
        let admitted = state.admit(now);
        let result = act(&mut state.queue, now);
        let opened = if state.scheduled { None } else { state.queue.window_end() };
        state.scheduled |= opened.is_some();
        drop(state);
        if let Some(end) = opened {
            self.kind.schedule(end, Arc::clone(self));
        }
        admitted.into_iter().for_each(Grant::enter);
        Ok(result)
    }

    /// A window is over: gives those let in by the next one, and its end.
    fn turn(&self, now: Time) -> (Vec<Grant>, Option<Time>) {
        let mut state = guarded(&self.state);
        let admitted = state.admit(now);
        let end = state.queue.window_end();
        state.scheduled = end.is_some();
        (admitted, end)
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kind.keys.forget(&self.key);
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = guarded(&self.0.state).queue.queued();
        f.debug_struct("Throttle").field("key", &self.0.key).field("queued", &queued).finish()
    }
}

impl ISync for Throttle {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        let now = self.0.kind.clock.at(asi.now());
        if self.0.act(now, Queue::enter)? {
            return section.enter(asi);
        }
        let place = asi.stack(Place { cell: Arc::clone(&self.0), ticket: None });
        asi.add(move |asi, ()| wait(asi, place));
        section.add(asi);
        Ok(())
    }
}

impl Awaitable for Cell {
    fn describe(&self, _: Identity) -> String {
        let label = Label { kind: "throttle", name: self.kind.name, key: &self.key };
        format!("{label}, {} in its queue", guarded(&self.state).queue.queued())
    }
}

/// The step of a flow that has to wait.
fn wait(asi: &mut AsyncSteps, place: Stack<Place>) -> StepResult {
    let cell = Arc::clone(&asi[place].cell);
    let step = asi.wait_external_for(cell);
    let (now, cell) = (asi.now(), &asi[place].cell);
    match cell.act(cell.kind.clock.at(now), |queue, now| queue.lock(now, || Grant::Step(step)))? {
        Answer::Entered => asi.success(()),
        Answer::Queued(ticket) => {
            asi[place].ticket = Some(ticket);
            Ok(())
        }
        Answer::Rejected => Err(rejected(QUEUE_LIMIT).into()),
    }
}

/// A place in the queue until it is dropped.
struct Place {
    cell: Arc<Cell>,
    /// It may have come to its turn since.
    ticket: Option<Ticket>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let grant = guarded(&self.cell.state).queue.take(ticket);
            drop(grant);
        }
    }
}

/// The future of [`Throttle::enter`].
#[must_use = "a future does nothing before it is polled"]
pub struct Entering(Place);

impl Future for Entering {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let place = &mut self.0;
        let task = Grant::Task(cx.waker().clone());
        let Some(ticket) = place.ticket else {
            let now = place.cell.kind.clock.now();
            return match place.cell.act(now, |queue, now| queue.lock(now, || task))? {
                Answer::Entered => Poll::Ready(Ok(())),
                Answer::Queued(ticket) => {
                    place.ticket = Some(ticket);
                    Poll::Pending
                }
                Answer::Rejected => Poll::Ready(Err(rejected(QUEUE_LIMIT))),
            };
        };
        let mut state = guarded(&place.cell.state);
        if let Some(grant) = state.queue.tell_mut(ticket) {
            let before = std::mem::replace(grant, task);
            drop(state);
            drop(before);
            return Poll::Pending;
        }
        drop(state);
        place.ticket = None;
        let closed = place.cell.kind.closed.load(Ordering::SeqCst);
        Poll::Ready(if closed { Err(gone()) } else { Ok(()) })
    }
}

impl fmt::Debug for Entering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entering").field("waits", &self.0.ticket.is_some()).finish()
    }
}

/// Ends the windows of a [`Throttle`], and takes [`Enter`] messages for it.
pub struct ThrottleActor {
    kind: Weak<Kind>,
}

/// The first of the windows opened.
#[derive(Message)]
#[rtype(result = "()")]
struct WindowOpened;

impl ThrottleActor {
    /// Ends the windows that are over and sets the timer to the end of the next one.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        let Some(kind) = self.kind.upgrade() else { return };
        let now = kind.clock.now();
        let over = {
            let mut schedule = guarded(&kind.schedule);
            let open = schedule.ends.split_off(&(now, u64::MAX));
            std::mem::replace(&mut schedule.ends, open)
        };
        for cell in over.into_values() {
            let (admitted, end) = cell.turn(now);
            if let Some(end) = end {
                guarded(&kind.schedule).add(end, cell);
            }
            admitted.into_iter().for_each(Grant::enter);
        }
        let mut schedule = guarded(&kind.schedule);
        let end = schedule.next_end();
        schedule.told = end.is_some();
        drop(schedule);
        if let Some(end) = end {
            ctx.run_later(end.saturating_since(now), Self::turn);
        }
    }

    fn throttle(&self, key: Option<Arc<str>>) -> Option<Throttle> {
        let kind = self.kind.upgrade()?;
        Some(Throttle(Kind::key(&kind, key.as_deref().unwrap_or_default())))
    }
}

impl Actor for ThrottleActor {
    type Context = Context<Self>;
}

impl Drop for ThrottleActor {
    fn drop(&mut self) {
        if let Some(kind) = self.kind.upgrade() {
            kind.close();
        }
    }
}

impl Handler<WindowOpened> for ThrottleActor {
    type Result = ();

    fn handle(&mut self, _: WindowOpened, ctx: &mut Context<Self>) {
        self.turn(ctx);
    }
}

impl Handler<Enter> for ThrottleActor {
    type Result = actor::Answer<()>;

    fn handle(&mut self, Enter { key }: Enter, _: &mut Context<Self>) -> actor::Answer<()> {
        let throttle = self.throttle(key);
        actor::Answer::of(async move {
            match throttle {
                Some(throttle) => throttle.enter().await,
                None => Err(gone()),
            }
        })
    }
}

impl Handler<GetLoad> for ThrottleActor {
    type Result = MessageResult<GetLoad>;

    fn handle(&mut self, _: GetLoad, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.kind.upgrade().map_or(Load::NONE, |kind| kind.load()))
    }
}

impl fmt::Debug for ThrottleActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleActor").field("alive", &self.kind.strong_count()).finish()
    }
}
