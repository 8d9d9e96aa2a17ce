//! The promise: what is recorded is sealed with keys of the application, and what does not open is told.

use std::path::Path as FilePath;
use std::{fs, iter};

use asyncsteps_core::BodyResult;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::postgres::{self, Postgres};
use asyncsteps_journal::record::{
    Cause, Done, Effect, Ended, Ending, Failed, Failure, Intent, Iteration, Keys as Items, Started,
};
use asyncsteps_journal::request::{
    Append, CallerKey, Emit, FirstOwner, Signal, StoredSchedule, Submit,
};
use asyncsteps_journal::sqlite::{self, Sqlite};
use asyncsteps_journal::transaction::{Committed, StepEntry, Transaction};
use asyncsteps_journal::{
    Epoch, Error, Event, InvalidKeys, Journal, Keys, LEASE, Path, Record, Repeat, Timestamp, Uid,
    Value,
};
use asyncsteps_postgres_server::Server;
use rusqlite::Connection;

use crate::flows::{entry, run, submit};
use crate::sqlite::world::Folder;

/// What must not be found in a storage.
const MARK: &str = "ann@example.org";

fn keys(ids: &[&str]) -> Keys {
    let bytes = |id: &&str| [*id.as_bytes().last().expect("an id"); 32];
    let keys: Vec<_> = ids.iter().map(|id| (*id, bytes(id))).collect();
    Keys::new(keys.iter().map(|(id, bytes)| (*id, bytes))).expect("keys")
}

fn mark() -> Value {
    Value::encode(MARK).expect("a value")
}

fn with_mark(key: Option<&str>) -> Submit {
    let new = submit(FirstOwner::Any);
    let started = Started { parameters: mark(), user: Some(MARK.to_owned()), ..new.started };
    let key = key.map(|key| CallerKey { scope: "s".to_owned(), key: key.to_owned() });
    Submit { started, key, ..new }
}

/// One record of each kind that may have something of a person in it.
fn records() -> Vec<Record> {
    let (text, at) = (|| MARK.to_owned(), Timestamp::from_millis(1));
    let failure = || Failure { code: text(), text: Some(text()) };
    let intent = Intent {
        at,
        attempt: 1,
        locks: Vec::new(),
        has_undo: None,
        input: Some(mark()),
        form: None,
    };
    let failed = Failed {
        failure: failure(),
        attempt: 1,
        millis: 1,
        effect: Effect::None,
        cause: Some(Cause { code: text(), value: Some(mark()) }),
    };
    let events = [
        Event::Intent(intent),
        Event::Done(Done { value: mark(), attempt: 1, millis: 1 }),
        Event::Failed(failed),
        Event::Keys(Items { keys: vec![text()] }),
        Event::Iteration(Iteration { index: 0, state: mark() }),
    ];
    events.into_iter().map(|event| Record::new(Path::template("t").step("s"), event)).collect()
}

/// Stores something of each kind, and returns the flow that goes on.
async fn fill(journal: &dyn Journal) -> Uid {
    let node = journal.register(LEASE).await.expect("a node").node;
    let owned = Submit { owner: FirstOwner::Node(node), ..with_mark(None) };
    let (open, ended) = (owned.uid, Submit { uid: uid(), ..owned.clone() });
    for submit in [&owned, &ended] {
        journal.submit(submit.clone()).await.expect("it is stored");
    }
    let signal = Signal { id: uid(), name: "n".to_owned(), value: mark() };
    journal.signal(open, signal).await.expect("it is stored");
    let value = mark();
    let schedule = StoredSchedule { name: "daily".to_owned(), value };
    journal.put_schedule(schedule).await.expect("it is stored");
    let (epoch, path) = (Epoch::new(1), Path::template("t").step("s"));
    let key = "k".to_owned();
    let emit = Emit { uid: open, epoch, path, key, value: mark(), is_awaited: false };
    journal.emit(emit).await.expect("an answer").expect("it is stored");
    let end = Event::Ended(Ended { ending: Ending::Completed(mark()) });
    let end = vec![Record::new(Path::template("t"), end)];
    let of = |uid, records| Append { uid, records, ..entry(uid, 1, "") };
    let batch = vec![of(open, records()), of(ended.uid, end)];
    for answer in journal.append(batch).await.expect("an answer") {
        answer.expect("it is written");
    }
    read(journal, open).await;
    let ending = journal.status(ended.uid).await.expect("it is there").ending;
    assert_eq!(ending, Some(Ending::Completed(mark())));
    open
}

