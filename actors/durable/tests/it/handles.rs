//! Handles are used outside of arbiters: by the handlers of a web framework, on any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use asyncsteps_core::BodyResult;
use asyncsteps_durable::{Durable, NotEnded, NotSubmitted, Options, Schedule};
use asyncsteps_executor::security::{SecurityLevel, User};
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Caller, Executor, Returns, Steps};
use asyncsteps_journal::memory::{Fault, Memory, Operation};
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::{Query, Resume};
use asyncsteps_journal::{Error, Refused, TokioClock, Uid};
use expect_test::expect;
use serde_json::json;

use crate::node::run;

fn approved(steps: &Steps<(), ()>) -> Returns<String> {
    steps
        .wait_signal::<String>("approval")
        .then("approve", async |_, by| Ok(format!("approved by {by}")))
        .recorded()
        .returns()
}

/// Handlers of axum and tasks of tokio take such futures only.
fn sent<T>(future: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
    future
}

#[test]
fn what_the_function_would_refuse_is_not_stored() {
    actix::System::new().block_on(async {
        let durable = Durable::new(Memory::default());
        let interface = Interface::new("test.approval:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "approved", approved);
        });
        let executor = executor.build().expect("it is complete");
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let function = "test.approval:1.0:approved";
        let mut node = None;
        for _ in ["no node has a lease", "one has"] {
            for (params, caller, code) in [
                (json!({}), Caller::anonymous(), "SecurityError"),
                (json!({ "unknown": 1 }), Caller::from(&ann), "InvalidRequest"),
            ] {
                let options = Options::default().caller(caller.clone());
                let refused = durable.submit(function, params.clone(), options).await;
                let Err(NotSubmitted::Refused(refused)) = refused else { panic!("{refused:?}") };
                assert_eq!(refused.code(), code);
                let daily = Schedule::new("daily", "@daily").expect("a schedule").caller(caller);
                let refused = durable.schedule(daily, function, params);
                let Err(NotSubmitted::Refused(refused)) = refused else { panic!("{refused:?}") };
                assert_eq!(refused.code(), code);
            }
            node = Some(durable.start(&executor).await.expect("the journal gives a lease"));
        }
        drop(node);
        let all = Query { limit: 10, ..Query::default() };
        assert_eq!(durable.list(all).await.expect("they are listed"), []);
    });
}

/// All that a handler may ask of a handle.
async fn approve(durable: Durable, uid: Uid) -> (String, usize) {
    sent(durable.status(uid)).await.expect("it is known");
    sent(durable.signal(uid, "approval", "ann")).await.expect("it is stored");
    let approved: String = sent(durable.result(uid)).await.expect("it is approved");
    sent(durable.ended(uid)).await.expect("it has ended");
    sent(durable.cancel(uid, "ann")).await.expect("it is known");
    let refused = sent(durable.resume(uid, Resume::Continue)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::NotStopped(_)))), "{refused:?}");
    let records = sent(durable.records(uid)).await.expect("they are kept").len();
    assert_eq!(sent(durable.dump()).await.expect("it is read").flows().len(), 0, "none is open");
    let all = Query { limit: 10, ..Query::default() };
    assert_eq!(sent(durable.list(all)).await.expect("they are listed").len(), 1);
    sent(durable.trim(Duration::ZERO)).await.expect("the journal answers");
    (approved, records)
}

#[test]
fn a_handle_works_on_a_thread_that_is_no_arbiter() {
    actix::System::new().block_on(async {
        let durable = Durable::new(Memory::default());
        let interface = Interface::new("test.approval:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "approved", approved);
        });
        let executor = executor.build().expect("it is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let elsewhere = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let task = tokio::spawn(async move {
                    let ann = User::new("ann", SecurityLevel::SafeOps);
                    let options = Options::default().caller(&ann);
                    let function = "test.approval:1.0:approved";
                    let uid = sent(durable.submit(function, json!({}), options)).await;
                    approve(durable, uid.expect("it is stored")).await
                });
                task.await.expect("it does not panic")
            })
        });
        while !elsewhere.is_finished() {
            tokio::task::yield_now().await;
        }
        let (approved, records) = elsewhere.join().expect("it does not panic");
        assert_eq!((approved.as_str(), records > 1), ("approved by ann", true));
    });
}

/// Found by seed 0 of the demo in the simulated cluster: the node owned the request, and nobody ran it.
#[test]
fn a_request_whose_submit_lost_its_answer_is_carried_out() {
    run(async {
        let mut answers_lost = 1;
        let journal = Memory::default().faults(move |operation| {
            if operation != Operation::Submit || answers_lost == 0 {
                return Fault::None;
            }
            answers_lost -= 1;
            Fault::AnswerLost
        });
        let durable = Durable::new(journal);
        let interface = Interface::new("test.clock:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "tick", |steps: &Steps<(), ()>| {
                steps.run("tick", async |_, ()| Ok(1)).recorded().returns()
            });
        });
        let executor = executor.build().expect("it is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let options = Options::default().caller(&ann);
        let uid = durable.submit("test.clock:1.0:tick", (), options).await.expect("it is stored");
        let result = tokio::time::timeout(Duration::from_secs(60), durable.result::<i32>(uid));
        assert_eq!(result.await.expect("it is carried out").expect("it has no error"), 1);
    });
}

