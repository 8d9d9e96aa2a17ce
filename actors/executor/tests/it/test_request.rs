//! Requests of tests see what callers see, on a paused clock and in simulations.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use asyncsteps_actors::sync::{Limiter, Load, Mutex};
use asyncsteps_core::sim::{self, Cut, Options};
use asyncsteps_core::sync::limiter;
use asyncsteps_core::{Error, Outcome, Retry, Template, Undo, codes, sleep};
use asyncsteps_executor::iface::{Definition, Loader, Source};
use asyncsteps_executor::security::SecurityLevel::{Anonymous, SafeOps};
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::{Executor, RequestSteps};
use serde_json::{Value, json};

const PAYMENTS: &str = r#"{
    "iface": "acme.payments", "version": "1.0", "ftn3rev": "1.9",
    "types": { "Cents": { "type": "integer", "min": 1, "max": 1000 } },
    "funcs": {
        "charge": {
            "params": { "customer": "string", "amount": "Cents" },
            "result": { "charge": "integer" }, "throws": ["CardDeclined"], "seclvl": "SafeOps"
        },
        "wrong": { "result": { "number": "integer" } }
    },
    "requires": ["AllowAnonymous"]
}"#;

fn definition() -> Arc<Definition> {
    let source = Source::texts([("acme.payments-1.0-iface.json", PAYMENTS)]);
    let id = "acme.payments:1.0".parse().expect("an interface");
    Loader::new([source]).load(&id).expect("a definition")
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What the functions have done outside, and their locks.
#[derive(Clone)]
struct Service {
    balance: Arc<AtomicI32>,
    recorded: Arc<AtomicI32>,
    refunds: Arc<AtomicI32>,
    customers: Mutex,
    calls: Limiter,
}

impl Service {
    fn new() -> Self {
        let limits = limiter::Options {
            concurrent: 2,
            max_queue: None,
            rate: 4,
            period: ms(100),
            burst: None,
        };
        Self {
            balance: Arc::default(),
            recorded: Arc::default(),
            refunds: Arc::default(),
            customers: Mutex::new(Default::default()),
            calls: Limiter::new(limits),
        }
    }

    /// As production has it.
    fn executor(&self) -> Executor {
        let charge = self.charge();
        let wrong = Template::build(|asi| {
            asi.add(|asi, ()| asi.reply(json!({ "number": "none" })));
        });
        let builder = Executor::builder().interface(definition(), |functions| {
            functions.add("charge", &charge).add("wrong", &wrong);
        });
        builder.build().expect("a right configuration")
    }

    fn charge(&self) -> Template {
        let Self { balance, recorded, refunds, customers, calls } = self.clone();
        Template::build(move |asi| {
            let (bank, refund) = (Arc::clone(&balance), Arc::clone(&balance));
            let (recorded, calls) = (Arc::clone(&recorded), calls.clone());
            let refunds = Arc::clone(&refunds);
            asi.scope(move |asi, ()| {
                let amount: i32 = asi.param("amount")?;
                let (bank, refund) = (Arc::clone(&bank), Arc::clone(&refund));
                let (recorded, refunds) = (Arc::clone(&recorded), Arc::clone(&refunds));
                asi.run(async move |()| {
                    sleep(ms(20)).await;
                    if amount == 999 {
                        Err(Error::with_info("CardDeclined", "no money"))?;
                    }
                    bank.fetch_sub(amount, Ordering::Relaxed);
                    sleep(ms(20)).await;
                    Ok(amount)
                })
                .named("bank")
                .limited(&calls)
                .timeout(ms(300))
                .retry(Retry::attempts(3).backoff(ms(50)))
                .undo(async move |_: Undo<&i32>| {
                    refund.store(0, Ordering::Relaxed);
                    refunds.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
                asi.run(async move |amount: i32| {
                    sleep(ms(20)).await;
                    recorded.fetch_add(amount, Ordering::Relaxed);
                    Ok(())
                })
                .named("record");
                asi.add(|asi, ()| asi.reply(json!({ "charge": 1 })));
                Ok(())
            })
            .locked(&customers);
        })
    }
}

fn charge(amount: i32) -> TestRequest {
    let params = json!({ "customer": "ann", "amount": amount });
    TestRequest::new("acme.payments:1.0:charge").params(params).user("ann", SafeOps)
}

/// The result that a caller gets, or the code of the error and its text if that is to be checked.
type Expected = Result<Value, (&'static str, Option<&'static str>)>;

fn cases() -> Vec<(TestRequest, Expected)> {
    vec![
        (charge(5), Ok(json!({ "charge": 1 }))),
        (charge(999), Err(("CardDeclined", Some("no money")))),
        (charge(0), Err(("InvalidRequest", None))),
        (charge(5).user("eve", Anonymous), Err(("PleaseReauth", Some("SafeOps")))),
        (TestRequest::new("acme.payments:1.0:wrong"), Err(("InternalError", None))),
        (TestRequest::new("acme.payments:1.0:none"), Err(("InvalidRequest", None))),
        (TestRequest::new("acme.other:1.0:none"), Err(("UnknownInterface", None))),
    ]
}

#[track_caller]
fn check(answer: Result<Value, Error>, expected: &Expected) {
    match (answer, expected) {
        (Ok(value), Ok(expected)) => assert_eq!(value, *expected),
        (Err(error), Err((code, info))) => {
            assert_eq!(error.code(), *code, "{error}");
            if info.is_some() {
                assert_eq!(error.info(), *info);
            }
        }
        (answer, expected) => panic!("{answer:?} instead of {expected:?}"),
    }
}

#[actix::test]
async fn a_request_is_answered_on_a_paused_clock_as_its_caller_sees_it() {
    tokio::time::pause();
    let executor = Service::new().executor();
    for (request, expected) in cases() {
        check(request.call(&executor).await, &expected);
    }
    assert_eq!(executor.in_flight_count(), 0);
}

#[test]
fn a_request_is_answered_the_same_in_a_simulation_without_actix() {
    for (request, expected) in cases() {
        sim::check([1, 2], |sim| {
            let executor = Service::new().executor();
            let started = sim.start(request.clone().flow(&executor));
            sim.run();
            let answer = started.take_outcome().expect("it is over").into_result::<(Value,)>();
            check(answer.map(|(value,)| value), &expected);
            assert_eq!(executor.in_flight_count(), 0);
        });
    }
}

#[test]
fn functions_run_with_their_own_locks_limits_and_faults() {
    sim::check(0..20, |sim| {
        let service = Service::new();
        let executor = service.executor();
        sim.fail_nth("bank", 2, Error::new(codes::TIMEOUT));
        let started: Vec<_> =
            (0..6).map(|_| sim.start_within(ms(50), charge(5).flow(&executor))).collect();
        sim.run();
        started.iter().for_each(sim::Started::assert_success);
        assert_eq!(service.balance.load(Ordering::Relaxed), -30);
        assert_eq!(service.recorded.load(Ordering::Relaxed), 30);
        assert_eq!(service.customers.load(), Load::default());
    });
}

#[test]
fn a_function_is_undone_wherever_its_request_is_cut() {
    for cut in [Cut::Cancel, Cut::Drop, Cut::Timeout, Cut::Error(Error::new("CardDeclined"))] {
        let runs = Rc::new(Cell::new(0));
        sim::cut_everywhere(&cut, &Options::default(), [1], |_| {
            let (service, runs) = (Service::new(), Rc::clone(&runs));
            let executor = service.executor();
            let flow = charge(5).flow(&executor);
            (flow, move |outcome: Outcome| {
                runs.set(runs.get() + 1);
                let balance = service.balance.load(Ordering::Relaxed);
                match outcome {
                    Outcome::Success(_) => assert_eq!(balance, -5),
                    Outcome::Error(_) | Outcome::Cancelled
                        if service.recorded.load(Ordering::Relaxed) == 0 =>
                    {
                        assert_eq!(balance, 0);
                    }
                    Outcome::Error(_) | Outcome::Cancelled => {}
                }
                assert_eq!(
                    (service.customers.load(), executor.in_flight_count()),
                    (Load::default(), 0)
                );
            })
        });
        assert!(runs.get() > 10, "{cut}: {}", runs.get());
    }
}

#[actix::test]
async fn each_undo_of_a_request_runs_once_or_twice_as_the_test_says() {
    tokio::time::pause();
    for (request, refunds) in [(charge(5), 1), (charge(5).undo_twice(), 2)] {
        let service = Service::new();
        let executor = service.executor();
        let call = request.call::<Value>(&executor);
        assert!(tokio::time::timeout(ms(50), call).await.is_err(), "the caller leaves");
        tokio::time::sleep(ms(500)).await;
        let left = [&service.balance, &service.refunds].map(|it| it.load(Ordering::Relaxed));
        assert_eq!((left, executor.in_flight_count()), ([0, refunds], 0));
    }
}

#[test]
fn an_error_that_is_hidden_from_callers_is_the_cause_of_what_they_get() {
    sim::check([1], |sim| {
        sim.fail("record", Error::with_info("LedgerDown", "no disk"));
        let started = sim.start(charge(5).flow(&Service::new().executor()));
        sim.run();
        let Some(Outcome::Error(error)) = started.take_outcome() else { panic!("it fails") };
        assert_eq!(error.to_string(), "InternalError: Not expected error");
        let hidden = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(hidden, Some("LedgerDown: no disk".to_owned()));
    });
}
