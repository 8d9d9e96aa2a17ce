//! The promise: an operator sees what runs in an executor, why it waits and what failed, and can end
//! it; other callers cannot.

use std::future::pending;
use std::time::Duration;

use asyncsteps_actors::sync::Mutex;
use asyncsteps_core::{Error, sleep};
use asyncsteps_executor::observe::Retention;
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::test::TestRequest;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Service, Steps};
use asyncsteps_observe::Locks;
use asyncsteps_observe::admin::Admin;
use expect_test::expect_file;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

const PAY: &str = "test.till:1.0:pay";

/// A till where one customer is served at a time.
struct Till {
    customers: Mutex,
}

impl Service for Till {
    type Errors = ();
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    ms: u32,
    fails: bool,
}

impl Till {
    fn pay(steps: &Steps<Self, Payment>) -> Returns<bool> {
        steps
            .run("bank", async |cx, ()| {
                sleep(Duration::from_millis(cx.params.ms.into())).await;
                if cx.params.fails { Err(Error::new("InvalidRequest").into()) } else { Ok(true) }
            })
            .locked(|cx| cx.customers.clone())
            .returns()
    }

    /// A booking whose undo never ends, and holds the customers.
    fn book(steps: &Steps<Self, Payment>) -> Returns<bool> {
        steps.locked(|cx| cx.customers.clone());
        steps
            .run("note", async |_, ()| Ok(()))
            .undo(async |_, _| pending().await)
            .then("confirm", async |_, ()| pending().await)
            .returns()
    }
}

fn executor() -> Executor {
    let customers = Mutex::named("customers", asyncsteps_core::sync::mutex::Options::default());
    let admin = Admin::new(SecurityLevel::PrivilegedOps).locks(Locks::new().mutex(&customers));
    let mut interface = Interface::new("test.till:1.0".parse().expect("a name"));
    interface.allow_anonymous();
    Executor::builder()
        .record(Retention::ALL)
        .service(interface, Till { customers }, |functions| {
            functions.on("pay", Till::pay);
            functions.on("book", Till::book);
        })
        .service(admin.interface(), admin, Admin::define)
        .build()
        .expect("a right configuration")
}

async fn pay(executor: &Executor, ms: u32, fails: bool) -> Result<Value, Error> {
    TestRequest::new(PAY).params(json!({ "ms": ms, "fails": fails })).call(executor).await
}

/// What an operator is answered.
async fn ask(executor: &Executor, function: &str, params: Value) -> Result<Value, Error> {
    let request = TestRequest::new(format!("asyncsteps.admin:1.0:{function}")).params(params);
    request.user("ann", SecurityLevel::PrivilegedOps).call(executor).await
}

/// Lets the payments begin and wait.
async fn while_paying<T>(
    executor: &Executor,
    look: impl AsyncFnOnce() -> T,
) -> (T, [Result<Value, Error>; 2]) {
    let payments = async {
        let (one, other) = tokio::join!(pay(executor, 400, false), pay(executor, 400, false));
        [one, other]
    };
    let look = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        look().await
    };
    let (payments, looked) = tokio::join!(payments, look);
    (looked, payments)
}

#[actix::test]
async fn it_is_told_what_a_flow_waits_for() -> Result<(), Error> {
    tokio::time::pause();
    let executor = executor();
    let (looked, _) = while_paying(&executor, async || {
        let flows = ask(&executor, "flows", json!({ "function": "till" })).await?;
        Ok::<_, Error>((flows, ask(&executor, "locks", json!({})).await?))
    })
    .await;
    let (flows, locks) = looked?;
    assert_eq!(flows["all"], 2);
    let reasons: Vec<&str> =
        (0..2).filter_map(|at| flows["flows"][at]["waits"][0]["reason"].as_str()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("customers")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("a future")), "{reasons:?}");
    let steps = &flows["flows"][0]["waits"][0]["steps"];
    let names: Vec<&str> =
        steps.as_array().into_iter().flatten().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(names.first(), Some(&"bank"), "without the function itself: {names:?}");
    let holder = json!({
        "flow": locks[0]["keys"][0]["inside"][0]["flow"], "branch": 0,
        "request": 1, "function": PAY, "user": null,
    });
    let waiting = &locks[0]["keys"][0]["waiting"][0];
    assert_eq!(
        (&waiting["owner"]["request"], &waiting["owner"]["function"]),
        (&json!(2), &json!(PAY))
    );
    assert!(waiting["waited"].as_f64().is_some_and(|ms| (100.0..110.0).contains(&ms)), "{waiting}");
    let key = json!({
        "key": "", "holders": 1, "queued": 1, "entered": 0,
        "inside": [holder], "waiting": [waiting],
    });
    let limits = json!({ "concurrent": 1, "max_queue": null, "rate": null, "period": null });
    let lock = json!({
        "kind": "mutex", "name": "customers", "limits": limits,
        "holders": 1, "queued": 1, "all_keys": 1, "keys": [key],
        "waits": 0, "wait_p50": 0, "wait_p99": 0, "given_up": 0, "rejected": 0,
    });
    assert_eq!(locks, json!([lock]));
    Ok(())
}