/// Everything of the flow is as it was stored.
async fn read(journal: &dyn Journal, uid: Uid) {
    let loaded = journal.load(uid).await.expect("it is read");
    let read: Vec<_> = loaded.records.iter().map(|stored| stored.record.clone()).collect();
    let Event::Started(started) = &read[0].event else { panic!("{read:?}") };
    assert_eq!((&started.parameters, started.user.as_deref()), (&mark(), Some(MARK)));
    assert_eq!(read[1..], records());
    assert_eq!(loaded.inbox.signals[0].value, mark());
    let emitted = journal.emitted(uid, 0, 9).await.expect("they are read").events;
    assert_eq!(emitted.iter().map(|it| &it.value).collect::<Vec<_>>(), [&mark()]);
    assert_eq!(journal.schedules().await.expect("they are read")[0].value, Ok(mark()));
}

fn uid() -> Uid {
    Uid::random().expect("random bytes")
}

/// The error of a journal that cannot read the flow.
async fn unread(journal: &dyn Journal, uid: Uid) -> String {
    let error = journal.load(uid).await.expect_err("it is not read");
    assert_eq!(error.repeat(), Repeat::Never, "its flow waits for an operator");
    assert!(matches!(error, Error::UnknownRecord { .. }), "{error}");
    let others = [
        journal.schedules().await.expect("the others are")[0]
            .value
            .clone()
            .expect_err("it is not read"),
        journal.inbox(uid).await.expect_err("it is not read").to_string(),
        journal.emitted(uid, 0, 9).await.expect_err("it is not read").to_string(),
    ];
    assert!(others[0].starts_with("the schedule `daily` cannot be read: "), "{others:?}");
    assert!(others[1].starts_with(&format!("the signal `n` of flow {uid} cannot ")), "{others:?}");
    assert!(others[2].starts_with(&format!("an event of t/s in flow {uid} cannot ")), "{others:?}");
    error.to_string()
}

/// Keys come, are replaced and go: `open` opens the journal with these.
async fn keys_are_replaced<J: Journal>(open: impl AsyncFn(Option<Keys>) -> J) {
    let plain = fill(&open(None).await).await;
    let journal = open(Some(keys(&["2025"]))).await;
    read(&journal, plain).await;
    journal.remove_schedule("daily".to_owned()).await.expect("it is removed");
    let old = fill(&journal).await;
    drop(journal);
    let both = open(Some(keys(&["2026", "2025"]))).await;
    read(&both, old).await;
    drop(both);
    let later = open(Some(keys(&["2026"]))).await;
    let why = "it is sealed with the key `2025`, which this program does not have";
    let error = unread(&later, old).await;
    assert!(error.ends_with(why) && error.starts_with("record 0 of flow "), "{error}");
    drop(later);
    let without = open(None).await;
    let error = unread(&without, old).await;
    assert!(error.ends_with(why), "{error}");
    drop(without);
    let strict = open(Some(keys(&["2025"]).only_sealed())).await;
    read(&strict, old).await;
    let error = strict.load(plain).await.expect_err("it is plain").to_string();
    assert!(error.ends_with("cannot be read: it is not sealed"), "{error}");
}

