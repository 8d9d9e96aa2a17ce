//! The promise: schedules over the wire begin requests on each node, survive all processes, and are for operators.

use std::time::Duration;

use asyncsteps_core::Error;
use asyncsteps_durable::jobs::{Jobs, JobsFunction};
use asyncsteps_durable::{Durable, Node, Schedule};
use asyncsteps_executor::security::SecurityLevel;
use asyncsteps_executor::typed::Interface;
use asyncsteps_executor::{Executor, Returns, Steps};
use asyncsteps_journal::memory::Memory;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::jobs::{ANN, OPERATOR, ask};
use crate::node::run;
use asyncsteps_journal::TokioClock;

const FUNCTION: &str = "test.reports:1.0:report";

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
struct Report {
    of: String,
}

fn report(steps: &Steps<(), Report>) -> Returns<String> {
    steps
        .run("report", async |cx, ()| {
            let user = cx.request().user().map(|user| user.local_id().to_owned());
            Ok(format!("{} for {}", cx.params.of, user.unwrap_or_default()))
        })
        .recorded()
        .returns()
}

/// A process with the function, the interface and a schedule of its own.
async fn process(journal: &Memory) -> (Executor, Node) {
    let durable = Durable::new(journal.clone());
    let interface = Interface::new("test.reports:1.0".parse().expect("it is a name"));
    let builder = Executor::builder().service(interface, (), |functions| {
        durable.on(functions, "report", report);
    });
    let yearly = Schedule::new("own", "@yearly").expect("it is right");
    durable.schedule(yearly, FUNCTION, json!({ "of": "all" })).expect("it is declared");
    let executor = Jobs::new(durable.clone())
        .allow(JobsFunction::ALL)
        .host(builder)
        .build()
        .expect("it is complete");
    let node = durable.start(&executor).await.expect("the journal gives a lease");
    (executor, node)
}

/// A report each five minutes.
fn sales(name: &str) -> Value {
    let params = json!({ "of": "sales" });
    json!({ "name": name, "function": FUNCTION, "params": params, "cron": "*/5 * * * *" })
}

/// The results of the requests that have ended and were not cancelled.
async fn results(executor: &Executor) -> Result<Vec<String>, Error> {
    let ended = ask(executor, OPERATOR, "list", json!({ "state": "ended" })).await?;
    let mut results = Vec::new();
    for job in ended["jobs"].as_array().expect("jobs") {
        let result = ask(executor, OPERATOR, "result", json!({ "uid": job["uid"] })).await?;
        if result["error"] == "Cancelled" {
            continue;
        }
        results.push(result["result"].as_str().unwrap_or_default().to_owned());
    }
    Ok(results)
}

#[test]
fn a_schedule_begins_requests_until_it_is_removed() {
    run(async {
        // it is 13:46:40
        let journal = Memory::new(TokioClock::start());
        let (executor, node) = process(&journal).await;
        let (other, other_node) = process(&journal).await;
        let stored = ask(&executor, OPERATOR, "schedule", sales("sales")).await.expect("stored");
        let declared = &stored["schedule"];
        assert_eq!((&declared["user"], &declared["time_zone"]), (&json!("eve"), &json!("UTC")));
        tokio::time::sleep(10 * MINUTE).await;
        let both = ["sales for eve", "sales for eve"];
        assert_eq!(results(&executor).await.expect("listed"), both, "once on two nodes");
        node.stop().await;
        other_node.stop().await;
        drop((executor, other));
        // another process knows it, and replaces it
        let (executor, _node) = process(&journal).await;
        let mut stock = sales("sales");
        stock["params"]["of"] = json!("stock");
        let eva = ("eva", SecurityLevel::PrivilegedOps);
        ask(&executor, eva, "schedule", stock).await.expect("stored");
        tokio::time::sleep(10 * MINUTE).await;
        let all = results(&executor).await.expect("listed");
        assert_eq!(all.last().map(String::as_str), Some("stock for eva"), "{all:?}");
        let removed = ask(&executor, OPERATOR, "unschedule", json!({ "name": "sales" })).await;
        assert_eq!(removed.expect("it is there"), json!(true));
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(results(&executor).await.expect("listed").len(), all.len());
    });
}