#[actix::test]
async fn a_waiting_flow_names_the_request_that_holds_its_lock_and_the_step_that_took_it()
-> Result<(), Error> {
    tokio::time::pause();
    let executor = executor();
    let (flows, _) = while_paying(&executor, async || {
        ask(&executor, "flows", json!({ "cause": "mutex" })).await
    })
    .await;
    let flows = flows?;
    assert_eq!(flows["all"], 1, "the other one waits for a future");
    let flow = &flows["flows"][0];
    assert_eq!((&flow["number"], &flow["branches"]), (&json!(2), &json!(1)));
    assert!(flow["time_left"].as_f64().is_some_and(|left| left > 0.0), "{flow}");
    let wait = &flow["waits"][0];
    assert_eq!(wait["cause"], "mutex");
    let lock = &wait["lock"];
    assert_eq!(
        (&lock["name"], &lock["ahead"], &lock["queued"]),
        (&json!("customers"), &json!(0), &json!(1))
    );
    assert_eq!((&lock["all_holders"], &lock["holders"][0]["request"]), (&json!(1), &json!(1)));
    Ok(())
}

#[actix::test]
async fn it_is_told_who_waits_for_whom() -> Result<(), Error> {
    tokio::time::pause();
    let executor = executor();
    let (asked, _) = while_paying(&executor, async || {
        let graph = ask(&executor, "waitGraph", json!({})).await?;
        Ok::<_, Error>((graph, ask(&executor, "flows", json!({ "cause": "future" })).await?))
    })
    .await;
    let (graph, holding) = asked?;
    assert_eq!(graph["all"], 1);
    let wait = &graph["waits"][0];
    assert_eq!((&wait["name"], &wait["in_cycle"]), (&json!("customers"), &json!(false)));
    assert_eq!(
        (&wait["waiter"]["request"], &wait["holders"][0]["request"]),
        (&json!(2), &json!(1))
    );
    let held = holding["flows"].as_array().into_iter().flatten().find(|flow| flow["number"] == 1);
    let held = &held.expect("the holder waits for its bank")["holds"][0];
    assert_eq!((&held["name"], &held["step"]["name"]), (&json!("customers"), &json!("bank")));
    Ok(())
}

#[actix::test]
async fn of_many_requests_in_flight_the_oldest_are_told_and_all_are_counted() -> Result<(), Error> {
    /// More than a message looks at.
    const MANY: usize = 1_200;
    tokio::time::pause();
    let executor = executor();
    let payments = (0..MANY).map(|_| pay(&executor, 1, false));
    let payments = futures_util::future::join_all(payments);
    let look = async {
        tokio::task::yield_now().await;
        let flows = ask(&executor, "flows", json!({ "function": "till", "most": 3 })).await?;
        Ok::<_, Error>((flows, ask(&executor, "health", json!({})).await?))
    };
    let (paid, looked) = tokio::join!(payments, look);
    assert!(paid.iter().all(Result::is_ok));
    let (flows, health) = looked?;
    assert_eq!(flows["all"], MANY);
    let told = flows["flows"].as_array().expect("a list");
    assert_eq!(
        told.iter().map(|flow| flow["number"].as_u64()).collect::<Vec<_>>(),
        [1, 2, 3].map(Some)
    );
    assert_eq!(health["waits"]["mutex"], MANY - 1);
    Ok(())
}