/// What a handle says of a request whose end it waits for, and how long that takes.
async fn waits(durable: &Durable, uid: Uid) -> [String; 3] {
    let within = Duration::from_secs(3600);
    let ended = tokio::time::timeout(within, durable.ended(uid)).await;
    let result = tokio::time::timeout(within, durable.result::<i32>(uid)).await;
    let waited = tokio::time::timeout(within, durable.wait_ended(uid)).await;
    let result = result.expect("it does not wait").expect_err("it has none");
    let cause = result.find::<NotEnded>().map(NotEnded::to_string);
    [
        ended.expect("it does not wait").expect_err("it has not ended").to_string(),
        format!("{} {}", result.code(), cause.unwrap_or_default()),
        format!("{:?}", waited.ok()),
    ]
}

#[test]
fn who_waits_for_a_request_that_waits_for_an_operator_is_told_so_at_once() {
    run(async {
        let may_undo = Arc::new(AtomicBool::new(false));
        let durable = Durable::new(Memory::new(TokioClock::start()));
        let interface = Interface::new("test.stuck:1.0".parse().expect("it is a name"));
        let undoes = Arc::clone(&may_undo);
        let executor = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "stuck", move |steps: &Steps<(), ()>| {
                let undoes = Arc::clone(&undoes);
                steps
                    .run("book", async |_, ()| Ok(1))
                    .recorded()
                    .undo(async move |_, _| match undoes.load(Ordering::Relaxed) {
                        true => Ok(()),
                        false => Err("NoRefund".into()),
                    })
                    .then("send", async |_, _| -> BodyResult<i32> { Err("NoVan".into()) })
                    .recorded()
                    .returns()
            });
        });
        let executor = executor.build().expect("it is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let ann = User::new("ann", SecurityLevel::SafeOps);
        let options = Options::default().caller(&ann);
        let uid = durable.submit("test.stuck:1.0:stuck", (), options).await.expect("it is stored");
        let [ended, result, waited] = waits(&durable, uid).await;
        let uid_is_left_out = |text: String| text.replace(&uid.to_string(), "UID");
        expect!["the request UID is paused, and waits for an operator: test.stuck:1:stuck/book was begun, and is not undone: InternalError"].assert_eq(&uid_is_left_out(ended));
        expect!["InternalError the request UID is paused, and waits for an operator: test.stuck:1:stuck/book was begun, and is not undone: InternalError"].assert_eq(&uid_is_left_out(result));
        assert_eq!(waited, "None");

        // one who waits for the operator gets the end
        may_undo.store(true, Ordering::Relaxed);
        let waits = durable.clone();
        let waits = actix_rt::spawn(async move { waits.wait_ended(uid).await });
        durable.resume(uid, Resume::Continue).await.expect("it is paused");
        let ending = waits.await.expect("no panic").expect("it is known");
        assert!(matches!(ending, Ending::Failed(_)), "{ending:?}");
    });
}

/// Two items wait for one name, and a step behind them waits for the next signal.
fn raced(steps: &Steps<(), ()>) -> Returns<(Vec<i32>, i32)> {
    steps
        .race("first", |_, ()| vec![(), ()], |steps| steps.wait_signal::<i32>("number").returns())
        .then_nested("behind", |steps: &Steps<(), (), Vec<i32>>| {
            steps.join("both", |both| (both.pass(), both.wait_signal::<i32>("number"))).returns()
        })
        .returns()
}

#[test]
fn the_loser_of_a_race_takes_no_signal_in_the_turn_in_which_it_is_cut() {
    run(async {
        let durable = Durable::new(Memory::new(TokioClock::start()));
        let interface = Interface::new("test.races:1.0".parse().expect("it is a name"));
        let executor = Executor::builder().service(interface, (), |functions| {
            durable.on(functions, "raced", raced);
        });
        let executor = executor.build().expect("it is complete");
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        for is_early in [true, false] {
            let options = Options::default().caller(User::new("ann", SecurityLevel::SafeOps));
            let uid = durable.submit("test.races:1.0:raced", json!({}), options).await;
            let uid = uid.expect("it is stored");
            if !is_early {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            for number in [1, 2] {
                durable.signal(uid, "number", number).await.expect("it is stored");
            }
            let ended = tokio::time::timeout(Duration::from_secs(60), durable.result(uid)).await;
            let ended: (Vec<i32>, i32) = ended.expect("it waits for nothing").expect("it ends");
            assert_eq!(ended, (vec![1], 2), "signals before the race: {is_early}");
        }
    });
}
