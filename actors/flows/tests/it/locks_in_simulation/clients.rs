//! Clients of locks, who record what they ask and what is answered.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use asyncsteps_actors::sync::{LockGuard, Mutex, Throttle};
use asyncsteps_core::sim::linear::{History, Invoked, Model, NotExplained};
use asyncsteps_core::sim::{Random, Sim, Started};
use asyncsteps_core::sync::ISync;
use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{AsyncSteps, Error, Flow, Time, codes, turn_time};
use futures_util::future::{Either, select};

use super::model::{Action, Answer, Asked};

/// What clients do, and periods, take multiples of this many milliseconds. A cancel comes at a remainder of its own,
/// and a client gives up at an odd one. So each of the others waits, sleeps or has ended then, and no period ends: it
/// is sure who waits.
pub(super) const STEP: u64 = 16;

/// How often a client comes.
const VISITS: usize = 5;

/// A lock that can be asked outside of steps.
pub(super) trait Lock {
    type Held;
    fn enter(&self) -> impl Future<Output = Result<Self::Held, Error>>;
    fn try_enter(&self) -> Option<Self::Held>;
}

impl Lock for Mutex {
    type Held = LockGuard;

    fn enter(&self) -> impl Future<Output = Result<LockGuard, Error>> {
        self.lock()
    }

    fn try_enter(&self) -> Option<LockGuard> {
        self.try_lock()
    }
}

impl Lock for Throttle {
    type Held = ();

    fn enter(&self) -> impl Future<Output = Result<(), Error>> {
        self.enter()
    }

    fn try_enter(&self) -> Option<()> {
        self.try_enter().expect("there is a clock").then_some(())
    }
}

/// A lock with its history. Each key has its own: a history of several objects is linearizable if that of each
/// object is.
pub(super) struct Door<L, M: Model> {
    pub(super) lock: L,
    history: Arc<std::sync::Mutex<History<M>>>,
}

impl<L: Clone, M: Model> Clone for Door<L, M> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone(), history: Arc::clone(&self.history) }
    }
}

impl<L, M: Model<Operation = Asked, Answer = Answer>> Door<L, M> {
    pub(super) fn new(lock: L) -> Self {
        Self { lock, history: Arc::default() }
    }

    pub(super) fn check(&self, model: &M) -> Result<(), NotExplained> {
        self.history().check(model)
    }

    pub(super) fn invoke(&self, who: usize, what: Action, at: Time) -> Invoked {
        let at = u64::try_from(at.since_epoch().as_millis()).expect("a small number");
        self.history().invoke(Asked { who, what, at })
    }

    pub(super) fn answer(&self, invoked: Invoked, answer: Answer) {
        self.history().answer(invoked, answer);
    }

