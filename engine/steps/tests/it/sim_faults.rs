//! Faults by the names of steps, and flows that are cut everywhere.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_core::sim::{self, Cut, Options, Sim};
use asyncsteps_core::sync::Mutex;
use asyncsteps_core::{Completion, Error, Flow, Outcome, Retry, Template, Undo, codes, sleep};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The report of a check that has to fail.
fn report(check: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(check)).expect_err("it fails");
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.expect("a report is text").to_owned()
}

/// A bank and a ledger, as the outside world sees them.
#[derive(Default)]
struct World {
    charges: Cell<u32>,
    refunds: Cell<u32>,
    records: Cell<u32>,
}

/// Charges, with three tries, then records; refunds if anything ends it in between.
fn charge(world: &Rc<World>, customers: &Mutex) -> Flow {
    let (bank, refunds, ledger) = (Rc::clone(world), Rc::clone(world), Rc::clone(world));
    let mut flow = Flow::new();
    flow.scope(move |asi, ()| {
        asi.run(async move |()| {
            sleep(ms(20)).await;
            bank.charges.set(1);
            sleep(ms(5)).await;
            Ok(7)
        })
        .named("bank")
        .timeout(ms(100))
        .retry(Retry::attempts(3).backoff(ms(10)))
        .undo(async move |_: Undo<&i32>| {
            sleep(ms(3)).await;
            // any number of times, by the key of the charge
            refunds.refunds.set(refunds.charges.get());
            Ok(())
        });
        asi.run(async move |_: i32| {
            sleep(ms(10)).await;
            ledger.records.set(1);
            Ok(())
        })
        .named("record");
    })
    .named("charge")
    .locked(customers);
    flow
}

/// What is left of a charge when it is over.
fn is_consistent(world: &World, outcome: &Outcome) {
    let (charged, refunded) = (world.charges.get(), world.refunds.get());
    match outcome {
        Outcome::Success(_) => assert_eq!((charged, refunded, world.records.get()), (1, 0, 1)),
        Outcome::Error(_) | Outcome::Cancelled => assert_eq!(charged, refunded, "refunded"),
    }
}

fn exact() -> Options {
    Options { lateness: Duration::ZERO, ..Options::default() }
}

#[test]
fn a_flow_is_undone_wherever_it_is_cut() {
    let cuts = [Cut::Cancel, Cut::Drop, Cut::Timeout, Cut::Error(Error::new("Cut"))];
    for cut in cuts {
        let runs = Cell::new(0);
        sim::cut_everywhere(&cut, &exact(), [1, 2], |_| {
            let (world, customers) = (Rc::new(World::default()), Mutex::default());
            let flow = charge(&world, &customers);
            let runs = &runs;
            (flow, move |outcome: Outcome| {
                runs.set(runs.get() + 1);
                is_consistent(&world, &outcome);
                assert_eq!((customers.holders(), customers.queued()), (0, 0));
            })
        });
        assert!(runs.get() > 20, "{cut}: {}", runs.get());
    }
}

#[test]
fn an_undo_that_was_forgotten_is_found_with_the_moment_of_the_cut() {
    let found = report(|| {
        sim::cancel_everywhere([5], |_| {
            let world = Rc::new(World::default());
            let bank = Rc::clone(&world);
            let mut flow = Flow::new();
            flow.run(async move |()| {
                bank.charges.set(1);
                Ok(())
            })
            .named("bank");
            flow.run(async |()| {
                sleep(ms(10)).await;
                Ok(())
            })
            .named("record");
            (flow, move |outcome: Outcome| {
                if !matches!(outcome, Outcome::Success(_)) {
                    assert_eq!(world.charges.get(), world.refunds.get(), "refunded");
                }
            })
        });
    });
    assert!(found.contains("the flow was cut by a cancel at moment 1, between steps"), "{found}");
    assert!(found.contains("seed 5") && found.contains("refunded"), "{found}");
}

