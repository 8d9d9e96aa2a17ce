//! What operators order on the command line.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use crate::durable::shops::{ORDER, PROGRAM, Shops, order};

/// The step whose undo needs the bank.
const PAYMENT: &str = "demo.shop:1:order/open payment";

/// What `executor-demo jobs` prints; the error if it fails.
fn jobs(address: SocketAddr, arguments: &[&str]) -> Result<String, String> {
    let url = format!("http://{address}/ftn/");
    let output = Command::new(PROGRAM).args(["jobs", &url]).args(arguments).output();
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8").trim_end().to_owned();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

/// The uids of the requests in a table.
fn uids(table: &str) -> Vec<&str> {
    table.lines().skip(1).filter_map(|line| line.split(' ').next()).collect()
}

/// Waits until a request is paused.
fn wait_for_pause(address: SocketAddr, uid: &str) {
    loop {
        let open = jobs(address, &["result", uid, "--wait", "2"]).expect_err("it does not end");
        assert!(open.starts_with(&format!("{uid} has not ended: ")), "{open}");
        if open.ends_with(": paused") {
            return;
        }
    }
}

fn lists_of_three_are_filtered(address: SocketAddr) {
    // the journal has the shelf, too
    let list = ["list", "--function", ORDER];
    let listed = |filter: &[&str]| jobs(address, &[&list[..], filter].concat());
    let [begin, end] = ["2001-01-01T00:00:00Z", "2001-01-01T01:00:00+01:00"];
    assert_eq!(uids(&listed(&["--from", begin]).expect("a table")).len(), 3);
    assert!(uids(&listed(&["--from", begin, "--before", end]).expect("a table")).is_empty());
    assert!(uids(&listed(&["--user", "nobody"]).expect("a table")).is_empty());
    let with_key = listed(&["--key", "b"]).expect("a table");
    assert_eq!(uids(&with_key).len(), 1);
    assert!(with_key.contains("  paused, key b: "), "{with_key}");
    let wrong = listed(&["--before", "yesterday"]).expect_err("it is no time");
    assert!(wrong.contains("yesterday"), "{wrong}");
}

fn a_schedule_is_declared_and_removed(address: SocketAddr, parameters: &str) {
    let wrong = jobs(address, &["schedule", "yearly", "never", ORDER, parameters]);
    assert!(wrong.expect_err("it is no cron expression").contains("`never`"));
    let yearly = ["schedule", "yearly", "@yearly", ORDER, parameters];
    let stored = jobs(address, &yearly).expect("it is stored");
    assert!(stored.starts_with("yearly: demo.shop:1:order"), "{stored}");
    assert!(
        stored.contains(" 0 0 1 1 * UTC, next 20") && stored.ends_with("-01-01T00:00:00Z"),
        "{stored}"
    );
    assert_eq!(jobs(address, &["schedules"]), Ok(stored));
    assert_eq!(jobs(address, &["unschedule", "yearly"]), Ok("yearly is removed".to_owned()));
    assert_eq!(jobs(address, &["schedules"]), Ok(String::new()));
    let gone = jobs(address, &["unschedule", "yearly"]).expect_err("it is removed");
    assert!(gone.contains("UnknownSchedule"), "{gone}");
}

/// `ended` was submitted with the key `a`.
fn what_a_key_has_is_erased(address: SocketAddr, ended: &str) {
    for wrong in [&["erase"][..], &["erase", "--user", "ann", "--key", "a"]] {
        let wrong = jobs(address, wrong).expect_err("whose?");
        assert!(wrong.contains("--user") && wrong.contains("--key"), "{wrong}");
    }
    let nothing = Ok("requests removed: 0, not ended: 0".to_owned());
    assert_eq!(jobs(address, &["erase", "--user", "nobody"]), nothing);
    let erased = jobs(address, &["erase", "--key", "a"]);
    assert_eq!(erased, Ok("requests removed: 1, not ended: 0".to_owned()));
    let gone = jobs(address, &["status", ended]).expect_err("it is erased");
    assert!(gone.contains("UnknownJob"), "{gone}");
}

#[test]
fn an_operator_settles_undoes_and_resumes_what_is_paused() {
    let shops = Shops::new(None);
    // no order is paid, and no payment can be given up: no outage, so an operator is needed
    shops.change(
        "CREATE TRIGGER kept BEFORE UPDATE ON shop_payment BEGIN SELECT RAISE(ABORT, 'kept'); END",
    );
    let program = shops.start_with(&["--bank-failures", "100"]);
    let address = program.address;
    let parameters = order().to_string();
    let submit = |key| jobs(address, &["submit", ORDER, &parameters, "--key", key]);
    let submitted = ["a", "b", "c"].map(|key| submit(key).expect("it is stored"));
    assert_eq!(submit("a").as_ref(), Ok(&submitted[0]), "the key gives the first one");
    let [settled, undone, resumed] = &submitted;
    for uid in &submitted {
        wait_for_pause(address, uid);
    }
    let open = format!("requests removed: 0, not ended: 1\nnot ended: {settled}");
    assert_eq!(jobs(address, &["erase", "--key", "a"]), Ok(open));
    let dead = jobs(address, &["dead"]).expect("a table");
    assert_eq!(uids(&dead), submitted.each_ref().map(String::as_str));
    assert_eq!(dead.matches(PAYMENT).count(), 3, "each reason names the step: {dead}");
    let paused = jobs(address, &["list", "--state", "paused", "--function", ORDER]);
    assert_eq!(uids(&paused.expect("a table")).len(), 3);
    lists_of_three_are_filtered(address);
    let wrong = jobs(address, &["signal", resumed, "approval", "{"]).expect_err("it is no JSON");
    assert!(wrong.contains("the value is no JSON: {"), "{wrong}");
    let signal = ["signal", resumed, "approval", "{\"by\":\"ann\"}"];
    let refused = jobs(address, &signal).expect_err("no step of an order waits for it");
    assert!(refused.contains("no step of the job takes this signal"), "{refused}");
    assert!(program.terminate().success());

    shops.change("DROP TRIGGER kept");
    let program = shops.start();
    let address = program.address;
    let wrong = jobs(address, &["settle", settled, "demo.shop:1:order/pay", "kept"]);
    let wrong = wrong.expect_err("there is no such step");
    assert!(wrong.contains("UnknownStep") && wrong.contains(PAYMENT), "{wrong}");
    let wrong = jobs(address, &["settle", settled, PAYMENT, "result"]);
    assert!(wrong.expect_err("which result?").contains("<RESULT>"));
    let answer = jobs(address, &["settle", settled, PAYMENT, "undone", "--why", "case 7"]);
    assert_eq!(answer, Ok(format!("{PAYMENT} is settled: {settled} goes on")));
    let answer = jobs(address, &["undo", undone, PAYMENT, "--why", "the bank answers again"]);
    assert_eq!(answer, Ok(format!("{PAYMENT} is to be undone: {undone} goes on")));
    assert_eq!(jobs(address, &["resume", resumed]), Ok(format!("{resumed} goes on")));
    for uid in &submitted {
        let failed = jobs(address, &["result", uid, "--wait", "60"]).expect_err("it has failed");
        assert!(failed.starts_with("BankUnavailable"), "{failed}");
        let status = jobs(address, &["status", uid]).expect("it is known");
        let status: Value = serde_json::from_str(&status).expect("JSON");
        assert_eq!(status["job"]["state"], "ended", "{status}");
        let late = jobs(address, &["cancel", uid]).expect_err("it has ended");
        assert!(late.starts_with("too late"), "{late}");
        let late = jobs(address, &["undo", uid, PAYMENT]).expect_err("it has ended");
        assert!(late.contains("NotStopped"), "{late}");
        let late = jobs(address, &["pause", uid]).expect_err("it has ended");
        assert!(late.contains("HasEnded"), "{late}");
    }
    assert!(uids(&jobs(address, &["dead"]).expect("a table")).is_empty());
    a_schedule_is_declared_and_removed(address, &parameters);
    what_a_key_has_is_erased(address, settled);
    let sold = jobs(address, &["submit", ORDER, &parameters]).expect("it is stored");
    let result = jobs(address, &["result", &sold, "--wait", "60"]).expect("it is sold");
    assert!(result.contains("\"order\":1"), "{result}");
    assert!(program.terminate().success());
}
