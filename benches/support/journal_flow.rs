//! A flow of a bare journal.

use asyncsteps_journal::record::{Done, Started};
use asyncsteps_journal::request::{Append, Condition, Disposition, FirstOwner, Submit};
use asyncsteps_journal::sqlite::Sqlite;
use asyncsteps_journal::{
    Epoch, Event, Incarnation, Journal, LEASE, Path as StepPath, Record, Uid, Value,
};

/// A flow with its next number.
pub(crate) struct Flow {
    uid: Uid,
    next: u64,
}

impl Flow {
    pub(crate) async fn start(journal: &Sqlite) -> Self {
        let node: Incarnation = journal.register(LEASE).await.expect("a node").node;
        let started = Started {
            template: "demo.shop:order".to_owned(),
            version: 1,
            parameters: Value::encode("parameters").expect("a value"),
            user: None,
            deadline: None,
            trace: None,
            schedule: None,
            is_asked_for: false,
            parent: None,
        };
        let uid = Uid::random().expect("random bytes");
        let owner = FirstOwner::Node(node);
        journal.submit(Submit::new(uid, started, owner)).await.expect("a flow");
        Self { uid, next: 1 }
    }

    pub(crate) async fn append(&mut self, journal: &Sqlite, count: u64) {
        for _ in 0..count {
            let entry = self.entry();
            self.next += 1;
            let answers = journal.append(vec![entry]).await.expect("the journal");
            assert!(answers[0].is_ok(), "{answers:?}");
        }
    }

    fn entry(&self) -> Append {
        let path = StepPath::template("demo.shop:order").step("items").iteration(self.next);
        let value = Value::encode(&("a receipt", self.next)).expect("a value");
        Append {
            uid: self.uid,
            epoch: Epoch::new(1),
            version: 1,
            first: self.next,
            records: vec![Record::new(path, Event::Done(Done { value, attempt: 1, millis: 5 }))],
            replaces: Vec::new(),
            takes: Vec::new(),
            seen: 0,
            condition: Condition::None,
            then: Disposition::Keep,
            is_awaited: false,
        }
    }
}
