//! Steps that are tried again (FTN12 §1.2.1).

use std::future::pending;
use std::io;
use std::rc::Rc;

use asyncsteps_core::tool::AsyncTool;
use asyncsteps_core::{
    Error, Flow, Retry, RunContext, StepEnd, StepError, StepRef, Template, UndoPolicy, codes,
};

use crate::forms::support::{Log, fails, ms, now, run, tool};

/// The times of the attempts of a step that always fails.
fn times(retry: Retry, seed: Option<u64>) -> String {
    let (tool, log) = (tool(), Log::default());
    let (clock, times) = (tool.clone(), log.clone());
    let mut flow = Flow::new();
    if let Some(seed) = seed {
        flow.seed(seed);
    }
    flow.run(async move |()| {
        times.add(now(&clock));
        Err::<(), _>(Error::new("Flaky"))?;
        Ok(())
    })
    .retry(retry.on_code("Flaky"));
    let promise = flow.promise::<(), _>(&tool);
    let error = tool.complete(promise).expect("it ends").expect_err("it gives up");
    assert_eq!(error.code(), "Flaky");
    log.take()
}

#[test]
fn pauses_grow_and_the_last_error_says_how_often_it_was_tried() {
    assert_eq!(times(Retry::attempts(4).backoff(ms(100)), None), "0 100 300 700");
    assert_eq!(times(Retry::attempts(4).backoff(ms(100)).factor(1), None), "0 100 200 300");
    assert_eq!(times(Retry::attempts(3), None), "0 0 0");
    assert_eq!(times(Retry::attempts(0), None), "0");
}

#[test]
fn jitter_is_repeated_by_the_seed() {
    let retry = || Retry::attempts(5).backoff(ms(1000)).jitter();
    let (one, other) = (times(retry(), Some(1)), times(retry(), Some(2)));
    assert_eq!(one, times(retry(), Some(1)));
    assert_ne!(one, other);
    for times in [one, other, times(retry(), None)] {
        let times: Vec<u64> = times.split(' ').map(|time| time.parse().expect("ms")).collect();
        let pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (pause, longest) in pauses.iter().zip([1000, 2000, 4000, 8000]) {
            assert!((longest / 2..=longest).contains(pause), "{pauses:?}");
        }
    }
}

#[test]
fn a_simulation_repeats_jitter() {
    let run = |seed| {
        let log = Log::default();
        asyncsteps_core::sim::check([seed], |sim| {
            let started = [0, 1].map(|_| {
                let (sim_now, log) = (sim.clone(), log.clone());
                let mut flow = Flow::new();
                flow.run(async move |()| {
                    log.add(sim_now.now());
                    Err::<(), _>(Error::new(codes::TIMEOUT))?;
                    Ok(())
                })
                .retry(Retry::attempts(3).backoff(ms(1000)).jitter());
                sim.start(flow)
            });
            sim.run();
            started.iter().for_each(|flow| flow.assert_error(codes::TIMEOUT));
        });
        log.take()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn only_timeouts_and_what_the_policy_names_is_tried_again() {
    async fn refused(_: ()) -> Result<(), StepError> {
        Err(io::Error::from(io::ErrorKind::ConnectionRefused))?
    }
    let attempts = |retry: Retry| {
        let mut flow = Flow::new();
        flow.run(refused).retry(retry);
        run::<()>(flow).0.expect_err("it gives up").attempts()
    };
    let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
    assert_eq!(attempts(Retry::attempts(3)), Some(1));
    assert_eq!(attempts(Retry::attempts(3).on(is_reset)), Some(1));
    assert_eq!(attempts(Retry::attempts(3).on(is_reset).on(is_refused)), Some(3));
    assert_eq!(attempts(Retry::attempts(3).on_code(codes::INTERNAL_ERROR)), Some(3));
}

#[test]
fn a_limit_of_each_attempt_is_tried_again() {
    let mut flow = Flow::new();
    flow.run_with(async |cx: RunContext, text: String| {
        if cx.attempt < 3 {
            pending::<()>().await;
        }
        Ok(format!("{text} after {}", cx.attempt))
    })
    .timeout(ms(300))
    .retry(Retry::attempts(5).backoff(ms(50)));
    flow.pass("done");
    let (text, took) = run::<String>(flow);
    assert_eq!((text.expect("in time"), took), ("done after 3".to_owned(), 300 + 50 + 300 + 100));
}

#[test]
fn a_hard_limit_around_the_attempts_is_sharp() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.run(async |()| pending::<Result<(), _>>().await)
            .timeout(ms(300))
            .retry(Retry::attempts(9).backoff(ms(10)));
    })
    .timeout(ms(500));
    assert_eq!(fails(flow), ("Timeout".to_owned(), 500));
}

