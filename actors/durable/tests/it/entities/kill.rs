//! Processes that are killed, and held past their lease, while they call the same entities: each call is counted once.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, io, thread};

use asyncsteps_journal::LEASE;
use asyncsteps_postgres_server::Server;
use serde_json::json;
use tokio::time::sleep;

use super::{Process, opened};

/// The journal of a process that calls, its number, and the first call that was not answered.
const JOURNAL: &str = "JOURNAL_OF_COUNTERS";
const NUMBER: &str = "NUMBER_OF_COUNTERS";
const FIRST: &str = "FIRST_OF_COUNTERS";

/// How many entities there are: few, so that both processes want each of them.
const NAMES: usize = 5;

const TEST: &str =
    "entities::kill::each_call_is_counted_once_whenever_its_process_is_killed_or_held";

#[test]
fn each_call_is_counted_once_whenever_its_process_is_killed_or_held() {
    if let Ok(journal) = env::var(JOURNAL) {
        let number = |name| env::var(name).ok().and_then(|it| it.parse().ok()).expect("a number");
        actix::System::new().block_on(calls(&journal, number(NUMBER), number(FIRST)));
    }
    let kills = if env::var_os("LONG_TESTS").is_some() { 50 } else { 2 };
    let folder = env::temp_dir().join(format!("asyncsteps-counters-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("journal").to_string_lossy().into_owned();
    let server = Server::start();
    thread::scope(|scope| {
        scope.spawn(|| check(&file, call_and_kill(&file, 0, kills, false)));
        let Some(url) = server.as_ref().map(Server::url) else { return };
        let one = scope.spawn({
            let url = url.clone();
            move || call_and_kill(&url, 1, kills, false)
        });
        let other = call_and_kill(&url, 2, kills / 2, true);
        check(&url, one.join().expect("it calls") + other);
    });
    let _ = std::fs::remove_dir_all(&folder);
}

/// Calls one entity after the other until it is killed, and says which calls were answered.
async fn calls(journal: &str, number: usize, first: usize) {
    let process = Process::with(opened(journal).await).await;
    for call in first.. {
        let params = json!({ "name": (call % NAMES).to_string(), "add": 1 });
        let answer = process.keyed("ann", &format!("{number}-{call}"), params.clone()).await;
        if let Err(error) = answer {
            panic!("call {call} of process {number} is answered with {error}");
        }
        // one write for each line, so that a line is whole
        io::stdout().write_all(format!("answered {call}.\n").as_bytes()).expect("it is read");
    }
}

/// A process that calls, from this call on.
fn spawn(journal: &str, number: usize, first: usize) -> Child {
    Command::new(env::current_exe().expect("this test"))
        .args(["--exact", TEST, "--nocapture"])
        .env(JOURNAL, journal)
        .env(NUMBER, number.to_string())
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Starts processes that call, one after the other, and kills each; `holds` them past their lease first. Returns how many
/// calls were made: the first one that was not answered is made again, with its key.
fn call_and_kill(journal: &str, number: usize, kills: usize, holds: bool) -> usize {
    let mut answered = 0;
    for round in 0..=kills {
        let last = answered + 20 + round * 37 % 50;
        let mut child = spawn(journal, number, answered);
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let calls = lines.map_while(Result::ok).filter_map(|line| {
            line.strip_prefix("answered ")?.strip_suffix('.')?.parse::<usize>().ok()
        });
        let (mut was_held, mut was_killed) = (!holds, false);
        for call in calls {
            answered = call + 1;
            if !was_held && answered + 10 >= last {
                was_held = true;
                signal(&child, "STOP");
                actix::System::new()
                    .block_on(async { sleep(LEASE + Duration::from_secs(3)).await });
                signal(&child, "CONT");
            }
            if answered >= last && !was_killed {
                was_killed = true;
                child.kill().expect("it runs");
            }
        }
        assert!(!child.wait().expect("it ended").success(), "it was killed");
    }
    // the last call may be carried out without an answer
    answered
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the process is there");
}

fn check(journal: &str, answered: usize) {
    actix::System::new().block_on(async {
        let process = Process::with(opened(journal).await).await;
        let mut sum = 0;
        for name in 0..NAMES {
            sum += usize::try_from(process.sum(&name.to_string()).await).expect("a number");
        }
        let processes = if journal.starts_with("postgres:") { 2 } else { 1 };
        // each process was killed with one call in flight at the most
        assert!((answered..=answered + processes).contains(&sum), "{sum} of {answered}");
        process.stop().await;
    });
}
