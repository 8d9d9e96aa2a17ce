//! The order in which policies nest (FTN12 §1.11.3).

use std::cell::Cell;
use std::rc::Rc;

use asyncsteps_core::sync::{ISync, Mutex, Section, mutex};
use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{AsyncSteps, Error, Flow, Retry, RunContext, StepResult, Template, codes};

use crate::forms::support::{Dropped, Log, fails, ms, now, pause, run, tool};

/// An object that logs who enters and leaves it.
#[derive(Clone)]
struct Gate(Log, &'static str, &'static str);

impl ISync for Gate {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        self.0.add(self.1);
        asi.hold(Dropped(self.0.clone(), self.2));
        section.enter(asi)
    }
}

#[test]
fn policies_nest_in_one_order_whatever_the_order_of_writing() {
    for order in 0..3 {
        let log = Log::default();
        let (lock, limiter) =
            (Gate(log.clone(), "lock", "lock"), Gate(log.clone(), "limit", "limit"));
        let retry = Retry::attempts(2).on_code("Flaky");
        let (body, handler) = (log.clone(), log.clone());
        let body = async move |()| {
            body.add("body");
            Err::<(), _>(Error::new("Flaky"))?;
            Ok(())
        };
        let handler = move |asi: &mut AsyncSteps, error: &Error| {
            handler.add(format_args!("{}*{:?}", error.code(), error.attempts()));
            asi.success(())
        };
        let mut flow = Flow::new();
        match order {
            0 => flow.run(body).locked(&lock).retry(retry).limited(&limiter).on_error(handler),
            1 => flow.run(body).on_error(handler).limited(&limiter).retry(retry).locked(&lock),
            _ => flow.run(body).retry(retry).on_error(handler).locked(&lock).limited(&limiter),
        };
        run::<()>(flow).0.expect("the handler recovers");
        let expected = "lock limit body -limit limit body -limit Flaky*Some(2) -lock";
        assert_eq!(log.take(), expected, "order {order}");
    }
}

#[test]
fn several_locks_and_limiters_are_held_in_the_order_of_writing() {
    #[derive(Clone)]
    struct Shared(&'static str);

    thread_local! {
        static LOG: Log = Log::default();
    }

    impl ISync for Shared {
        fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
            Gate(LOG.with(Clone::clone), self.0, self.0).sync(asi, section)
        }
    }

    let (one, two) = (Shared("one"), Shared("two"));
    let (ten, five) = (Shared("ten"), Shared("five"));
    let mut flow = Flow::new();
    flow.run(async |()| Ok(())).limited(&ten).locked(&one).limited(&five).locked(&two);
    run::<()>(flow).0.expect("it succeeds");
    let of_flow = LOG.with(Log::take);
    let template = Template::build(|asi| {
        asi.run(async |()| Ok(())).limited(&ten).locked(&one).limited(&five).locked(&two);
    });
    run::<()>(template.flow()).0.expect("it succeeds");
    assert_eq!(of_flow, "one two ten five -five -ten -two -one");
    assert_eq!(LOG.with(Log::take), of_flow);
}

#[test]
fn both_locks_of_a_step_are_waited_for_and_released() {
    let (one, two, log) = (Mutex::default(), Mutex::default(), Log::default());
    let tool = tool();
    for (name, first, second) in [("a", &one, &two), ("b", &one, &two), ("c", &two, &two)] {
        let log = log.clone();
        let mut flow = Flow::new();
        flow.add(move |asi, ()| {
            log.add(name);
            asi.sleep(ms(10));
        })
        .locked(first)
        .locked(second);
        let promise = flow.promise::<(), _>(&tool);
        tool.spawn(async move { drop(promise.await) });
    }
    let clock = tool.clone();
    let _ = tool.complete(Box::pin(async move { pause(&clock, ms(100)).await }));
    // the last one asked for the second lock before the one in the middle had the first
    assert_eq!(log.take(), "a c b");
    assert_eq!((one.holders(), two.holders(), one.queued(), two.queued()), (0, 0, 0, 0));
}

#[test]
fn waiting_for_a_lock_and_a_place_does_not_count_as_time_of_the_step() {
    let (lock, limiter) = (Mutex::default(), Mutex::default());
    let tool = tool();
    let mut ends = Vec::new();
    for _ in 0..3 {
        let mut flow = Flow::new();
        flow.add(|asi, ()| {
            asi.sleep(ms(8));
        })
        .timeout(ms(10))
        .limited(&limiter)
        .locked(&lock);
        ends.push(flow.promise::<(), _>(&tool));
    }
    let all = async {
        for end in ends {
            end.await?;
        }
        Ok::<(), Error>(())
    };
    // polled one after the other, they still wait for each other
    tool.complete(Box::pin(all)).expect("all end").expect("no limit expires");
    assert_eq!(now(&tool), 24);
    assert_eq!((lock.holders(), limiter.holders()), (0, 0));
}

#[test]
fn a_place_is_free_during_the_pause_between_attempts() {
    let limiter = Mutex::default();
    let (watched, held) = (limiter.clone(), Rc::new(Cell::new(9)));
    let seen = Rc::clone(&held);
    let tool = tool();
    let mut flow = Flow::new();
    flow.run(async |()| Err::<(), _>(Error::new("Flaky").into()))
        .limited(&limiter)
        .retry(Retry::attempts(2).backoff(ms(100)).on_code("Flaky"));
    tool.deferred(ms(50), move || seen.set(watched.holders()));
    let promise = flow.promise::<(), _>(&tool);
    let error = tool.complete(promise).expect("it ends").expect_err("it gives up");
    assert_eq!((error.code(), held.get(), now(&tool)), ("Flaky", 0, 100));
}