#[actix::test]
async fn refused_requests_are_told_with_their_reason() -> Result<(), Error> {
    let executor = executor();
    let unknown = TestRequest::new("test.shop:1.0:buy").call::<Value>(&executor).await;
    unknown.expect_err("there is no such interface");
    let refused = ask(&executor, "refused", json!({})).await?;
    let last = &refused[0];
    assert_eq!((&last["reason"], &last["code"]), (&json!("unknown"), &json!("UnknownInterface")));
    assert_eq!(last["function"], "test.shop:1.0:buy");
    let health = ask(&executor, "health", json!({})).await?;
    assert_eq!(health["refusals"], json!({ "unknown": 1 }));
    assert_eq!(health["readiness"], json!({ "ready": true, "reasons": [] }));
    Ok(())
}

#[actix::test]
async fn what_is_over_is_told_with_its_steps() -> Result<(), Error> {
    tokio::time::pause();
    let executor = executor();
    pay(&executor, 20, true).await.expect_err("fails");
    pay(&executor, 40, false).await.expect("succeeds");
    let recent = ask(&executor, "recent", json!({ "function": "till" })).await?;
    let outcomes: Vec<&Value> = (0..2).map(|at| &recent[at]["outcome"]).collect();
    assert_eq!(outcomes, ["success", "InvalidRequest"]);

    let steps = ask(&executor, "steps", json!({ "number": recent[1]["number"] })).await?;
    let steps = steps["steps"].as_array().cloned().unwrap_or_default();
    let bank = steps.iter().find(|step| step["place"]["name"] == "bank").expect("a step");
    assert_eq!((&bank["ending"], &bank["error"]), (&json!("error"), &json!("InvalidRequest")));
    assert!(bank["took"].as_f64().is_some_and(|took| took >= 20.0), "{bank}");
    assert!(steps[0]["depth"] == 0 && bank["depth"] != 0, "{steps:?}");

    let functions = ask(&executor, "functions", json!({})).await?;
    let mut functions = functions.as_array().into_iter().flatten();
    let till = functions.find(|it| it["function"] == PAY).expect("the function");
    assert_eq!((&till["count"], &till["errors"]), (&json!(2), &json!({ "InvalidRequest": 1 })));
    assert!(till["p99"].as_f64().is_some_and(|p99| (40.0..52.0).contains(&p99)), "{till}");

    let unknown = ask(&executor, "steps", json!({ "number": 4711 })).await;
    assert_eq!(unknown.expect_err("no such request").code(), "UnknownRequest");
    Ok(())
}

#[actix::test]
async fn a_request_can_be_cancelled() -> Result<(), Error> {
    tokio::time::pause();
    let executor = executor();
    let (cancelled, payments) = while_paying(&executor, async || {
        let flows = ask(&executor, "flows", json!({ "function": "till" })).await?;
        let number = &flows["flows"][0]["number"];
        Ok::<_, Error>([
            ask(&executor, "cancel", json!({ "number": number })).await?,
            ask(&executor, "cancel", json!({ "number": 4711 })).await?,
        ])
    })
    .await;
    assert_eq!(cancelled?, [json!(true), json!(false)]);
    let errors: Vec<String> =
        payments.iter().filter_map(|it| it.as_ref().err()).map(Error::to_string).collect();
    assert_eq!(errors, ["InternalError: Request was cancelled"]);
    Ok(())
}

#[actix::test]
async fn a_lock_that_is_held_until_a_request_is_undone_names_the_request() -> Result<(), Error> {
    tokio::time::pause();
    let executor = executor();
    let params = json!({ "ms": 1, "fails": false });
    let booking = TestRequest::new("test.till:1.0:book").params(params);
    let booking = booking.call::<bool>(&executor);
    let look = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(ask(&executor, "cancel", json!({ "number": 1 })).await?, true);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let flows = ask(&executor, "flows", json!({ "function": "till" })).await?;
        Ok::<_, Error>((flows, ask(&executor, "locks", json!({})).await?))
    };
    let (_, looked) = tokio::join!(booking, look);
    let (flows, locks) = looked?;
    assert_eq!(flows["flows"][0]["state"], "undoing");
    let holder = &locks[0]["keys"][0]["inside"][0];
    assert_eq!(
        (&holder["request"], &holder["function"]),
        (&json!(1), &json!("test.till:1.0:book"))
    );
    Ok(())
}