    fn history(&self) -> MutexGuard<'_, History<M>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that calls the locks. It waits by `pause`, which takes milliseconds in virtual time.
pub(super) struct Caller<L, M: Model, P> {
    pub(super) who: usize,
    pub(super) doors: Vec<Door<L, M>>,
    pub(super) pause: P,
    /// One in this many waits is given up.
    pub(super) gives_up_one_in: u32,
}

impl<L, M, P> Caller<L, M, P>
where
    L: Lock,
    M: Model<Operation = Asked, Answer = Answer>,
    P: AsyncFn(u64),
{
    pub(super) async fn run(self, mut random: Random) {
        for _ in 0..VISITS {
            (self.pause)(steps(&mut random, 8)).await;
            let door = random.pick(&self.doors).expect("there are doors");
            let Some(held) = self.enter(door, &mut random).await else { continue };
            let work = self.invoke(door, Action::Work);
            door.answer(work, Answer::Done);
            (self.pause)(steps(&mut random, 6)).await;
            self.leave(door, held);
        }
    }

    async fn enter(&self, door: &Door<L, M>, random: &mut Random) -> Option<L::Held> {
        if random.one_in(4) {
            let asked = self.invoke(door, Action::TryLock);
            let held = door.lock.try_enter();
            door.answer(asked, if held.is_some() { Answer::Enters } else { Answer::Busy });
            return held;
        }
        let asked = self.invoke(door, Action::Lock);
        let mut entering = Box::pin(door.lock.enter());
        let now = poll_fn(|cx| Poll::Ready(entering.as_mut().poll(cx))).await;
        let answer = match &now {
            Poll::Ready(Ok(_)) => Answer::Enters,
            Poll::Ready(Err(error)) => refusal(error),
            Poll::Pending => Answer::Waits,
        };
        door.answer(asked, answer);
        if let Poll::Ready(entered) = now {
            return entered.ok();
        }
        if !random.one_in(self.gives_up_one_in) {
            return Some(entering.await.expect("its turn"));
        }
        let patience = Box::pin((self.pause)(steps(random, 40) + 1));
        match select(entering, patience).await {
            Either::Left((entered, _)) => Some(entered.expect("its turn")),
            Either::Right(((), entering)) => {
                self.leave(door, entering);
                (self.pause)(STEP - 1).await;
                None
            }
        }
    }

    fn leave(&self, door: &Door<L, M>, held: impl Sized) {
        let leave = self.invoke(door, Action::Leave);
        drop(held);
        door.answer(leave, Answer::Done);
    }

    fn invoke(&self, door: &Door<L, M>, what: Action) -> Invoked {
        door.invoke(self.who, what, turn_time().unwrap_or(Time::ZERO))
    }
}

/// A client whose steps are synchronised against a lock, and may enter it again.
pub(super) struct Stepper<L, M: Model> {
    who: usize,
    door: Door<L, M>,
    random: RefCell<Random>,
    /// What is not answered yet.
    open: Cell<Option<Invoked>>,
}

impl<L, M> Stepper<L, M>
where
    L: ISync + Clone + 'static,
    M: Model<Operation = Asked, Answer = Answer> + 'static,
{
    pub(super) fn new(who: usize, door: &Door<L, M>, random: Random) -> Rc<Self> {
        let (door, random) = (door.clone(), RefCell::new(random));
        Rc::new(Self { who, door, random, open: Cell::default() })
    }

    pub(super) fn flow(self: &Rc<Self>) -> Flow {
        let mut flow = Flow::new();
        for _ in 0..VISITS {
            let client = Rc::clone(self);
            flow.add(move |asi, ()| {
                asi.sleep(client.pause(8));
                let again = client.random.borrow_mut().one_in(3);
                client.visit(asi, again);
            });
        }
        flow
    }

    fn visit(self: &Rc<Self>, asi: &mut AsyncSteps, again: bool) {
        let (client, refused) = (Rc::clone(self), Rc::clone(self));
        asi.add(move |asi, ()| {
            client.invoke(Action::Lock, asi.now());
            let inside = Rc::clone(&client);
            asi.sync(&client.door.lock, move |asi, ()| {
                inside.answer(Answer::Accepted);
                inside.invoke(Action::Work, asi.now());
                inside.answer(Answer::Done);
                asi.sleep(inside.pause(6));
                if again {
                    inside.visit(asi, false);
                }
                asi.add(move |asi, ()| inside.invoke(Action::Leave, asi.now()));
            });
            asi.add(move |_, ()| client.answer(Answer::Done));
        })
        .on_error(move |asi, error| {
            refused.answer(refusal(error));
            asi.success(())
        });
    }

    /// Cancels the flow of this client after this many steps of time.
    pub(super) fn cancel_after(self: &Rc<Self>, steps: u64, sim: &Sim, started: Started) {
        let (client, later) = (Rc::clone(self), sim.clone());
        let remainder = 2 + 2 * self.who as u64;
        sim.deferred(Duration::from_millis(steps * STEP + remainder), move || {
            if let Some(waits) = client.open.take() {
                client.door.answer(waits, Answer::Accepted);
            }
            client.invoke(Action::Vanish, later.now());
            started.cancel();
            later.deferred(Duration::from_millis(1), move || client.answer(Answer::Done));
        });
    }

    fn invoke(&self, what: Action, at: Time) {
        let before = self.open.replace(Some(self.door.invoke(self.who, what, at)));
        assert!(before.is_none(), "one after another");
    }

    fn answer(&self, answer: Answer) {
        self.door.answer(self.open.take().expect("it was asked"), answer);
    }

    fn pause(&self, most: usize) -> Duration {
        Duration::from_millis(steps(&mut self.random.borrow_mut(), most))
    }
}

/// A pause of less than this many steps.
fn steps(random: &mut Random, most: usize) -> u64 {
    random.below(most) as u64 * STEP
}

fn refusal(error: &Error) -> Answer {
    assert_eq!(error.code(), codes::DEFENSE_REJECTED, "{error}");
    Answer::Refused
}
