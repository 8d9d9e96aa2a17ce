//! Kill -9 of processes that book: each request that was accepted ends, and is booked once.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, io};

use asyncsteps_durable::Durable;
use asyncsteps_journal::request::FlowState;
use asyncsteps_postgres_server::Server;
use futures_util::future::join_all;

use crate::transact::bank::{Bank, Database, Folder, PATIENCE, Then, flows, params, submit};

/// The journal that a process is to book in until it is killed: a file, or the URL of a server.
const CHILD: &str = "JOURNAL_TO_BOOK_IN";

/// How many processes are killed.
const KILLS: usize = 6;

const CLIENTS: usize = 8;

#[test]
fn every_accepted_request_is_booked_once_whenever_its_process_is_killed() {
    if let Ok(journal) = env::var(CHILD) {
        actix::System::new().block_on(book_until_killed(&journal));
    }
    let folder = Folder::new("kill");
    check(folder.file().to_str().expect("a path of UTF-8"));
    if let Some(server) = Server::start() {
        check(&server.url());
    }
}

async fn open(journal: &str) -> Bank {
    Bank::new(match journal.starts_with("postgres:") {
        true => Database::on_server(journal.parse().expect("a URL")).await,
        false => Database::in_file(&journal.into()).await,
    })
}

async fn book_until_killed(journal: &str) {
    let bank = open(journal).await;
    let (durable, _node) = bank.start().await;
    let client = async |number: usize| {
        for order in 0_usize.. {
            let name = format!("{}-{number}-{order}", std::process::id());
            submit(&durable, "book", params(&name, Then::Ends)).await;
            // one write for each line, so that a line is whole
            io::stdout().write_all(format!("accepted {name}.\n").as_bytes()).expect("it is read");
        }
    };
    join_all((0..CLIENTS).map(client)).await;
}

fn check(journal: &str) {
    let mut accepted = Vec::new();
    for round in 0..KILLS {
        // at another point each time, from the first answer on
        killed_after(1 + round * 37 % 100, journal, &mut accepted);
    }
    actix::System::new().block_on(async {
        let bank = open(journal).await;
        let (durable, node) = bank.start().await;
        let ended = tokio::time::timeout(PATIENCE, all_ended(&durable)).await;
        let ended = ended.expect("all of them end");
        assert!(ended >= accepted.len(), "{ended} of {}", accepted.len());
        for name in &accepted {
            assert_eq!(bank.database.booked(name).await, 1, "{name}");
        }
        node.stop().await;
    });
}

/// Starts a process, kills it after so many answers, and notes what it has accepted.
fn killed_after(answers: usize, journal: &str, accepted: &mut Vec<String>) {
    let test =
        "transact::kill::every_accepted_request_is_booked_once_whenever_its_process_is_killed";
    let mut child = Command::new(env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, journal)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let names = lines
        .map_while(Result::ok)
        .filter_map(|line| Some(line.strip_prefix("accepted ")?.strip_suffix('.')?.to_owned()));
    for (count, name) in names.enumerate() {
        if count + 1 == answers {
            child.kill().expect("it runs");
        }
        accepted.push(name);
    }
    assert!(!child.wait().expect("it ended").success(), "it was killed");
}

/// Waits until no request is open; returns how many there are.
async fn all_ended(durable: &Durable) -> usize {
    loop {
        let flows = flows(durable).await;
        if flows.iter().all(|flow| flow.state == FlowState::Ended) {
            return flows.len();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
