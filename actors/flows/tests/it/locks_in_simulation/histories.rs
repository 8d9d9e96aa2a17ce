//! Clients at once: in simulations, on an arbiter in virtual time, and on several threads.

use std::cell::Cell;
use std::rc::Rc;

use actix::System;
use asyncsteps_actors::flow::{FlowHandle, start_flow};
use asyncsteps_actors::sync::{Limiter, Load, Mutex, Throttle};
use asyncsteps_core::sim::linear::{Model, NotExplained};
use asyncsteps_core::sim::{self, Random, Sim};
use asyncsteps_core::sync::{ISync, limiter, mutex, throttle};
use asyncsteps_core::{Error, Flow, Time, sleep};
use expect_test::{Expect, expect};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime;
use tokio::task::yield_now;

use super::clients::{Caller, Door, Lock, STEP, Stepper};
use super::model::{self, Action, Answer, Asked};
use super::{exact, ms};

const SEEDS: u64 = 30;

/// Threads meet by chance, which takes more seeds.
const SEEDS_ON_THREADS: u64 = 200;

const CLIENTS: usize = 6;
const THREADS: usize = 3;

/// A period that no test outlives, in milliseconds.
const LONG: u64 = 3_600_000;

/// A small number by chance, from `least`.
fn small(random: &mut Random, least: u32) -> u32 {
    least + random.pick(&[0, 1, 2]).expect("there are some")
}

fn mutex(random: &mut Random) -> (Mutex, model::Mutex) {
    let (max, max_queue) = (small(random, 1), small(random, 0));
    let mutex = Mutex::new(mutex::Options { max, max_queue: Some(max_queue) });
    (mutex, model::Mutex { max: max as usize, max_queue: max_queue as usize })
}

fn throttle(random: &mut Random, period: u64) -> (Throttle, model::Throttle) {
    let (max, max_queue) = (small(random, 1), small(random, 0));
    let options = throttle::Options { max, period: ms(period), max_queue: Some(max_queue) };
    let model = model::Throttle { max: max as usize, max_queue: max_queue as usize, period };
    (Throttle::new(options), model)
}

/// A period that ends when clients come.
fn short(random: &mut Random) -> u64 {
    STEP * u64::from(2 * small(random, 1))
}

fn doors<L, M>(key: impl Fn(&str) -> L) -> Vec<Door<L, M>>
where
    M: Model<Operation = Asked, Answer = Answer>,
{
    ["ann", "bob"].map(|name| Door::new(key(name))).into()
}

fn check<L, M>(doors: &[Door<L, M>], model: &M) -> Result<(), NotExplained>
where
    M: Model<Operation = Asked, Answer = Answer>,
{
    doors.iter().try_for_each(|door| door.check(model))
}

/// A flow that calls.
fn caller<L, M>(who: usize, doors: &[Door<L, M>], random: Random) -> Flow
where
    L: Lock + Clone + 'static,
    M: Model<Operation = Asked, Answer = Answer> + 'static,
{
    let pause = async |time: u64| sleep(ms(time)).await;
    let caller = Caller { who, doors: doors.to_vec(), pause, gives_up_one_in: 3 };
    let mut flow = Flow::new();
    flow.await_(async move {
        caller.run(random).await;
        Ok::<(), Error>(())
    });
    flow
}

/// Starts a flow whose steps are synchronised; some are cancelled.
fn start_stepper<L, M>(sim: &Sim, who: usize, doors: &[Door<L, M>])
where
    L: ISync + Clone + 'static,
    M: Model<Operation = Asked, Answer = Answer> + 'static,
{
    let mut random = Random::new(sim.random().number());
    let door = random.pick(doors).expect("there are doors");
    let cancelled = random.one_in(2).then(|| random.below(40) as u64);
    let client = Stepper::new(who, door, random);
    let started = sim.start(client.flow());
    if let Some(after) = cancelled {
        client.cancel_after(after, sim, started);
    }
}

/// Runs clients of both kinds.
fn simulate<L, M>(sim: &Sim, doors: &[Door<L, M>])
where
    L: Lock + ISync + Clone + 'static,
    M: Model<Operation = Asked, Answer = Answer> + 'static,
{
    for who in 0..CLIENTS {
        if who % 2 == 0 {
            let random = Random::new(sim.random().number());
            sim.start(caller(who, doors, random));
        } else {
            start_stepper(sim, who, doors);
        }
    }
    sim.run();
}