#[test]
fn a_schedule_that_is_replaced_begins_its_own_request_at_the_next_time() {
    run(async {
        // it is 13:46:40
        let journal = Memory::new(TokioClock::start());
        let (executor, _node) = process(&journal).await;
        let (_other, _other_node) = process(&journal).await;
        ask(&executor, OPERATOR, "schedule", sales("sales")).await.expect("stored");
        tokio::time::sleep(MINUTE).await;
        let waiting =
            ask(&executor, OPERATOR, "list", json!({ "state": "parked" })).await.expect("listed");
        let uids: Vec<_> =
            waiting["jobs"].as_array().expect("jobs").iter().map(|it| &it["uid"]).collect();
        let mut of_sales = Vec::new();
        for uid in uids {
            let status = ask(&executor, OPERATOR, "status", json!({ "uid": uid }))
                .await
                .expect("it is there");
            if status["job"]["schedule"] == "sales" {
                of_sales.push(uid);
            }
        }
        let [uid] = of_sales[..] else { panic!("two nodes have stored one: {waiting}") };
        let mut stock = sales("sales");
        stock["params"]["of"] = json!("stock");
        ask(&executor, OPERATOR, "schedule", stock.clone()).await.expect("stored");
        tokio::time::sleep(MINUTE / 2).await;
        let cancelled =
            ask(&executor, OPERATOR, "status", json!({ "uid": uid })).await.expect("it is there");
        assert_eq!(cancelled["job"]["state"], "ended");
        assert_eq!(cancelled["job"]["cancelled_by"], "the end of the schedule sales");
        // the same as before is another schedule, too
        ask(&executor, OPERATOR, "schedule", sales("sales")).await.expect("stored");
        ask(&executor, OPERATOR, "schedule", stock).await.expect("stored");
        tokio::time::sleep(2 * MINUTE).await;
        assert_eq!(results(&executor).await.expect("listed"), ["stock for eve"], "at 13:50");
        // of what has begun, nothing is cancelled
        let removed = ask(&executor, OPERATOR, "unschedule", json!({ "name": "sales" })).await;
        assert_eq!(removed.expect("it is there"), json!(true));
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!(results(&executor).await.expect("listed"), ["stock for eve"]);
    });
}

#[test]
fn a_page_of_schedules_has_room_in_an_answer() {
    run(async {
        let (executor, _node) = process(&Memory::new(TokioClock::start())).await;
        let name = |n: usize| format!("{n:03}{}", "x".repeat(252));
        let mut long = sales(&name(0));
        let minutes: Vec<_> = (0..60).map(|minute| minute.to_string()).collect();
        long["cron"] = json!(format!("{} * * * *", minutes.join(",")));
        for n in 0..100 {
            long["name"] = json!(name(n));
            ask(&executor, OPERATOR, "schedule", long.clone()).await.expect("it is stored");
        }
        let (mut listed, mut page) = (Vec::new(), json!({}));
        loop {
            let answer = ask(&executor, OPERATOR, "schedules", page.clone()).await.expect("listed");
            // all of them have 50 KiB
            assert!(answer.to_string().len() < 40 << 10);
            let schedules = answer["schedules"].as_array().expect("schedules").clone();
            listed.extend(schedules.into_iter().map(|schedule| schedule["name"].clone()));
            page["after"] = answer["next"].clone();
            if page["after"] == "" {
                break;
            }
        }
        assert!(
            listed.iter().take(100).eq((0..100).map(|n| json!(name(n))).collect::<Vec<_>>().iter())
        );
        long["name"] = json!("ä".repeat(128));
        let refused = ask(&executor, OPERATOR, "schedule", long).await.expect_err("256 bytes");
        assert_eq!(refused.code(), "WrongSchedule");
    });
}

