//! Flows of tests, and how they run.

use asyncsteps_journal::record::{Done, Started};
use asyncsteps_journal::request::{Append, Condition, Disposition, FirstOwner, Submit};
use asyncsteps_journal::{Epoch, Event, Incarnation, Journal, Path, Record, Uid, Value};

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

pub(crate) fn submit(owner: FirstOwner) -> Submit {
    let started = Started {
        template: "t".to_owned(),
        version: 1,
        parameters: Value::encode(&()).expect("a value"),
        user: None,
        deadline: None,
        trace: None,
        schedule: None,
        is_asked_for: false,
        parent: None,
    };
    Submit::new(Uid::random().expect("random bytes"), started, owner)
}

pub(crate) async fn start(journal: &dyn Journal, node: Incarnation) -> Uid {
    let submit = submit(FirstOwner::Node(node));
    let uid = submit.uid;
    journal.submit(submit).await.expect("a new flow");
    uid
}

/// The record with this number of a flow in its first epoch.
pub(crate) fn entry(uid: Uid, first: u64, value: &str) -> Append {
    let value = Value::encode(value).expect("a value");
    let event = Event::Done(Done { value, attempt: 1, millis: 0 });
    let path = Path::template("t").step("loop").iteration(first);
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
        then: Disposition::Keep,
        is_awaited: false,
    }
}