/// The same key of a caller with the same parameters is the same request, by whichever key that was sealed.
async fn a_sealed_request_is_known<J: Journal>(open: impl AsyncFn(Option<Keys>) -> J) {
    let first = with_mark(Some("k"));
    let uid = first.uid;
    open(Some(keys(&["2025"]))).await.submit(first).await.expect("it is new");
    let journal = open(Some(keys(&["2026", "2025"]))).await;
    let again = journal.submit(with_mark(Some("k"))).await.expect("it is known");
    assert_eq!(again, asyncsteps_journal::request::Submitted::Known(uid));
    let other = Submit { started: submit(FirstOwner::Any).started, ..with_mark(Some("k")) };
    let refused = journal.submit(other).await.expect_err("it has other parameters");
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    drop(journal);
    let journal = open(Some(keys(&["2026"]))).await;
    let unread = journal.submit(with_mark(Some("k"))).await.expect_err("it cannot be compared");
    assert!(unread.to_string().contains("with the key `2025`, which"), "{unread}");
    // others are stored as before
    journal.submit(with_mark(Some("other"))).await.expect("it is new");
}

#[test]
fn keys_of_a_journal_in_memory() {
    let open = |journal: Memory| {
        async move |keys| match keys {
            Some(keys) => journal.clone().keys(keys),
            None => journal.clone().keys(self::keys(&["none"])),
        }
    };
    run(a_sealed_request_is_known(open(Memory::default())));
    let journal = Memory::default();
    let flow = run(fill(&journal));
    let journal = journal.keys(keys(&["a"]));
    run(read(&journal, flow));
    let error = run(async {
        let sealed = fill(&journal).await;
        unread(&journal.clone().keys(keys(&["b"])), sealed).await
    });
    assert!(error.ends_with("with the key `a`, which this program does not have"), "{error}");
}

fn in_file(file: &FilePath) -> impl AsyncFn(Option<Keys>) -> Sqlite {
    async move |keys| {
        let options = sqlite::Options { keys, ..sqlite::Options::new("test") };
        Sqlite::open(file, options).expect("a journal")
    }
}

#[test]
fn keys_of_a_journal_in_a_file() {
    let (one, two) = (Folder::new("keys"), Folder::new("known"));
    run(keys_are_replaced(in_file(&one.file())));
    run(a_sealed_request_is_known(in_file(&two.file())));
}

#[test]
fn keys_of_a_journal_in_postgresql() {
    let Some(server) = Server::start() else { return };
    let open = |schema: &'static str| {
        let config = server.config();
        async move |keys| {
            let options = postgres::Options {
                schema: schema.to_owned(),
                keys,
                ..postgres::Options::new("test")
            };
            Postgres::connect(config.clone(), options).await.expect("a journal")
        }
    };
    run(keys_are_replaced(open("keys")));
    run(a_sealed_request_is_known(open("known")));
    run(async {
        let journal = open("sealed")(Some(keys(&["a"]))).await;
        fill(&journal).await;
        let sealed = journal.transaction(async |db| {
            let sql = "SELECT count(*), count(*) FILTER (WHERE position($1 in body) > 0) FROM sealed.record";
            let row = db.query_one(sql, &[&MARK.as_bytes()]).await?;
            BodyResult::Ok((row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?))
        });
        assert_eq!(sealed.await.map_err(|raised| raised.into_error()).expect("an answer"), (8, 0));
    });
}

/// Whether something is in the files of a journal, of which there are the file and its log.
fn finds(folder: &Folder, text: &str) -> Vec<bool> {
    let log = folder.path().join("journal.db-wal");
    let files = iter::once(folder.file()).chain(Some(log).filter(|log| log.exists()));
    let bytes = files.map(|file| fs::read(file).expect("it is read"));
    bytes.map(|all| all.windows(text.len()).any(|part| part == text.as_bytes())).collect()
}