#[test]
fn each_kind_of_cut_ends_a_flow_in_its_own_way() {
    let ends = |cut: &Cut| {
        let ends = RefCell::new(Vec::new());
        sim::cut_everywhere(cut, &exact(), [1], |_| {
            let mut flow = Flow::new();
            flow.parallel(|p| {
                for name in ["left", "right"] {
                    p.run(async |()| {
                        sleep(ms(5)).await;
                        Ok(())
                    })
                    .named(name);
                }
            });
            let ends = &ends;
            (flow, move |outcome| {
                ends.borrow_mut().push(match outcome {
                    Outcome::Success(_) => "success".to_owned(),
                    Outcome::Cancelled => "cancelled".to_owned(),
                    Outcome::Error(error) => match error.location() {
                        Some(step) => format!("{} {:?}", error.code(), step.name()),
                        None => error.code().to_owned(),
                    },
                });
            })
        });
        let ends = ends.into_inner();
        let (first, others) = ends.split_first().expect("it runs");
        assert_eq!(first, "success", "the first run is not cut");
        others.to_vec()
    };
    for cut in [Cut::Cancel, Cut::Drop] {
        assert!(ends(&cut).iter().all(|end| end == "cancelled"));
    }
    assert!(ends(&Cut::Timeout).iter().all(|end| end.starts_with("Timeout")));
    let errors = ends(&Cut::Error(Error::new("Cut")));
    for name in ["left", "right"] {
        let own = format!("Cut {:?}", Some(name));
        assert!(errors.contains(&own), "the steps of both branches fail: {errors:?}");
    }
    assert!(errors.contains(&"Cut None".to_owned()), "and so does the step around: {errors:?}");
}

/// Runs a charge with faults; gives the code and what happened outside.
fn with_faults(faults: impl Fn(&Sim)) -> (String, [u32; 3]) {
    let ended = RefCell::default();
    sim::check_with(&exact(), [1], |sim| {
        faults(sim);
        let world = Rc::new(World::default());
        let started = sim.start(charge(&world, &Mutex::default()));
        sim.run();
        let code = match started.take_outcome() {
            Some(Outcome::Error(error)) => error.code().to_owned(),
            outcome => format!("{outcome:?}").split('(').next().unwrap_or_default().to_owned(),
        };
        let World { charges, refunds, records } = &*world;
        ended.replace((code, [charges.get(), refunds.get(), records.get()]));
    });
    ended.into_inner()
}

#[test]
fn a_step_fails_by_its_name_in_every_attempt_or_in_one() {
    let lost = || Error::new("Lost");
    assert_eq!(with_faults(|sim| sim.fail("record", lost())), ("Lost".to_owned(), [1, 1, 0]));
    assert_eq!(with_faults(|sim| sim.fail("bank", lost())), ("Lost".to_owned(), [0, 0, 0]));
    let late = || Error::new(codes::TIMEOUT);
    let once = with_faults(|sim| sim.fail_nth("bank", 1, late()));
    assert_eq!(once.1, [1, 0, 1], "another attempt succeeds: {once:?}");
    let twice = with_faults(|sim| {
        sim.fail_nth("bank", 1, late());
        sim.fail_nth("bank", 2, lost());
    });
    assert_eq!(twice, ("Lost".to_owned(), [0, 0, 0]), "that error is not tried again");
}

#[test]
fn a_step_that_was_begun_is_cut_by_its_name() {
    assert_eq!(with_faults(|sim| sim.cancel_at("record")), ("Some".to_owned(), [1, 1, 0]));
    assert_eq!(with_faults(|sim| sim.cancel_at("bank")), ("Some".to_owned(), [0, 0, 0]));
}

#[test]
fn faults_strike_steps_of_templates_and_shielded_ones() {
    let template = Template::build(|asi| {
        asi.run(async |()| Ok(1)).named("plain");
        asi.run(async |_: i32| Ok(2)).named("planned").timeout(ms(10));
        asi.run(async |_: i32| Ok(3)).named("shielded").shielded();
        asi.add(|_, _: i32| {}).named("callback");
    });
    for step in ["plain", "planned", "shielded", "callback"] {
        sim::check([1], |sim| {
            sim.fail_nth(step, 1, Error::new("Struck"));
            let started = sim.start(template.flow());
            let second = sim.start(template.flow());
            sim.run();
            let ends = [started, second].map(|flow| match flow.take_outcome() {
                Some(Outcome::Error(error)) => error.location().and_then(|step| step.name()),
                _ => None,
            });
            assert!(ends == [Some(step), None] || ends == [None, Some(step)], "{ends:?}");
        });
    }
}

#[test]
fn a_fault_that_strikes_nowhere_is_reported() {
    let found = report(|| {
        sim::check([1, 2], |sim| {
            sim.fail("recrod", Error::new("Lost"));
            sim.start(charge(&Rc::default(), &Mutex::default()));
        });
    });
    assert_eq!(
        found,
        "the fault of step `recrod` struck in no run: no step of this name started; the names of those \
         that did: `bank`, `charge`, `record`"
    );
    let found = report(|| {
        sim::check([1, 2], |sim| {
            sim.fail_nth("bank", 1, Error::new("Lost"));
            sim.fail_nth("bank", 3, Error::new("Lost"));
            let charged = sim.start(charge(&Rc::default(), &Mutex::default()));
            sim.run();
            charged.assert_error("Lost");
        });
    });
    assert_eq!(
        found,
        "the fault of body 3 of step `bank` struck in no run: at most 1 of its bodies started"
    );
    let found = report(|| {
        sim::cancel_everywhere([1], |sim| {
            sim.fail("bnak", Error::new("Lost"));
            (charge(&Rc::default(), &Mutex::default()), drop)
        });
    });
    assert!(found.contains("the fault of step `bnak` struck in no run"), "{found}");
}

