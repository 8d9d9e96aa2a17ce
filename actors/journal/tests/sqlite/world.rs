//! Folders and flows of these tests.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use asyncsteps_journal::record::{Done, Started};
use asyncsteps_journal::request::{Append, Condition, FirstOwner, Submit, Then};
use asyncsteps_journal::sqlite::{Options, Sqlite};
use asyncsteps_journal::{
    Epoch, Event, Incarnation, Journal, Path as StepPath, Record, Uid, Value,
};

/// A folder that is removed at the end of its test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let folder = env::temp_dir().join(format!("journal-{}-{name}", process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("journal.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // what is left is in the folder for temporary files
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(super) fn open(file: &Path) -> Sqlite {
    Sqlite::open(file, Options::new("test 1.0")).expect("a journal")
}

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

pub(super) async fn start(journal: &dyn Journal, node: Incarnation) -> Uid {
    let uid = Uid::random().expect("random bytes");
    let started = Started {
        template: "t".to_owned(),
        version: 1,
        parameters: Value::encode(&()).expect("a value"),
        user: None,
        deadline: None,
        trace: None,
    };
    let submit = Submit { uid, started, key: None, owner: FirstOwner::Node(node) };
    journal.submit(submit).await.expect("a new flow");
    uid
}

/// The record with this number of a flow in its first epoch.
pub(super) fn entry(uid: Uid, first: u64, value: &str) -> Append {
    let value = Value::encode(value).expect("a value");
    let event = Event::Done(Done { value, attempt: 1, millis: 0 });
    let path = StepPath::template("t").step("loop").iteration(first);
    Append {
        uid,
        epoch: Epoch::new(1),
        version: 1,
        first,
        records: vec![Record::new(path, event)],
        replaces: Vec::new(),
        takes: Vec::new(),
        seen: 0,
        condition: Condition::None,
        then: Then::Keep,
    }
}