#[actix::test]
async fn other_callers_are_refused() {
    let executor = executor();
    for function in
        ["health", "flows", "recent", "functions", "refused", "locks", "waitGraph", "plan"]
    {
        let name = format!("asyncsteps.admin:1.0:{function}");
        let anonymous = TestRequest::new(&name).call::<Value>(&executor).await;
        assert!(anonymous.is_err(), "{function}");
        let safe = TestRequest::new(&name).user("bob", SecurityLevel::SafeOps);
        let refused = safe.call::<Value>(&executor).await.expect_err("not enough");
        assert_eq!(refused.code(), "PleaseReauth", "{function}");
    }
    let health = ask(&executor, "health", json!({})).await.expect("an operator");
    assert_eq!(health["state"], "serving");
}

#[test]
fn its_definition_is_written_down() {
    let interface = Admin::new(SecurityLevel::PrivilegedOps).interface();
    let text = format!("{:#}\n", interface.to_json().expect("types of FTN3"));
    expect_file!["../../ifaces/asyncsteps.admin-1.0-iface.json"].assert_eq(&text);
    interface.definition().expect("it keeps to FTN3");
}

#[actix::test]
async fn the_plan_of_a_function_says_what_runs_in_each_step_and_how_it_fared() -> Result<(), Error>
{
    tokio::time::pause();
    let executor = executor();
    let name = json!({ "function": PAY });
    let mut payments = Vec::new();
    for (ms, fails) in [(5, false), (30, true), (10, false)] {
        payments.push(pay(&executor, ms, fails).await.is_ok());
    }
    assert_eq!(payments, [true, false, true]);
    let looked = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        ask(&executor, "plan", name.clone()).await
    };
    let one = pay(&executor, 1_000, false);
    let other = pay(&executor, 1, false);
    let (_, _, told) = tokio::join!(one, other, looked);
    let told = told?;
    assert_eq!(
        (&told["in_flight"], &told["kept"], &told["all"]),
        (&json!(2), &json!(3), &json!(1))
    );
    assert_eq!(told["plan"]["kind"], "plan");
    assert!(told["text"].as_str().is_some_and(|text| text.contains("[locked]")), "{told}");
    let bank = &told["reports"][0];
    assert_eq!(bank["running"], 2);
    assert_eq!(bank["waits"], json!({ "future": 1, "mutex": 1 }));
    assert_eq!((&bank["ended"], &bank["errors"]), (&json!(3), &json!({ "InvalidRequest": 1 })));
    assert!(bank["p99"].as_f64().is_some_and(|p99| (30.0..40.0).contains(&p99)), "{bank}");

    let unknown = ask(&executor, "plan", json!({ "function": "test.till:1.0:paid" })).await;
    assert_eq!(unknown.expect_err("no such function").code(), "UnknownFunction");
    let own = ask(&executor, "plan", json!({ "function": "asyncsteps.admin:1.0:plan" })).await?;
    assert_eq!(own["plan"]["function"], "asyncsteps.admin:1.0:plan");
    Ok(())
}

/// More steps than are told.
fn long(steps: &Steps<Till, ()>) -> Returns<()> {
    let first = steps.run("first", async |_, ()| Ok(())).erased();
    let all = (0..700).fold(first, |step, _| step.then("next", async |_, ()| Ok(())).erased());
    all.returns()
}

#[actix::test]
async fn of_a_long_plan_the_first_steps_are_told() -> Result<(), Error> {
    let till = Till { customers: Mutex::named("customers", Default::default()) };
    let admin = Admin::new(SecurityLevel::PrivilegedOps);
    let interface = Interface::new("test.till:1.0".parse().expect("a name"));
    let executor = Executor::builder()
        .service(interface, till, |functions| {
            functions.on("long", long);
        })
        .service(admin.interface(), admin, Admin::define)
        .build()
        .expect("a right configuration");
    let told = ask(&executor, "plan", json!({ "function": "test.till:1.0:long" })).await?;
    assert_eq!(told["all"], 701);
    let steps = told["plan"]["steps"].as_array().map_or(0, Vec::len);
    assert!((100..=500).contains(&steps), "{steps} fit into a response");
    assert_eq!(told["reports"].as_array().map(Vec::len), Some(steps));
    assert_eq!(told["text"].as_str().map(|text| text.lines().count()), Some(1 + steps));
    Ok(())
}
