//! The promise: the program ends properly when it is asked to, and says so by its exit code.

use std::io::{Read as _, pipe};
use std::sync::mpsc;
use std::thread;

use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::{self, Data, Program};
use asyncsteps_support::ws::{Frame, Socket};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

#[test]
fn sigterm_ends_the_program_with_code_0() {
    let data = Data::new();
    let program = Program::start(PROGRAM, &data);
    client::ping(program.address);
    assert_eq!(program.terminate().code(), Some(0));
}

#[test]
fn balancers_are_told_before_connections_are_refused() {
    let data = Data::new();
    let program = Program::start_with(PROGRAM, &data, &["--drain-delay", "3600"]);
    let get = |path: &str| {
        let mut connection = Connection::open(program.address);
        connection.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes());
        let answer = connection.receive();
        (answer.status(), answer.text().to_owned())
    };
    assert_eq!(get("/ready").0, 200);
    let mut kept = Connection::open(program.address);
    let ping = post(&message("futoin.anonping:1.0:ping", &json!({ "echo": 5 })));
    assert_eq!(kept.send(&ping).receive().header("connection"), None);
    program.ask_to_end();
    let closing = loop {
        match get("/ready") {
            (200, _) => thread::yield_now(),
            closing => break closing,
        }
    };
    let text = r#"{"ready":false,"reasons":["closing"]}"#;
    assert_eq!(closing, (503, text.to_owned()));
    // a connection that is kept has one more answer, and ends
    let last = kept.send(&ping).receive();
    assert_eq!((last.status(), last.header("connection")), (200, Some("close")));
    kept.expect_closed();
    client::ping(program.address);
    for path in ["/health", "/metrics", "/console"] {
        assert_eq!(get(path).0, 200, "{path}");
    }
}

#[test]
fn an_order_that_is_not_undone_in_time_is_told_by_the_log_and_the_exit_code() {
    let data = Data::new();
    let (mut log, into) = pipe().expect("a pipe");
    // calls of the bank take hours
    let arguments = ["--grace", "0", "--drain-delay", "0", "--bank-latency", "1000000000"];
    let program = Program::start_logging(PROGRAM, &data, &arguments, "info", into);
    let params = json!({ "sku": "apple", "count": 1 });
    let restocked = client::call(program.address, "demo.shop:1.0:restock", &params);
    assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    let mut customer = Connection::open(program.address);
    customer.send(&post(&message("demo.shop:1.0:order", &shop::order(&[("apple", 1)]))));
    let calls_the_bank = || {
        let mut connection = Connection::open(program.address);
        connection.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let figures = connection.receive().text().to_owned();
        let holders = r#"asyncsteps_lock_holders{kind="mutex",lock="bank"} 1"#;
        figures.lines().any(|line| line.starts_with(holders))
    };
    while !calls_the_bank() {
        thread::yield_now();
    }
    assert_eq!(program.terminate().code(), Some(1));
    let mut lines = String::new();
    log.read_to_string(&mut lines).expect("text");
    // its undo gives the units back, and calls that it makes are cancelled with it
    let stopped = lines.lines().find(|line| line.contains("stopped finished=0"));
    assert!(stopped.is_some_and(|line| line.ends_with("not_undone=1")), "{lines}");
}

#[test]
fn sigterm_says_goodbye_to_idle_clients() {
    let data = Data::new();
    let program = Program::start(PROGRAM, &data);
    let mut socket = Socket::open(program.address);
    assert_eq!(program.terminate().code(), Some(0));
    assert_eq!(socket.frame(), Frame::Close(Some(1001)));
}

#[test]
fn sigterm_amid_orders_leaves_each_client_with_an_answer_or_a_closed_connection() {
    let data = Data::new();
    let program = Program::start(PROGRAM, &data);
    let address = program.address;
    let params = json!({ "sku": "apple", "count": 1_000_000 });
    let restocked = client::call(address, "demo.shop:1.0:restock", &params);
    assert!(restocked["r"]["stock"].is_number(), "{restocked}");
    let (answers, answered) = mpsc::channel();
    let clients = [(); 8].map(|()| Connection::open(address));
    thread::scope(|scope| {
        for mut client in clients {
            let answers = answers.clone();
            scope.spawn(move || {
                let order = post(&message("demo.shop:1.0:order", &shop::order(&[("apple", 1)])));
                while client.try_send(&order) {
                    let Some(answer) = client.try_receive().map(|answer| answer.json()) else {
                        return;
                    };
                    if answer["e"] == "DefenseRejected" {
                        return;
                    }
                    assert!(answer["r"]["order"].is_number(), "{answer}");
                    answers.send(()).expect("the test listens until the end");
                }
            });
        }
        drop(answers);
        let some = (0..100).map(|_| answered.recv_timeout(PATIENCE)).filter(Result::is_ok).count();
        assert_eq!(some, 100);
        assert_eq!(program.terminate().code(), Some(0));
        let orders = i64::try_from(some + answered.iter().count()).unwrap();
        assert_eq!(data.orders(), orders, "what was not answered was not sold");
    });
}
