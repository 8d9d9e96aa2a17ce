//! What a step keeps, and what a crash does to it.

use std::time::Duration;

use asyncsteps_durable::Durable;
use asyncsteps_journal::memory::Memory;
use asyncsteps_journal::record::Ending;
use asyncsteps_journal::request::FlowState;
use asyncsteps_journal::{Event, Uid};

use crate::transact::bank::{
    Bank, Database, Folder, Then, ann, book, in_each, params, result, submit,
};

async fn ended(durable: &Durable, uid: Uid) -> Ending {
    let ended = tokio::time::timeout(Duration::from_secs(60), durable.ended(uid)).await;
    ended.expect("it ends").expect("the journal is there")
}

/// The kinds of what is recorded of the step.
async fn recorded(database: &Database, uid: Uid) -> Vec<String> {
    let records = database.journal().load(uid).await.expect("it is known").records;
    let of_step = records.iter().filter(|stored| stored.record.path.as_str().ends_with("/book"));
    let kind = |event: &Event| {
        let text = format!("{event:?}");
        text.split_once('(').map(|(kind, _)| kind.to_lowercase()).expect("each has a content")
    };
    of_step.map(|stored| kind(&stored.record.event)).collect()
}

#[test]
fn it_is_booked_with_its_record_and_given_again_after_a_crash() {
    in_each("again", async |database| {
        let bank = Bank::new(database.clone());
        let (durable, node) = bank.start().await;
        let uid = submit(&durable, "book", params("one", Then::Ends)).await;
        // dropped as soon as it is booked: what follows is lost, or not
        while database.booked("one").await == 0 {
            tokio::task::yield_now().await;
        }
        drop(node);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let owner = database.journal().status(uid).await.expect("it is known").flow.owner;
        if let Some(owner) = owner {
            database.journal().renew(owner, Duration::ZERO).await.expect("it has a lease");
        }
        let (durable, _node) = bank.start().await;
        assert_eq!(result(ended(&durable, uid).await), "one is booked");
        assert_eq!((database.booked("one").await, bank.counted("one")), (1, 1));
        assert_eq!(recorded(&database, uid).await, ["done"]);
    });
}

#[test]
fn what_fails_books_nothing_and_its_failure_is_recorded() {
    in_each("fails", async |database| {
        let bank = Bank::new(database.clone());
        let (durable, _node) = bank.start().await;
        for (name, then, code) in [
            ("declined", Then::Fails, "Declined"),
            ("large", Then::GivesTooMuch, "InternalError"),
            ("panics", Then::Panics, "InternalError"),
        ] {
            let uid = submit(&durable, "declined", params(name, then)).await;
            assert_eq!(result(ended(&durable, uid).await), code, "{name}");
            assert_eq!((database.booked(name).await, bank.counted(name)), (0, 1), "{name}");
            assert_eq!(recorded(&database, uid).await, ["failed"], "{name}");
        }
        let uid = submit(&durable, "tried", params("tried", Then::Fails)).await;
        assert_eq!(result(ended(&durable, uid).await), "tried is booked");
        assert_eq!((database.booked("tried").await, bank.counted("tried")), (1, 2));
        assert_eq!(recorded(&database, uid).await, ["failed", "timer", "done"]);
    });
}

#[test]
fn a_body_that_is_cut_books_nothing_and_runs_again() {
    in_each("cut", async |database| {
        if matches!(database, Database::File(_)) {
            // its bodies cannot be cut but with their process
            return;
        }
        let bank = Bank::new(database.clone());
        let (durable, node) = bank.start().await;
        let uid = submit(&durable, "book", params("cut", Then::Waits)).await;
        while bank.counted("waiting") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        node.stop().await;
        assert_eq!((database.booked("cut").await, recorded(&database, uid).await.len()), (0, 0));
        bank.open();
        let (durable, _node) = bank.start().await;
        assert_eq!(result(ended(&durable, uid).await), "cut is booked");
        assert_eq!((database.booked("cut").await, bank.counted("cut")), (1, 1));
    });
}

#[test]
fn it_is_undone_with_what_it_gave() {
    in_each("undone", async |database| {
        let bank = Bank::new(database.clone());
        let (durable, _node) = bank.start().await;
        let uid = submit(&durable, "undone", params("undone", Then::Ends)).await;
        assert!(matches!(ended(&durable, uid).await, Ending::Failed(_)));
        assert_eq!(bank.counted("undone is booked no more"), 1);
        // it is known to have begun with an undo, in the flush of its effect
        assert_eq!(recorded(&database, uid).await, ["intent", "done"]);
    });
}

#[test]
fn without_a_journal_it_is_booked_alone() {
    in_each("alone", async |database| {
        let bank = Bank::new(database.clone());
        let executor = bank.executor(|functions| {
            functions.on("book", bank.of(book));
        });
        let parameters = serde_json::to_value(params("alone", Then::Ends)).expect("they are JSON");
        let serde_json::Value::Object(parameters) = parameters else {
            panic!("they are an object")
        };
        let request = asyncsteps_executor::message::Request::new("test.bank:1.0:book", parameters);
        let local = asyncsteps_executor::channel::Channel::local();
        let incoming =
            asyncsteps_executor::Incoming::new(request, local).with_caller((&ann()).into());
        let _reply = executor.dispatch(incoming).await;
        assert_eq!((database.booked("alone").await, bank.counted("after")), (1, 1));
    });
}

#[test]
fn a_journal_without_a_database_is_refused_before_anything_is_done() {
    actix::System::new().block_on(async {
        let folder = Folder::new("memory");
        let bank = Bank::new(Database::in_file(&folder.file()).await);
        let durable = Durable::new(Memory::default());
        let executor = bank.executor(|functions| bank.declare(&durable, functions));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let uid = submit(&durable, "book", params("none", Then::Ends)).await;
        let Ending::Failed(failure) = ended(&durable, uid).await else { panic!("it is refused") };
        assert_eq!(failure.code, "InternalError");
        let records = durable.records(uid).await.expect("it is known");
        let ran = records.iter().any(|stored| stored.record.path.as_str().ends_with("/before"));
        assert!(!ran, "{records:?}");
        assert_eq!(bank.counted("none"), 0);
    });
}

#[test]
fn another_database_than_that_of_the_journal_pauses_the_request() {
    actix::System::new().block_on(async {
        let (folder, other) = (Folder::new("own"), Folder::new("other"));
        let bank = Bank::new(Database::in_file(&other.file()).await);
        let Database::File(journal) = Database::in_file(&folder.file()).await else {
            panic!("it is a file")
        };
        let durable = Durable::new(journal);
        let executor = bank.executor(|functions| bank.declare(&durable, functions));
        let _node = durable.start(&executor).await.expect("the journal gives a lease");
        let uid = submit(&durable, "book", params("other", Then::Ends)).await;
        let flow = loop {
            let flow = durable.status(uid).await.expect("it is known").flow;
            if flow.state == FlowState::Paused {
                break flow;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let reason = flow.reason.expect("an operator is told");
        assert!(reason.contains("commits in another database"), "{reason}");
        assert_eq!(bank.counted("other"), 0);
    });
}