#[test]
fn a_flow_that_fails_uncut_is_reported_unless_a_fault_strikes_in_it() {
    let runs = Cell::new(0);
    let failing = |_: &Sim| {
        runs.set(runs.get() + 1);
        let mut flow = charge(&Rc::default(), &Mutex::default());
        flow.error_step(Error::new("OutOfStock")).named("look");
        (flow, drop)
    };
    let found = report(|| sim::cancel_everywhere([1], failing));
    assert_eq!(runs.get(), 1, "the first run is enough");
    assert!(found.starts_with("the flow was not cut\n"), "{found}");
    assert!(
        found.contains("has to succeed when it is not cut, but it fails: OutOfStock"),
        "{found}"
    );
    sim::cancel_everywhere([1], |sim| {
        sim.fail("record", Error::new("Lost"));
        let world = Rc::new(World::default());
        let flow = charge(&world, &Mutex::default());
        (flow, move |outcome: Outcome| is_consistent(&world, &outcome))
    });
}

#[test]
fn each_moment_of_an_error_is_one_at_which_a_step_fails() {
    let ends = RefCell::new(Vec::new());
    sim::cut_everywhere(&Cut::Error(Error::new("Cut")), &exact(), [1, 2], |_| {
        let flow = charge(&Rc::default(), &Mutex::default());
        let ends = &ends;
        (flow, move |outcome| ends.borrow_mut().push(matches!(outcome, Outcome::Success(_))))
    });
    // nothing recovers from this error, nor is it tried again
    let (runs, uncut) = (ends.borrow().len(), ends.borrow().iter().filter(|ok| **ok).count());
    assert!(runs > 10 && uncut == 2, "{uncut} of {runs}");
}

/// Charges and then fails; how often its undo began and ended, which is idempotent if it is by key.
fn charge_and_fail(begun: &Rc<Cell<u32>>, balance: &Rc<Cell<i32>>, is_by_key: bool) -> Flow {
    let (bank, refund, begun) = (Rc::clone(balance), Rc::clone(balance), Rc::clone(begun));
    let mut flow = Flow::new();
    flow.run(async move |()| {
        bank.set(-5);
        Ok(())
    })
    .named("bank")
    .undo(async move |_: Undo<&()>| {
        begun.update(|count| count + 1);
        sleep(ms(3)).await;
        if is_by_key {
            refund.set(0);
        } else {
            refund.update(|balance| balance + 5);
        }
        sleep(ms(3)).await;
        Ok(())
    });
    flow.run(async |()| Ok(())).named("record");
    flow
}

#[test]
fn an_undo_that_is_not_by_key_is_found_by_a_second_run_and_by_a_cut() {
    let refund = |is_by_key, cut: Option<&Cut>| {
        let counts = Rc::new(RefCell::new(Vec::new()));
        let ended = Rc::clone(&counts);
        let scenario = move |sim: &Sim| {
            sim.fail("record", Error::new("Lost"));
            if cut.is_none() {
                sim.undo_twice();
            }
            let (begun, balance, ended) = (Rc::default(), Rc::default(), Rc::clone(&ended));
            let flow = charge_and_fail(&begun, &balance, is_by_key);
            (flow, move |_: Outcome| {
                ended.borrow_mut().push(begun.get());
                assert_eq!(balance.get(), 0, "refunded");
            })
        };
        sim::cut_everywhere(cut.unwrap_or(&Cut::Cancel), &exact(), [1], scenario);
        counts.take()
    };
    let cut = refund(true, Some(&Cut::Undo));
    let [uncut, others @ ..] = &*cut else { panic!("it runs") };
    assert!(*uncut == 1 && others.len() >= 2 && others.iter().all(|runs| *runs == 2), "{cut:?}");
    let twice = refund(true, None);
    assert!(twice.len() > 3 && twice.iter().all(|runs| *runs == 2 || *runs == 0), "{twice:?}");
    for cut in [None, Some(&Cut::Undo)] {
        let found = report(|| drop(refund(false, cut)));
        assert!(found.contains("refunded"), "{found}");
        let is_named =
            found.contains("was cut by a crash") && found.contains("in the undo of step `bank`");
        assert_eq!(is_named, cut.is_some(), "{found}");
    }
}