#[test]
fn schedules_are_listed_by_name_in_pages() {
    run(async {
        let (executor, _node) = process(&Memory::new(TokioClock::start())).await;
        for name in ["b", "z", "a"] {
            let mut schedule = sales(name);
            schedule["time_zone"] = json!("Europe/Berlin");
            schedule["cron"] = json!("@hourly");
            ask(&executor, OPERATOR, "schedule", schedule).await.expect("it is stored");
        }
        let (mut listed, mut page) = (Vec::new(), json!({ "most": 3 }));
        loop {
            let answer = ask(&executor, OPERATOR, "schedules", page.clone()).await.expect("listed");
            listed.extend(answer["schedules"].as_array().expect("schedules").clone());
            page["after"] = answer["next"].clone();
            if page["after"] == "" {
                break;
            }
        }
        let names: Vec<_> = listed.iter().map(|schedule| schedule["name"].clone()).collect();
        assert_eq!(names, ["a", "b", "own", "z"]);
        let (stored, own) = (&listed[0], &listed[2]);
        assert_eq!((&stored["by_program"], &own["by_program"]), (&json!(false), &json!(true)));
        assert_eq!(
            (&stored["cron"], &stored["time_zone"]),
            (&json!("0 * * * *"), &json!("Europe/Berlin"))
        );
        assert_eq!(stored["function"], "test.reports:1:report");
        // 14:00 behind 13:46:40
        let next = stored["next"].as_f64().expect("a time") / 60_000.0;
        assert!((next % 60.0).abs() < f64::EPSILON, "{stored}");
        assert_eq!(own["user"], Value::Null, "{own}");
    });
}

#[test]
fn wrong_schedules_are_told_and_only_operators_have_them() {
    run(async {
        let (executor, _node) = process(&Memory::new(TokioClock::start())).await;
        for (function, params) in [
            ("schedule", sales("sales")),
            ("unschedule", json!({ "name": "sales" })),
            ("schedules", json!({})),
            ("pauseSchedule", json!({ "name": "sales" })),
            ("resumeSchedule", json!({ "name": "sales" })),
            ("triggerSchedule", json!({ "name": "sales" })),
            ("backfillSchedule", json!({ "name": "sales", "from": 0, "until": 1 })),
        ] {
            let refused = ask(&executor, ANN, function, params).await.expect_err("for operators");
            assert_eq!(refused.code(), "PleaseReauth", "{function}");
        }
        let with = |field: &str, value: Value| {
            let mut schedule = sales("sales");
            schedule[field] = value;
            schedule
        };
        for (wrong, code, text) in [
            (with("cron", json!("a b c d e")), "WrongSchedule", "`a b c d e`"),
            (with("time_zone", json!("Europe/Atlantis")), "WrongSchedule", "Atlantis"),
            (with("function", json!("test.reports:1.0:other")), "NotDurable", "other"),
            (with("params", json!({})), "InvalidRequest", "of"),
            (with("name", json!("own")), "DeclaredByProgram", "own"),
            (with("name", json!("")), "InvalidRequest", "name"),
            (with("name", json!("a\0")), "InvalidRequest", "name"),
        ] {
            let refused =
                ask(&executor, OPERATOR, "schedule", wrong).await.expect_err("it is wrong");
            assert_eq!(refused.code(), code, "{refused}");
            assert!(refused.info().is_some_and(|info| info.contains(text)), "{text}: {refused}");
        }
        for function in ["pauseSchedule", "resumeSchedule", "triggerSchedule"] {
            let refused = ask(&executor, OPERATOR, function, json!({ "name": "none" })).await;
            assert_eq!(refused.expect_err("there is none").code(), "UnknownSchedule");
        }
        for (name, code) in [("own", "DeclaredByProgram"), ("none", "UnknownSchedule")] {
            let refused = ask(&executor, OPERATOR, "unschedule", json!({ "name": name })).await;
            assert_eq!(refused.expect_err("it is not stored").code(), code);
        }
        let listed = ask(&executor, OPERATOR, "schedules", json!({})).await.expect("listed");
        assert_eq!(listed["schedules"].as_array().map(Vec::len), Some(1), "{listed}");
    });
}

