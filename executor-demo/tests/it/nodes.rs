//! The promise: processes that share the work answer as one does, and each can leave without a lost request.

#[path = "../../../actors/fabric/tests/it/nats/server.rs"]
#[expect(dead_code, reason = "this needs only a part of it")]
mod server;

use std::process::{Command, Output};
use std::thread;

use asyncsteps_support::PATIENCE;
use asyncsteps_support::client::{self, Connection, message, post};
use asyncsteps_support::shop::{self, Data, Program};
use serde_json::{Value, json};
use tokio::time::Instant;

use server::{NatsPort, NatsServer};

use crate::pages::get;

const PROGRAM: &str = env!("CARGO_BIN_EXE_executor-demo");

/// A node that hosts a part of the demo.
fn node(server: &NatsServer, data: &Data, name: &str, only: &str) -> Program {
    let url = server.url();
    let options = ["--nats", &url, "--node", name, "--only", only, "--node-secret", "s"];
    Program::start_with(PROGRAM, data, &options)
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("the program starts")
}

/// What a command prints.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What a command says that fails.
fn error(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.stdout, b"");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn an_order_goes_over_three_nodes() {
    if !NatsServer::is_installed() {
        println!("no nats-server here: the test is left out");
        return;
    }
    let server = NatsServer::start(&[]);
    let url = &*server.url();
    let (of_shop, of_bank, of_front) = (Data::new(), Data::new(), Data::new());
    let _bank = node(&server, &of_bank, "bank", "bank");
    let _shop = node(&server, &of_shop, "shop", "shop");
    let front = node(&server, &of_front, "front", "none");
    let apples = json!({ "sku": "apple", "count": 10, "price": 30 });
    let restocked = client::call(front.address, "demo.shop:1.0:restock", &apples);
    assert_eq!(restocked, json!({ "r": { "stock": 10 } }));
    let order = shop::order(&[("apple", 3)]);
    let ordered = client::call(front.address, "demo.shop:1.0:order", &order);
    assert_eq!(ordered, json!({ "r": { "order": 1, "total": 90 } }));
    let too_many = shop::order(&[("apple", 8)]);
    let refused = client::call(front.address, "demo.shop:1.0:order", &too_many);
    assert_eq!(refused, json!({ "e": "OutOfStock", "edesc": "apple" }));
    let unknown = client::call(front.address, "demo.other:1.0:order", &json!({}));
    assert_eq!(
        unknown,
        json!({ "e": "UnknownInterface", "edesc": "Unknown interface: demo.other" })
    );
    let forbidden = json!({ "key": "k" });
    let forbidden = client::call(front.address, "demo.bank:1.0:refund", &forbidden);
    assert_eq!(forbidden["e"], "PleaseReauth", "{forbidden}");

    let audit = printed(&["call", "--nats", url, "demo.bank:1.0:audit"]);
    let audit: Value = serde_json::from_str(&audit).expect("JSON");
    assert_eq!(audit, json!({ "accounts": 0, "held": 0, "shop": 90 }));
    let end_point = format!("http://{}/ftn/", front.address);
    let stock = ["demo.shop:1.0:stock", r#"{"sku":"apple"}"#];
    for to in [["--nats", url], ["--url", &end_point]] {
        assert_eq!(printed(&[&["call"], &to[..], &stock].concat()), "{\"stock\":7}\n");
    }
    assert!(!of_front.file().exists(), "a front has no database");
    let all = "NODE   IN FLIGHT  STATE     INTERFACES\n\
         bank           0  serving   demo.bank:1.0 futoin.anonping:1.0 futoin.ping:1.0\n\
         front          0  serving   futoin.anonping:1.0 futoin.ping:1.0\n\
         shop           0  serving   demo.shop:1.0 futoin.anonping:1.0 futoin.ping:1.0\n";
    let begun = Instant::now();
    loop {
        let listed = printed(&["nodes", "--nats", url]);
        if listed == all {
            break;
        }
        // nodes on a loaded machine may answer too late for one list
        assert!(begun.elapsed() < PATIENCE, "{listed}");
    }
}

#[test]
fn nodes_leave_under_load_without_a_lost_request() {
    const REQUESTS: usize = 400;
    if !NatsServer::is_installed() {
        println!("no nats-server here: the test is left out");
        return;
    }
    let server = NatsServer::start(&[]);
    let url = &*server.url();
    let (of_shop, of_front) = (Data::new(), Data::new());
    let stays = node(&server, &of_shop, "stays", "shop");
    let told = node(&server, &of_shop, "told", "shop");
    let terminated = node(&server, &of_shop, "terminated", "shop");
    let front = node(&server, &of_front, "front", "none");
    let apples = json!({ "sku": "apple", "count": 10, "price": 30 });
    let restocked = client::call(front.address, "demo.shop:1.0:restock", &apples);
    assert_eq!(restocked, json!({ "r": { "stock": 10 } }));
    thread::scope(|scope| {
        let clients = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut connection = Connection::open(front.address);
                let stock = post(&message("demo.shop:1.0:stock", &json!({ "sku": "apple" })));
                for _ in 0..REQUESTS {
                    assert_eq!(
                        connection.send(&stock).receive().json(),
                        json!({ "r": { "stock": 10 } })
                    );
                }
            })
        });
        let drained = printed(&["drain", "--nats", url, "told"]);
        assert_eq!(drained, "told has drained\n");
        assert_eq!(told.ended().code(), Some(0));
        assert_eq!(terminated.terminate().code(), Some(0));
        for client in clients {
            client.join().expect("each request is answered");
        }
    });
    assert_eq!(stays.terminate().code(), Some(0));
    let unserved = client::call(front.address, "demo.shop:1.0:stock", &json!({ "sku": "apple" }));
    assert_eq!(unserved["e"], "ConnectError", "{unserved}");
}