#[test]
fn a_contended_place_is_waited_for_by_each_attempt() {
    let limiter = Mutex::default();
    let tool = tool();
    let mut first = Flow::new();
    first.sync(&limiter, |asi, ()| {
        asi.sleep(ms(40));
    });
    let first = first.promise::<(), _>(&tool);
    tool.spawn(async move { first.await.expect("nothing fails") });
    let mut flow = Flow::new();
    flow.run(async |()| std::future::pending::<Result<(), _>>().await)
        .timeout(ms(10))
        .limited(&limiter)
        .retry(Retry::attempts(3).backoff(ms(5)).factor(1));
    let promise = flow.promise::<(), _>(&tool);
    let both = async move {
        std::future::poll_fn(|cx| {
            // the first flow is first
            cx.waker().wake_by_ref();
            std::task::Poll::Ready(())
        })
        .await;
        promise.await
    };
    let error = tool.complete(Box::pin(both)).expect("it ends").expect_err("it gives up");
    assert_eq!((error.code(), error.attempts()), (codes::TIMEOUT, Some(3)));
    // 40 ms for the place, then three times 10 ms with two pauses of 5 ms
    assert_eq!((now(&tool), limiter.holders()), (80, 0));
}

#[test]
fn a_rejection_goes_to_the_handler_of_the_step() {
    let lock = Mutex::new(mutex::Options { max_queue: Some(0), ..mutex::Options::default() });
    let mut flow = Flow::new();
    let again = lock.clone();
    flow.sync(&lock, move |asi, ()| {
        asi.parallel(move |p| {
            p.add(|_, ()| {}).locked(&again).on_error(|asi, error| {
                assert_eq!(error.code(), codes::DEFENSE_REJECTED);
                asi.success(())
            });
        });
    });
    run::<()>(flow).0.expect("the branch recovers");
}

#[test]
fn parallel_steps_and_loops_hold_their_lock_to_the_end() {
    let log = Log::default();
    let gate = Gate(log.clone(), "lock", "lock");
    let mut flow = Flow::new();
    let (a, b, c) = (log.clone(), log.clone(), log.clone());
    flow.parallel(move |p| {
        p.add(move |asi, ()| {
            asi.sleep(ms(1));
            asi.add(move |_, ()| a.add("branch"));
        });
    })
    .locked(&gate);
    flow.success_step(()).locked(&gate);
    flow.sync(&Mutex::default(), move |_, ()| b.add("section")).locked(&gate).timeout(ms(5));
    flow.await_(async move {
        c.add("future");
        Ok::<(), Error>(())
    })
    .locked(&gate);
    run::<()>(flow).0.expect("nothing fails");
    let expected = "lock branch -lock lock -lock lock section -lock lock future -lock";
    assert_eq!(log.take(), expected);
}

#[test]
fn the_handler_of_a_synchronised_step_stays_inside_of_its_section() {
    let log = Log::default();
    let (gate, inner) = (Gate(log.clone(), "outer", "outer"), Gate(log.clone(), "inner", "inner"));
    let handler = log.clone();
    let mut flow = Flow::new();
    flow.sync(&inner, |asi, ()| asi.error("Mine", ())).locked(&gate).on_error(move |asi, _| {
        handler.add("handler");
        asi.success(())
    });
    run::<()>(flow).0.expect("the handler recovers");
    assert_eq!(log.take(), "outer inner handler -inner -outer");
}

#[test]
fn a_template_chooses_its_locks_when_a_step_starts() {
    struct Locks([Gate; 2], Gate);
    let log = Log::default();
    let template = Template::build(|asi| {
        asi.run_with(async |run: RunContext, (number, text): (usize, String)| {
            if run.attempt == 1 {
                Err(Error::new("Flaky"))?;
            }
            Ok(format!("{number}{text}"))
        })
        .locked_by(|asi, (number, _)| asi.extension::<Locks>()?.0.get(*number).cloned())
        .locked_by(|asi, (number, text)| {
            assert_eq!(text, "th");
            asi.extension::<Locks>().filter(|_| *number == 1).map(|locks| locks.0[0].clone())
        })
        .limited_by(|asi, _| Some(asi.extension::<Locks>()?.1.clone()))
        .retry(Retry::attempts(2).on_code("Flaky"));
    });
    let gate = |name| Gate(log.clone(), name, name);
    for (number, expected) in [
        (0, "zero place -place place -place -zero"),
        (1, "one zero place -place place -place -zero -one"),
        (2, "place -place place -place"),
    ] {
        let mut flow = template.flow();
        flow.extend(Locks([gate("zero"), gate("one")], gate("place")));
        flow.pass((number, "th".to_owned()));
        assert_eq!(run::<String>(flow).0.expect("the second time"), format!("{number}th"));
        assert_eq!(log.take(), expected);
    }
}

#[test]
fn templates_share_locks_and_policies() {
    let template = Template::build(|asi| {
        asi.add(|asi, n: u32| {
            let attempt = asi.attempt();
            if attempt < n {
                return asi.error("Flaky", ());
            }
            asi.success(attempt)
        })
        .retry(Retry::attempts(5).backoff(ms(10)).factor(1).on_code("Flaky"));
    });
    for n in [1, 4] {
        let mut flow = template.flow();
        flow.pass(n);
        let (attempt, took) = run::<u32>(flow);
        assert_eq!((attempt.expect("in time"), took), (n, u128::from(n - 1) * 10));
    }
    let mut flow = template.flow();
    flow.pass(6u32);
    assert_eq!(fails(flow), ("Flaky".to_owned(), 40));
}
