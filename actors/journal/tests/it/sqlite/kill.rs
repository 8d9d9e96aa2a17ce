//! Kill -9 of a process that appends: every answered record is there, and no half of an append.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

use asyncsteps_journal::request::Append;
use asyncsteps_journal::{Journal, LEASE, Uid};
use futures_util::future::join_all;

use super::world::{Folder, open};
use crate::flows::{entry, run, start};

/// The journal that a process is to append to until it is killed.
const CHILD: &str = "JOURNAL_TO_APPEND_TO";

/// How many processes are killed; more in a long run.
const KILLS: &str = "JOURNAL_KILLS";

const FLOWS: usize = 16;

/// Records of one append.
const RECORDS: u64 = 3;

#[test]
fn every_answered_record_survives_kill_9() {
    if let Some(file) = env::var_os(CHILD) {
        return run(append_until_killed(file.as_ref()));
    }
    let folder = Folder::new("kill");
    let kills = env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(20);
    let mut answered = HashMap::new();
    for round in 0..kills {
        // at another point each time, from the first answer on
        killed_after(1 + round * 37 % 400, &folder.file(), &mut answered);
        if round % 5 == 4 {
            tear(&folder.file());
        }
        check(&folder.file(), &answered);
    }
}

/// Starts a process, kills it after so many answers, and notes what was answered: the last number of
/// each flow.
fn killed_after(answers: usize, file: &Path, answered: &mut HashMap<Uid, u64>) {
    let test = "sqlite::kill::every_answered_record_survives_kill_9";
    let mut child = Command::new(env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    for (count, line) in lines.map_while(Result::ok).filter_map(|line| answer(&line)).enumerate() {
        if count + 1 == answers {
            child.kill().expect("it runs");
        }
        answered.insert(line.0, line.1);
    }
    let status = child.wait().expect("it ended");
    assert!(!status.success(), "it was killed");
}

/// What a line says was answered; `None` for lines of the test harness, and for one that was cut.
fn answer(line: &str) -> Option<(Uid, u64)> {
    let (uid, number) = line.strip_prefix("answered ")?.strip_suffix('.')?.split_once(' ')?;
    Some((uid.parse().ok()?, number.parse().ok()?))
}

/// Half of a write at the end of the log.
fn tear(file: &Path) {
    let log = file.with_extension("db-wal");
    let mut log = OpenOptions::new().append(true).open(log).expect("a killed process leaves it");
    log.write_all(&[0x5a; 1000]).expect("it can be written");
}

fn check(file: &Path, answered: &HashMap<Uid, u64>) {
    let journal = open(file);
    run(async {
        for (uid, last) in answered {
            let loaded = journal.load(*uid).await.expect("the flow");
            let numbers: Vec<_> = loaded.records.iter().map(|stored| stored.id.sequence).collect();
            assert!(numbers.len() as u64 > *last, "{uid}: {last} was answered, {numbers:?}");
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{uid}: {numbers:?}");
            assert_eq!((numbers.len() as u64 - 1) % RECORDS, 0, "{uid}: half of an append");
        }
    });
}

async fn append_until_killed(file: &Path) {
    let journal = open(file);
    let node = journal.register(LEASE).await.expect("a node").node;
    let flow = async || {
        let uid = start(&journal, node).await;
        for first in (1..9000).step_by(3) {
            let records =
                (first..first + RECORDS).flat_map(|number| entry(uid, number, "").records);
            let entry = Append { records: records.collect(), ..entry(uid, first, "") };
            journal.append(vec![entry]).await.expect("the journal")[0].clone().expect("written");
            let last = first + RECORDS - 1;
            // one write for each line, so that a line is whole
            let line = format!("answered {uid} {last}.\n");
            io::stdout().write_all(line.as_bytes()).expect("the test reads it");
        }
    };
    join_all((0..FLOWS).map(|_| flow())).await;
}