#[test]
fn nothing_that_is_recorded_is_in_the_files() {
    let folder = Folder::new("sealed");
    for keys in [Some(keys(&["a"])), None] {
        let is_sealed = keys.is_some();
        run(async {
            let journal = in_file(&folder.file())(keys).await;
            fill(&journal).await;
            // a transaction of the application records its result
            let node = journal.register(LEASE).await.expect("a node").node;
            let owned = Submit { owner: FirstOwner::Node(node), ..with_mark(None) };
            let (append, path) = (entry(owned.uid, 1, ""), Path::template("t").step("tx"));
            let append = Append { records: Vec::new(), ..append };
            journal.submit(owned).await.expect("it is stored");
            let work = journal.transaction(|_| Ok(MARK.to_owned()));
            let Ok(mut prepared) = Transaction::prepare(work).await else {
                panic!("it cannot fail")
            };
            let step = StepEntry { append, path, attempt: 1 };
            let committed = prepared.commit(&step).await.expect("it commits");
            assert!(matches!(committed, Committed::Written(..)), "{committed:?}");
            let loaded = journal.load(step.append.uid).await.expect("it is read");
            let done = Event::Done(Done { value: mark(), attempt: 1, millis: 0 });
            let Event::Done(read) = &loaded.records[1].record.event else { panic!("{loaded:?}") };
            assert_eq!(Event::Done(Done { millis: 0, ..read.clone() }), done);
            let found = finds(&folder, MARK);
            // without keys it is found, so this test can fail
            assert_eq!(found.iter().any(|it| *it), !is_sealed, "{found:?}");
            assert_eq!(found.len(), 2, "the log is there");
        });
        // the log is moved into the file when it is closed
        assert_eq!(finds(&folder, MARK), [!is_sealed]);
    }
}

#[test]
fn what_was_moved_or_changed_does_not_open() {
    for (number, sql) in [
        // another flow, another step, another kind, another text
        "UPDATE record SET body = (SELECT body FROM record WHERE flow = 2 AND sequence = 0) WHERE flow = 1 AND sequence = 0",
        "UPDATE record SET path = 't/other' WHERE flow = 1 AND sequence = 2",
        "UPDATE record SET kind = 9 WHERE flow = 1 AND sequence = 2",
        "UPDATE record SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB) WHERE flow = 1",
        "UPDATE record SET body = substr(body, 1, 5)",
        "UPDATE signal SET id = zeroblob(16); UPDATE schedule SET name = 'other'; UPDATE emitted SET key = 'other'",
    ]
    .iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("moved-{number}"));
        let uid = run(async { fill(&in_file(&folder.file())(Some(keys(&["a"]))).await).await });
        Connection::open(folder.file()).expect("a database").execute_batch(sql).expect(sql);
        run(async {
            let journal = in_file(&folder.file())(Some(keys(&["a"]))).await;
            let mut errors = vec![journal.load(uid).await.expect_err(sql).to_string()];
            if sql.contains("schedule") {
                let read = journal.schedules().await.expect(sql);
                errors.push(read[0].value.clone().expect_err(sql));
                errors.push(journal.emitted(uid, 0, 9).await.expect_err(sql).to_string());
            }
            for error in errors {
                let why = "it was changed or moved since the key `a` sealed it";
                assert!(error.contains(why), "{sql}: {error}");
            }
        });
    }
}

#[test]
fn wrong_keys_are_told() {
    let of = |keys: &[(&str, &[u8])]| {
        Keys::new(keys.iter().map(|(id, key)| (*id, *key))).expect_err("they are wrong")
    };
    let (key, long) = (&[7; 32][..], "x".repeat(65));
    assert_eq!(of(&[]), InvalidKeys::NoKey);
    assert_eq!(of(&[("", key)]), InvalidKeys::Id(String::new()));
    assert_eq!(of(&[(&long, key)]), InvalidKeys::Id(long.clone()));
    assert_eq!(of(&[("\n", key)]), InvalidKeys::Id("\n".to_owned()));
    assert_eq!(of(&[("a", key), ("a", key)]), InvalidKeys::Twice("a".to_owned()));
    let short = of(&[("a", key), ("b", &key[1..])]);
    assert_eq!(short.to_string(), "the key `b` has 31 bytes, and needs 32");
    assert_eq!(format!("{:?}", keys(&["a", "b"])), r#"["a", "b"]"#, "no key is shown");
}