#[test]
fn a_mutex_does_in_simulations_what_its_model_does() {
    sim::check_with(&exact(), 0..SEEDS, |sim| {
        let (mutex, model) = mutex(&mut sim.random());
        let doors = doors(|key| mutex.key(key));
        simulate(sim, &doors);
        check(&doors, &model).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(mutex.load(), Load::NONE);
    });
}

#[test]
fn a_throttle_does_in_simulations_what_its_model_does() {
    sim::check_with(&exact(), 0..SEEDS, |sim| {
        let period = short(&mut sim.random());
        let (throttle, model) = throttle(&mut sim.random(), period);
        let doors = doors(|key| throttle.key(key));
        simulate(sim, &doors);
        check(&doors, &model).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(throttle.load().queued, 0);
    });
}

#[test]
fn a_limiter_does_in_simulations_what_its_model_does() {
    sim::check_with(&exact(), 0..SEEDS, |sim| {
        let mut random = Random::new(sim.seed());
        let (concurrent, rate) = (small(&mut random, 1), small(&mut random, 1));
        let (period, no_limit) = (short(&mut random), usize::MAX);
        let limiter = Limiter::new(limiter::Options {
            concurrent,
            max_queue: None,
            rate,
            period: ms(period),
            burst: None,
        });
        let doors = doors(|key| limiter.key(key));
        (0..CLIENTS).for_each(|who| start_stepper(sim, who, &doors));
        sim.run();
        let mutex = model::Mutex { max: concurrent as usize, max_queue: no_limit };
        let throttle = model::Throttle { max: rate as usize, max_queue: no_limit, period };
        let model = model::Limiter { mutex, throttle };
        check(&doors, &model).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((limiter.load().holders, limiter.load().queued), (0, 0));
    });
}

/// Runs a test on an arbiter in virtual time.
fn on_an_arbiter(test: impl Future<Output = ()>) {
    let virtual_time = || {
        let mut builder = runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime")
    };
    System::with_tokio_rt(virtual_time).block_on(test);
}

#[test]
fn a_throttle_does_on_an_arbiter_what_its_model_does() {
    on_an_arbiter(async {
        for seed in 0..SEEDS {
            let mut random = Random::new(seed);
            let period = short(&mut random);
            let (throttle, model) = throttle(&mut random, period);
            let doors = doors(|key| throttle.key(key));
            let flows = (0..CLIENTS).map(|who| -> FlowHandle<()> {
                let random = Random::new(random.number());
                if who % 2 == 0 {
                    return start_flow(caller(who, &doors, random));
                }
                start_flow(Stepper::new(who, &doors[who / 2 % 2], random).flow())
            });
            for flow in flows.collect::<Vec<_>>() {
                flow.await.expect("it ends");
            }
            check(&doors, &model).unwrap_or_else(|error| panic!("with seed {seed}, {error}"));
        }
    });
}

/// Runs clients that call, some on each of several threads. They wait some turns.
fn on_threads<L, M>(doors: &[Door<L, M>], seed: u64, gives_up_one_in: u32)
where
    L: Lock + Clone,
    M: Model<Operation = Asked, Answer = Answer>,
    Door<L, M>: Sync,
{
    let call = |who: usize| {
        let pause = async |time: u64| {
            for _ in 0..time / STEP {
                yield_now().await;
            }
        };
        let caller = Caller { who, doors: doors.to_vec(), pause, gives_up_one_in };
        caller.run(Random::new(seed * CLIENTS as u64 + who as u64))
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let runtime = runtime::Builder::new_current_thread().build().expect("a runtime");
                runtime.block_on(join_all((thread..CLIENTS).step_by(THREADS).map(call)));
            });
        }
    });
}

#[test]
fn a_mutex_does_on_threads_what_its_model_does() {
    for seed in 0..SEEDS_ON_THREADS {
        let (mutex, model) = mutex(&mut Random::new(seed));
        let doors = doors(|key| mutex.key(key));
        on_threads(&doors, seed, 3);
        check(&doors, &model).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(mutex.load(), Load::NONE);
    }
}

/// All is in one period, so who waits gives up.
#[actix::test]
async fn a_throttle_does_on_threads_what_its_model_does() {
    for seed in 0..SEEDS_ON_THREADS {
        let (throttle, model) = throttle(&mut Random::new(seed), LONG);
        let _ = throttle.address();
        let doors = doors(|key| throttle.key(key));
        on_threads(&doors, seed, 1);
        check(&doors, &model).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(throttle.load().queued, 0);
    }
}

