//! The promise: a load says how long requests took, and whether every one got one answer and
//! everything adds up afterwards; it notices when it does not.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::thread;

use asyncsteps_support::client;
use asyncsteps_support::shop::{Data, Shop, config};
use executor_demo::Config;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_asyncsteps-load");

/// A shop that serves and has its database.
fn start(config: Config) -> Shop {
    let shop = Shop::serve(config);
    client::ping(shop.address);
    shop
}

/// One whose requests in flight end with it.
fn without_grace(data: &Data) -> Shop {
    start(Config { grace: 0, ..config(data) })
}

/// Loads the server at a URL.
fn load(url: &str, arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg(url).args(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("text")
}

#[test]
fn everything_adds_up_although_the_bank_loses_calls() {
    let data = Data::new();
    let shop = start(Config { bank_failures: 10, bank_latency: 5, ..config(&data) });
    let folder = data.file().with_file_name("distributions");
    let report = data.file().with_file_name("report.json");
    let [report, folder] = [&report, &folder].map(|path| path.to_str().expect("text"));
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{}/ftn/", shop.address);
        let output = load(
            &url,
            &[
                "--rate",
                "100",
                "--duration",
                "2",
                "--connections",
                "4",
                "--json",
                report,
                "--hgrm",
                folder,
            ],
        );
        let told = text(&output.stdout);
        assert!(output.status.success(), "{told}{}", text(&output.stderr));
        assert!(told.contains("every request got one answer"), "{told}");

        let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
        let answered = report["answered"].as_u64().unwrap();
        assert_eq!(report["functions"]["all"]["count"].as_u64(), Some(answered));
        let times = &report["functions"]["demo.shop:1.0:order"]["response"];
        assert!(times["p50"].as_u64() <= times["p99_9"].as_u64(), "{times}");
        let balances = &report["functions"]["demo.bank:1.0:balance"]["count"];
        assert!(balances.as_u64() > Some(0), "customers look at their balance");
        let of_orders = fs::read_to_string(format!("{folder}/demo.shop_1.0_order.hgrm")).unwrap();
        assert!(of_orders.contains("#[Max "), "{of_orders}");
    }
    let url = format!("http://{}/ftn/", shop.address);
    let output = load(&url, &["--rate", "50", "--duration", "0.5", "--compare", report]);
    assert!(text(&output.stdout).contains("times of what was before"), "{output:?}");
    drop(shop);
    assert!(data.orders() > 0);
}

#[test]
fn what_does_not_add_up_is_told() {
    let data = Data::new();
    let shop = start(config(&data));
    let url = format!("http://{}/ftn/", shop.address);
    let output = thread::scope(|scope| {
        let load = scope.spawn(|| load(&url, &["--rate", "100", "--duration", "2"]));
        // its products are there before its first request
        let sku = loop {
            let books = data.books();
            if books.len() == 50 {
                break books.into_keys().next().expect("a product");
            }
            thread::yield_now();
        };
        let restock = json!({ "sku": sku, "count": 1 });
        let restocked = client::call(shop.address, "demo.shop:1.0:restock", &restock);
        assert!(restocked["r"]["stock"].is_number(), "{restocked}");
        load.join().expect("no panic")
    });
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("wrong: stock of load-") && told.contains("IT DOES NOT ADD UP"),
        "{told}"
    );
}

#[test]
fn a_server_that_ends_in_the_middle_is_told() {
    let data = Data::new();
    let shop = without_grace(&data);
    let url = format!("ws://{}/ftn/", shop.address);
    let arguments = ["--rate", "100", "--duration", "2", "--patience", "1"];
    let output = thread::scope(|scope| {
        let load = scope.spawn(|| load(&url, &arguments));
        while data.orders() == 0 {
            thread::yield_now();
        }
        drop(shop);
        load.join().expect("no panic")
    });
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no answer: ") && told.contains("not checked: "), "{told}");
}

#[test]
fn what_was_measured_is_told_and_written_before_the_check() {
    let data = Data::new();
    let shop = without_grace(&data);
    let file = data.file().with_file_name("report.json");
    let mut load = Command::new(PROGRAM);
    load.arg(format!("ws://{}/ftn/", shop.address)).arg("--json");
    // no order that the server has not answered gets an outcome: the check takes a day
    load.arg(&file).args(["--rate", "100", "--duration", "2", "--patience", "86400"]);
    let mut load = load.stdout(Stdio::piped()).spawn().expect("the program starts");
    while data.orders() == 0 {
        thread::yield_now();
    }
    drop(shop);
    let mut lines = BufReader::new(load.stdout.take().expect("a pipe")).lines();
    let told: Vec<String> = lines
        .by_ref()
        .map(|line| line.expect("text"))
        .take_while(|line| !line.contains("demo.shop:1.0:order: no answer: "))
        .collect();
    assert!(told.iter().any(|line| line.contains("requests/s were due")), "{told:?}");
    // the last line comes before the file does
    let report: Value = loop {
        match fs::read(&file).map(|text| serde_json::from_slice(&text)) {
            Ok(Ok(report)) => break report,
            _ => thread::yield_now(),
        }
    };
    assert!(load.try_wait().expect("a child").is_none(), "the check is not over");
    load.kill().expect("a child");
    load.wait().expect("a child");
    assert!(report["answered"].as_u64() > Some(0), "{report}");
    assert_eq!(report["not_checked"], json!(["nothing is checked yet"]));
}

#[test]
fn the_highest_rate_is_found() {
    let data = Data::new();
    let shop = start(config(&data));
    let url = format!("http://{}/ftn/", shop.address);
    // no server is as fast as this limit, which ends the search without much load
    let output = load(&url, &["--rate", "16", "--duration", "0.5", "--find-saturation", "0"]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no rate is within the limit"), "{told}");
}

#[test]
fn what_cannot_be_loaded_is_told() {
    let closed =
        TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
    for (url, arguments, why) in [
        (format!("http://{closed}/ftn/"), &[][..], "cannot connect to"),
        (format!("https://{closed}/ftn/"), &[], "https is not supported"),
        (
            format!("http://{closed}/ftn/"),
            &["--compare", "/nonexistent"],
            "cannot read /nonexistent",
        ),
    ] {
        let output = load(&url, arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains(why), "{output:?}");
    }
    let output = load("http://127.0.0.1:1/", &["--rate", "0"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");

    let data = Data::new();
    let shop = start(config(&data));
    let output = load(&format!("http://{}/elsewhere/", shop.address), &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("this is no demo shop: demo.shop:1.0:restock answers"),
        "{output:?}"
    );
}