#[test]
fn operators_pause_trigger_and_backfill_schedules_and_see_what_became_of_them() {
    run(async {
        // it is 13:46:40
        let (executor, _node) = process(&Memory::new(TokioClock::start())).await;
        let mut declared = sales("sales");
        declared["overlap"] = json!("bufferOne");
        declared["catch_up"] = json!(60_000);
        declared["jitter"] = json!(1_000);
        let stored = ask(&executor, OPERATOR, "schedule", declared).await.expect("stored");
        let stored = &stored["schedule"];
        assert_eq!((&stored["overlap"], &stored["paused"]), (&json!("bufferOne"), &json!(false)));
        assert_eq!((&stored["catch_up"], &stored["jitter"]), (&json!(60_000), &json!(1_000)));
        assert_eq!((&stored["last"], &stored["skipped"]), (&Value::Null, &json!(0)));
        let times: Vec<_> = stored["times"].as_array().expect("times").iter().collect();
        let minutes = times.iter().map(|time| time.as_f64().expect("a time") / 60_000.0);
        let minutes: Vec<_> = minutes.map(|minutes| minutes.floor() % 60.0).collect();
        assert_eq!(minutes, [50.0, 55.0, 0.0]);
        let named = |name: &str| json!({ "name": name });
        let listed = async || {
            let page = ask(&executor, OPERATOR, "schedules", json!({})).await.expect("listed");
            (page["schedules"][0].clone(), page["schedules"][1].clone())
        };
        // the program's own as well
        for name in ["own", "sales"] {
            ask(&executor, OPERATOR, "pauseSchedule", named(name)).await.expect("paused");
        }
        tokio::time::sleep(5 * MINUTE).await;
        let (own, sales) = listed().await;
        for schedule in [&own, &sales] {
            assert_eq!((&schedule["paused"], &schedule["times"]), (&json!(true), &json!([])));
        }
        assert_eq!((&own["by_program"], &sales["skipped"]), (&json!(true), &json!(1)), "13:50");
        let now = ask(&executor, OPERATOR, "triggerSchedule", named("sales")).await.expect("begun");
        tokio::time::sleep(Duration::from_secs(5)).await;
        let wait = json!({ "uid": now["uid"] });
        let ended = ask(&executor, OPERATOR, "result", wait).await.expect("it ends");
        assert_eq!(ended["result"], "sales for eve", "{ended}");
        for name in ["own", "sales"] {
            ask(&executor, OPERATOR, "resumeSchedule", named(name)).await.expect("resumed");
        }
        // since 13:45, and up to 13:51:45
        let (until, most) = (times[0].as_f64().expect("a time") + 100_000.0, 600_000_000.0);
        let range = |since: f64| json!({ "name": "sales", "from": until - since, "until": until });
        let begun = ask(&executor, OPERATOR, "backfillSchedule", range(200_000.0)).await;
        assert_eq!(begun.expect("begun")["uids"].as_array().map(Vec::len), Some(1));
        let refused = ask(&executor, OPERATOR, "backfillSchedule", range(most)).await;
        assert_eq!(refused.expect_err("too many").code(), "TooManyTimes");
        tokio::time::sleep(MINUTE).await;
        let (own, sales) = listed().await;
        assert_eq!((&own["paused"], &sales["paused"]), (&json!(false), &json!(false)));
        let last = sales["last"].as_f64().expect("a time") / 60_000.0;
        assert_eq!((last % 60.0, &sales["skipped"]), (50.0, &json!(0)));
    });
}

/// Declares a schedule, and what `end` does with it is the last thing that its process does; returns what another process
/// carried out within twenty minutes.
async fn after_the_end_of_a_process(end: (&str, Value)) -> Vec<String> {
    let journal = Memory::new(TokioClock::start());
    let (executor, node) = process(&journal).await;
    ask(&executor, OPERATOR, "schedule", sales("sales")).await.expect("stored");
    tokio::time::sleep(MINUTE).await;
    ask(&executor, OPERATOR, end.0, end.1).await.expect("answered");
    // no other work of it comes between
    drop((node, executor));
    let (executor, _node) = process(&journal).await;
    tokio::time::sleep(13 * MINUTE).await;
    results(&executor).await.expect("listed")
}

#[test]
fn a_schedule_that_ends_begins_nothing_more_although_its_process_ends_too() {
    run(async {
        let removed = after_the_end_of_a_process(("unschedule", json!({ "name": "sales" }))).await;
        assert_eq!(removed, [""; 0]);
        let erased = after_the_end_of_a_process(("erase", json!({ "user": "eve" }))).await;
        assert_eq!(erased, [""; 0]);
        let mut stock = sales("sales");
        stock["params"]["of"] = json!("stock");
        let replaced = after_the_end_of_a_process(("schedule", stock)).await;
        assert_eq!(replaced, ["stock for eve"; 3], "each five minutes from 13:50 on");
    });
}