#[test]
fn a_limit_that_a_step_around_has_set_is_not_tried_again() {
    let mut flow = Flow::new();
    flow.add(|asi, ()| {
        asi.set_timeout(ms(500));
        asi.run(async |()| pending::<Result<(), _>>().await)
            .timeout(ms(300))
            .retry(Retry::attempts(9).backoff(ms(10)));
    });
    let (result, took) = run::<()>(flow);
    let error = result.expect_err("the outer limit");
    assert_eq!((error.limit(), took), (Some(ms(500)), 500));
}

#[test]
fn all_attempts_together_can_be_limited() {
    let cut = |body: u64, within: u64| {
        let mut flow = Flow::new();
        flow.run(async |()| pending::<Result<(), _>>().await)
            .timeout(ms(body))
            .retry(Retry::attempts(9).backoff(ms(100)).factor(1).within(ms(within)));
        let (result, took) = run::<()>(flow);
        let error = result.expect_err("it gives up");
        (error.limit().unwrap_or_default(), error.attempts(), took)
    };
    // the second attempt is cut
    assert_eq!(cut(300, 500), (ms(500), None, 500));
    // the pause after the second attempt would take too long
    assert_eq!(cut(200, 550), (ms(200), Some(2), 500));
}

#[test]
fn the_attempt_is_seen_in_callbacks_waits_and_traces() {
    struct Seen(Log);
    impl asyncsteps_core::Observer for Seen {
        fn begin(&mut self, step: StepRef) {
            self.0.add(format_args!("{}:{}", step.location.name().unwrap_or("-"), step.attempt));
        }
        fn enter(&mut self, _: StepRef) {}
        fn leave(&mut self, _: StepRef) {}
        fn end(&mut self, _: StepRef, end: StepEnd<'_>) {
            if let StepEnd::Error(error) = end {
                self.0.add(error.code());
            }
        }
        fn cancel_failed(&mut self, _: StepRef, _: &Error) {}
    }
    let log = Log::default();
    let mut flow = Flow::new();
    flow.observe(Seen(log.clone()));
    flow.run_with(async |cx: RunContext, ()| {
        if cx.attempt == 1 {
            Err(Error::new(codes::TIMEOUT))?;
        }
        pending::<Result<(), _>>().await
    })
    .named("ask")
    .retry(Retry::attempts(2));
    let mut execution = flow.execute();
    let _ = execution.run(asyncsteps_core::Time::ZERO, std::task::Waker::noop());
    let waits = execution.waits();
    assert_eq!((waits[0].attempt, &*log.take()), (2, "ask:1 ask:1 Timeout ask:2"));
}

#[test]
fn a_value_that_is_kept_for_the_next_attempt_is_only_cloned() {
    let mut flow = Flow::new();
    flow.pass(Rc::new(5));
    flow.run_with(async |cx: RunContext, value: Rc<i32>| {
        if cx.attempt < 3 {
            Err(Error::new(codes::TIMEOUT))?;
        }
        // the last attempt has the only one
        Ok(Rc::try_unwrap(value).ok())
    })
    .retry(Retry::attempts(3));
    assert_eq!(run::<Option<i32>>(flow).0.expect("the third time"), Some(5));
}

#[test]
fn a_step_inside_of_an_attempt_can_have_attempts_of_its_own() {
    let log = Log::default();
    let own = log.clone();
    let template = {
        let retry = || Retry::attempts(2).on_code("Flaky");
        Template::build(|asi| {
            asi.add(move |asi, ()| {
                let outer = asi.attempt();
                asi.state_mut().set("outer", outer);
                asi.add(|asi, ()| {
                    let outer = asi.state().get::<u32>("outer").copied().unwrap_or_default();
                    asi.success(outer)
                });
                asi.run_with(async |cx: RunContext, outer: u32| {
                    if (outer, cx.attempt) == (2, 2) {
                        return Ok((outer, cx.attempt));
                    }
                    Err(Error::new("Flaky"))?
                })
                .retry(retry());
            })
            .retry(retry());
        })
    };
    let (last, _) = run::<(u32, u32)>(template.flow());
    own.add(format_args!("{:?}", last.expect("the last of four")));
    assert_eq!(log.take(), "(2, 2)");
}

#[test]
fn a_limit_around_is_seen_also_when_another_branch_has_one_meanwhile() {
    let template = Template::build(|asi| {
        asi.add(|asi, ()| {
            let slow = UndoPolicy::default().timeout(ms(100));
            asi.run(async |()| Ok(1)).undo_with(slow, async |_| pending().await);
            asi.add(|asi, _: i32| {
                asi.sleep(ms(300));
            });
        })
        .retry(Retry::attempts(3));
    });
    let mut flow = Flow::new();
    flow.parallel(move |p| {
        p.add(move |asi, ()| {
            asi.set_timeout(ms(50));
            asi.copy_from(&template);
        });
        p.add(|asi, ()| {
            // it expires while the other branch waits for its undo
            asi.set_timeout(ms(60));
            asi.sleep(ms(1000));
        })
        .on_error(|asi, _| asi.success(()));
    });
    assert_eq!(fails(flow), (codes::TIMEOUT.to_owned(), 150));
}