/// Asks a node about jobs.
fn ask(node: &Program, function: &str, params: &Value) -> Value {
    let answer = client::call(node.address, &format!("asyncsteps.jobs:1.0:{function}"), params);
    assert!(answer["r"] != Value::Null, "{function} {params}: {answer}");
    answer["r"].clone()
}

#[test]
fn orders_in_flight_end_by_themselves_when_the_bank_and_nats_are_back() {
    const ORDERS: usize = 40;
    if !NatsServer::is_installed() {
        println!("no nats-server here: the test is left out");
        return;
    }
    let port = NatsPort::new();
    let server = NatsServer::start_on(&port.text(), &[]);
    let (of_shop, of_bank, url) = (Data::new(), Data::new(), server.url());
    let start = |data: &Data, only: &str, more: &[&str]| {
        let options = ["--nats", &*url, "--node", only, "--only", only, "--node-secret", "s"];
        Program::start_with(PROGRAM, data, &[&options[..], more].concat())
    };
    let bank = start(&of_bank, "bank", &["--bank-latency", "200"]);
    let journal = of_shop.file().with_extension("journal");
    let shop = start(&of_shop, "shop", &["--journal", journal.to_str().expect("UTF-8")]);
    let apples = json!({ "sku": "apple", "count": 1000, "price": 30 });
    let restocked = client::call(shop.address, "demo.shop:1.0:restock", &apples);
    assert_eq!(restocked, json!({ "r": { "stock": 1000 } }));
    let order =
        json!({ "function": "demo.shop:1.0:order", "params": shop::order(&[("apple", 2)]) });
    let orders = [(); ORDERS].map(|()| ask(&shop, "submit", &order)["uid"].clone());
    bank.kill();
    drop(server);
    // each has ended, or says what it waits for
    let status = |uid: &Value| ask(&shop, "status", &json!({ "uid": uid }))["job"].clone();
    let mut waited = 0;
    let begun = Instant::now();
    for uid in &orders {
        loop {
            let job = status(uid);
            let waits = job["reason"].as_str().is_some_and(|why| why.starts_with("waits since "));
            waited += usize::from(waits);
            if waits || job["state"] == "ended" {
                break;
            }
            // an undo has twenty attempts, and the client of the bank repeats each
            assert!(begun.elapsed() < 5 * PATIENCE, "{job}");
            thread::yield_now();
        }
    }
    assert!(waited > 0, "no order needs the bank");
    let _server = NatsServer::start_on(&port.text(), &[]);
    let bank = start(&of_bank, "bank", &[]);
    let mut sold = 0;
    for uid in &orders {
        // the pauses between attempts are up to two minutes
        let begun = Instant::now();
        let ended = loop {
            let ended = ask(&shop, "result", &json!({ "uid": uid, "wait": 60_000 }));
            if ended["state"] == "ended" {
                break ended;
            }
            assert!(begun.elapsed() < 5 * PATIENCE, "{}", status(uid));
        };
        sold += i64::from(ended["result"]["order"].is_number());
    }
    assert_eq!(of_shop.orders(), sold);
    let audit = printed(&["call", "--nats", &url, "demo.bank:1.0:audit"]);
    let audit: Value = serde_json::from_str(&audit).expect("JSON");
    assert_eq!(audit, json!({ "accounts": 0, "held": 0, "shop": 60 * sold }));
    assert!(shop.terminate().success() && bank.terminate().success());
}