/// A lock that takes one of its calls, now and then, for one of another key.
#[derive(Clone)]
struct Confused<L> {
    right: L,
    wrong: L,
    one_in: u32,
    calls: Rc<Cell<u32>>,
}

impl<L> Confused<L> {
    fn new(right: L, wrong: L, one_in: u32) -> Self {
        Self { right, wrong, one_in, calls: Rc::default() }
    }

    fn choose(&self) -> &L {
        let call = self.calls.get() + 1;
        self.calls.set(call);
        if call.is_multiple_of(self.one_in) { &self.wrong } else { &self.right }
    }
}

impl<L: Lock> Lock for Confused<L> {
    type Held = L::Held;

    fn enter(&self) -> impl Future<Output = Result<L::Held, Error>> {
        self.choose().enter()
    }

    fn try_enter(&self) -> Option<L::Held> {
        self.choose().try_enter()
    }
}

/// Whether the histories of clients that call show what this lock does.
fn is_noticed<L, M>(sim: &Sim, model: &M, key: impl Fn(&str) -> L) -> bool
where
    L: Lock + Clone + 'static,
    M: Model<Operation = Asked, Answer = Answer> + 'static,
{
    let doors = doors(|name| Confused::new(key(name), key("eve"), 4));
    for who in 0..CLIENTS {
        let random = Random::new(sim.random().number());
        sim.start(caller(who, &doors, random));
    }
    sim.run();
    check(&doors, model).is_err()
}

/// Fails unless most simulations notice.
fn assert_noticed(is_noticed: impl Fn(&Sim) -> bool) {
    let noticed = Cell::new(0);
    sim::check_with(&exact(), 0..SEEDS, |sim| {
        noticed.set(noticed.get() + u64::from(is_noticed(sim)));
    });
    let noticed = noticed.get();
    assert!(noticed > SEEDS / 2, "{noticed} of {SEEDS}");
}

#[test]
fn a_mutex_that_confuses_its_keys_is_noticed() {
    assert_noticed(|sim| {
        let (mutex, model) = mutex(&mut sim.random());
        is_noticed(sim, &model, |name| mutex.key(name))
    });
}

#[test]
fn a_throttle_that_confuses_its_keys_is_noticed() {
    assert_noticed(|sim| {
        let (throttle, model) = throttle(&mut sim.random(), 2 * STEP);
        is_noticed(sim, &model, |name| throttle.key(name))
    });
}

/// Has three clients ask a lock that takes the last of them for one of another key.
fn three_enter<L: Lock + Clone, M>(key: impl Fn(&str) -> L, model: &M, expected: Expect)
where
    M: Model<Operation = Asked, Answer = Answer>,
{
    let door = Door::new(Confused::new(key("ann"), key("eve"), 3));
    let held = [0, 1, 2].map(|who| {
        let asked = door.invoke(who, Action::Lock, Time::ZERO);
        let held = door.lock.enter().now_or_never().expect("it need not wait");
        door.answer(asked, Answer::Enters);
        held.expect("there is room")
    });
    expected.assert_eq(&door.check(model).expect_err("three are inside").to_string());
    drop(held);
}

#[test]
fn a_mutex_that_lets_one_more_in_is_refused() {
    let mutex = Mutex::new(mutex::Options { max: 2, max_queue: None });
    let model = model::Mutex { max: 2, max_queue: usize::MAX };
    three_enter(
        |key| mutex.key(key),
        &model,
        expect![[r#"
        no order of the operations explains the answer at 5:
            0..1: Lock by 0 at 0 ms -> Enters
            2..3: Lock by 1 at 0 ms -> Enters
            4..5: Lock by 2 at 0 ms -> Enters
          a state before that answer: Room { inside: {0: 1, 1: 1}, queue: [] }
    "#]],
    );
}

#[actix::test]
async fn a_throttle_that_counts_one_too_few_is_refused() {
    let throttle = Throttle::start(throttle::Options { max: 2, period: ms(LONG), max_queue: None });
    let model = model::Throttle { max: 2, max_queue: usize::MAX, period: LONG };
    three_enter(
        |key| throttle.key(key),
        &model,
        expect![[r#"
        no order of the operations explains the answer at 5:
            0..1: Lock by 0 at 0 ms -> Enters
            2..3: Lock by 1 at 0 ms -> Enters
            4..5: Lock by 2 at 0 ms -> Enters
          a state before that answer: Period { end: Some(3600000), entered: [0, 1], queue: [] }
    "#]],
    );
}