#[test]
fn undos_of_which_none_runs_twice_or_is_cut_are_reported() {
    let found = report(|| {
        sim::check([1, 2], |sim| {
            sim.undo_twice();
            sim.start(charge(&Rc::default(), &Mutex::default()));
        });
    });
    assert_eq!(found, "the fault `undo_twice` struck in no run: no undo succeeded");
    let found = report(|| {
        sim::cut_everywhere(&Cut::Undo, &exact(), [1], |_| {
            (charge(&Rc::default(), &Mutex::default()), drop)
        });
    });
    assert_eq!(found, "there was no moment at which a crash could cut the flow");
}

#[test]
fn a_run_in_which_every_flow_failed_is_a_failed_run() {
    let fail = |sim: &Sim| {
        let mut flow = Flow::new();
        flow.error_step(Error::with_info("OutOfStock", "no apples"));
        sim.start(flow)
    };
    let found = report(|| sim::check([1], |sim| drop([fail(sim), fail(sim)])));
    assert!(found.contains("every flow failed"), "{found}");
    assert!(found.contains("flow 1: OutOfStock: no apples, in the step at"), "{found}");
    sim::check([1], |sim| {
        let expected = fail(sim);
        sim.run();
        expected.assert_error("OutOfStock");
    });
    sim::check([1], |sim| {
        fail(sim);
        sim.start(Flow::new());
    });
    let found = report(|| {
        sim::check([1], |sim| {
            let failed = fail(sim);
            sim.run();
            failed.assert_success();
        });
    });
    assert!(found.contains("flow 0 failed: OutOfStock: no apples, in the step at"), "{found}");
    let found = report(|| sim::check([1], |sim| fail(sim).assert_success()));
    assert!(found.contains("flow 0 is not over"), "{found}");
    let found = report(|| {
        sim::check([1], |sim| {
            let failed = fail(sim);
            sim.run();
            failed.assert_error(codes::TIMEOUT);
        });
    });
    assert!(found.contains("flow 0 failed, but not with `Timeout`: OutOfStock"), "{found}");
}

#[test]
fn a_future_that_nothing_wakes_is_reported_with_its_step() {
    let found = report(|| {
        sim::check([1], |sim| {
            let mut flow = Flow::new();
            flow.run(async |()| {
                std::future::pending::<()>().await;
                Ok(())
            })
            .named("bank");
            sim.start(flow);
        });
    });
    assert!(found.contains("step `bank` at engine/steps/tests/it/sim_faults.rs:"), "{found}");
    assert!(found.contains("waits for a future that nothing here wakes"), "{found}");
}

#[test]
fn every_cut_leaves_locks_until_what_is_inside_is_undone() {
    for cut in [Cut::Cancel, Cut::Drop, Cut::Error(Error::new("Cut")), Cut::Timeout] {
        let holders = Rc::new(RefCell::new(Vec::new()));
        sim::cut_everywhere(&cut, &Options::default(), [1], |_| {
            let (lock, seen) = (Mutex::default(), Rc::clone(&holders));
            let held = lock.clone();
            let mut flow = Flow::new();
            flow.add(move |asi, ()| {
                asi.run(async |()| Ok(())).undo(async move |_: Undo<&()>| {
                    seen.borrow_mut().push(held.holders());
                    Ok(())
                });
                asi.run(async |()| {
                    sleep(ms(1000)).await;
                    Ok(())
                });
            })
            .locked(&lock);
            (flow, |_| ())
        });
        let holders = holders.borrow();
        assert!(
            !holders.is_empty() && holders.iter().all(|count| *count == 1),
            "{cut}: {holders:?}"
        );
    }
}

#[test]
fn a_result_that_was_accepted_reaches_its_step_wherever_the_flow_is_cut() {
    let fails = Cut::Error(Error::new("Cut"));
    for cut in [Cut::Timeout, Cut::Cancel, Cut::Drop, fails] {
        sim::cut_everywhere(&cut, &Options::default(), 0..10, |sim| {
            let completion = Rc::new(RefCell::new(None::<Completion>));
            let (accepted, lost) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
            let (waits, fails) = (Rc::clone(&completion), Rc::clone(&lost));
            let mut flow = Flow::new();
            flow.add(|asi, ()| {
                asi.add(move |asi, ()| {
                    asi.set_cancel(move |_| fails.set(true));
                    waits.replace(Some(asi.wait_external()));
                });
            });
            let accepts = Rc::clone(&accepted);
            let mut webhook = Flow::new();
            webhook.steps().sleep(ms(5));
            webhook.add(move |_, ()| {
                let completion = completion.take();
                accepts.set(completion.is_some_and(|completion| completion.success(()).is_ok()));
            });
            sim.start(webhook);
            (flow, move |_| assert!(!(accepted.get() && lost.get()), "accepted and lost"))
        });
    }
}