#[test]
fn a_node_whose_server_is_silent_is_not_ready_whatever_it_hosts_and_ends_all_the_same() {
    if !NatsServer::is_installed() {
        println!("no nats-server here: the test is left out");
        return;
    }
    let server = NatsServer::start(&[]);
    let data = [(); 3].map(|()| Data::new());
    let nodes = ["shop", "bank", "none"].into_iter().zip(&data);
    let nodes: Vec<Program> = nodes.map(|(only, data)| node(&server, data, only, only)).collect();
    for program in &nodes {
        assert_eq!(get(program.address, "/ready").0, 200);
    }
    server.stop();
    for program in nodes {
        let begun = Instant::now();
        let told = loop {
            match get(program.address, "/ready") {
                (200, _) => assert!(begun.elapsed() < PATIENCE, "it notices"),
                told => break told,
            }
        };
        let text = r#"{"faults":["the connection to the NATS server is lost"],"ready":false,"reasons":["disconnected"]}"#;
        assert_eq!(told, (503, text.to_owned()));
        let (_, figures) = get(program.address, "/metrics");
        for line in [
            r#"asyncsteps_dependency_up{connection="nats"} 0.0"#,
            r#"asyncsteps_dependency_losses_total{connection="nats"} 1"#,
        ] {
            assert!(figures.lines().any(|other| other == line), "{line}: {figures}");
        }
        assert_eq!(program.terminate().code(), Some(0));
    }
}

#[test]
fn a_command_that_cannot_work_says_why() {
    if !NatsServer::is_installed() {
        println!("no nats-server here: the test is left out");
        return;
    }
    let server = NatsServer::start(&["--user", "shop", "--pass", "right"]);
    let url = &*server.url();
    let let_in = ["--nats", url, "--nats-user", "shop", "--nats-password", "right"];
    let call = |more: &[&str]| error(&[&["call"], &let_in[..], more].concat());
    for (told, why) in [
        (error(&["nodes", "--nats", "not a server"]), "are no servers: write nats://host:4222"),
        (error(&["nodes", "--nats", "nats://127.0.0.1:1"]), "is it running"),
        (error(&["nodes", "--nats", url]), "refuses the credentials"),
        (error(&["nodes"]), "--nats <URL>"),
        (error(&["call", "demo.shop:1.0:stock"]), "--url <URL>"),
        (error(&["--only", "shop"]), "--nats <URL>"),
        (error(&["--nats", url, "--node", "a.b"]), "a node is named with"),
        (error(&["--nats", url, "--listen", "127.0.0.1:0", "--data", ":memory:"]), "credentials"),
        (error(&[&["drain"], &let_in[..], &["n1"]].concat()), "there is no node n1"),
        (call(&["demo.shop:1.0:stock"]), "ConnectError: no node serves the function"),
        (call(&["stock"]), "InvokerError: stock"),
        (call(&["demo.shop:1.0:stock", "{"]), "the parameters are no JSON"),
    ] {
        assert!(told.contains(why) && !told.contains("panic"), "{why}: {told}");
    }
}
