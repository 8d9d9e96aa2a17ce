//! The promise: the log never stands in the way. Whatever its reader does, each request is answered
//! and the program goes on.

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, pipe};
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use asyncsteps_support::client::Connection;
use asyncsteps_support::shop::{self, Data, Program};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

const ORDER: &str = "demo.shop:1.0:order";
const RESTOCK: &str = "demo.shop:1.0:restock";

/// Each step of each request.
const STEPS: &str = "info,asyncsteps=debug";

/// Products of an order, each of which is reserved by steps of its own.
const SKUS: usize = 20;

/// Orders whose steps make more lines than a pipe and the buffer of the log hold, with what they ask the shelf for: a
/// megabyte for some six.
const ORDERS: usize = 30;

/// How much memory the program may take for a log that is not read, in bytes.
const MEMORY: usize = 32 << 20;

fn start(data: &Data, arguments: &[&str], filter: &str, log: PipeWriter) -> Program {
    Program::start_logging(PROGRAM, data, arguments, filter, log)
}

/// Orders one unit of each product, again and again; each order is answered.
fn buy(address: SocketAddr, orders: usize) {
    let mut client = Connection::open(address);
    let skus: Vec<String> = (0..SKUS).map(|number| format!("sku-{number}")).collect();
    for sku in &skus {
        let restocked = client.call(RESTOCK, &json!({ "sku": sku, "count": orders }));
        assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    }
    let items: Vec<(&str, i64)> = skus.iter().map(|sku| (sku.as_str(), 1)).collect();
    for _ in 0..orders {
        let sold = client.call(ORDER, &shop::order(&items));
        assert!(sold["r"]["order"].is_number(), "{sold}");
    }
}

/// The lines of a program from its start to its end. They are read while it runs: what a pipe has no room
/// for would be lost when the program ends.
fn lines_of(log: PipeReader) -> JoinHandle<Vec<String>> {
    thread::spawn(move || BufReader::new(log).lines().map(|line| line.expect("text")).collect())
}

#[test]
fn each_order_is_answered_although_the_reader_of_the_log_is_gone() {
    let data = Data::new();
    let (reader, log) = pipe().expect("a pipe");
    drop(reader);
    let program = start(&data, &[], STEPS, log);
    buy(program.address, 20);
    assert_eq!(program.terminate().code(), Some(0));
    assert_eq!(data.orders(), 20);
}

#[test]
fn each_order_is_answered_although_the_log_is_not_read() {
    let data = Data::new();
    let (unread, log) = pipe().expect("a pipe");
    let program = start(&data, &[], STEPS, log);
    let before = program.memory();
    buy(program.address, ORDERS);
    let taken = program.memory().saturating_sub(before);
    assert!(taken < MEMORY, "{taken} bytes");
    println!("{taken} bytes for {ORDERS} orders and a log that is not read");
    assert_eq!(program.terminate().code(), Some(0));
    assert_eq!(data.orders(), i64::try_from(ORDERS).expect("a small number"));
    drop(unread);
}

#[test]
fn a_log_that_is_read_late_says_how_many_lines_it_lacks() {
    let data = Data::new();
    let (late, log) = pipe().expect("a pipe");
    let program = start(&data, &[], STEPS, log);
    buy(program.address, ORDERS);
    let mut lines = BufReader::new(late).lines().map(|line| line.expect("text"));
    let note = lines.find(|line| line.contains("lines of the log were dropped lines="));
    let count = note.as_deref().and_then(|note| note.rsplit('=').next()?.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count > 0), "{note:?}");
    drop(lines);
    drop(program);
}

#[test]
fn the_last_lines_are_written() {
    let data = Data::new();
    let (reader, log) = pipe().expect("a pipe");
    let lines = lines_of(reader);
    let program = start(&data, &[], "info", log);
    buy(program.address, 2);
    assert_eq!(program.terminate().code(), Some(0));
    let lines = lines.join().expect("text");
    // the restocking and two orders; what these ask the shelf for are requests, too
    let requests = lines.iter().filter(|line| line.contains("asyncsteps::request: close"));
    let requests = requests.filter(|line| !line.contains("demo.shelf:1.0"));
    assert_eq!(requests.count(), SKUS + 2, "{lines:#?}");
    assert!(lines.last().is_some_and(|line| line.contains("stopped finished=0")), "{lines:#?}");
}

#[test]
fn a_log_in_a_file_has_no_colours() {
    let data = Data::new();
    let path = data.file().with_extension("log");
    let log = File::create(&path).expect("a file");
    let program = Program::start_logging(PROGRAM, &data, &[], STEPS, log);
    buy(program.address, 1);
    assert_eq!(program.terminate().code(), Some(0));
    let mut text = String::new();
    File::open(path).and_then(|mut log| log.read_to_string(&mut text)).expect("text");
    assert!(text.contains("place order"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn lines_of_steps_in_json_carry_the_steps_around() {
    let data = Data::new();
    let (reader, log) = pipe().expect("a pipe");
    let lines = lines_of(reader);
    let program = start(&data, &["--log", "json"], STEPS, log);
    buy(program.address, 1);
    assert_eq!(program.terminate().code(), Some(0));
    let lines = lines.join().expect("text");
    let lines = lines.iter().map(|line| serde_json::from_str(line).expect("JSON"));
    let inner: Vec<Value> = lines
        .filter(|line: &Value| {
            let spans = line["spans"].as_array().expect("a list");
            spans.last().is_some_and(|span| span["fields"]["name"] == "reserve one")
        })
        .collect();
    assert!(!inner.is_empty());
    for line in inner {
        let spans = line["spans"].as_array().expect("a list");
        let names: Vec<&Value> = spans.iter().map(|span| &span["name"]).collect();
        assert_eq!(names[..2], ["request", "step"], "{line}");
        assert_eq!(spans[0]["fields"]["f"], ORDER, "{line}");
        assert!(spans.iter().any(|span| span["fields"]["name"] == "reserve all"), "{line}");
    }
}
