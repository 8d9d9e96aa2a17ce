//! Flows and nodes of the rules.

use std::time::Duration;

use asyncsteps_journal::record::{Done, Ended, Ending, Failure, Intent, Started, Unwinding};
use asyncsteps_journal::request::{
    Append, Appended, Claim, Claimed, Condition, Disposition, FirstOwner, Program, Resume, Signal,
    Submit, Submitted,
};
use asyncsteps_journal::{
    Epoch, Error, Event, Incarnation, Journal, NotWritten, Path, Record, Refused, Timestamp, Uid,
    Value,
};

/// The template of all flows.
pub(super) const TEMPLATE: &str = "demo.shop:order";

pub(super) fn value(text: &str) -> Value {
    Value::encode(text).expect("a short text")
}

pub(super) fn failure(code: &str) -> Failure {
    Failure { code: code.to_owned(), text: None }
}

pub(super) fn path(step: &str) -> Path {
    Path::template(TEMPLATE).step(step)
}

pub(super) fn done(step: &str) -> Record {
    Record::new(path(step), Event::Done(Done { value: value(step), attempt: 1, millis: 3 }))
}

pub(super) fn intent(step: &str) -> Record {
    let at = Timestamp::from_millis(1);
    Record::new(
        path(step),
        Event::Intent(Intent {
            at,
            attempt: 1,
            locks: Vec::new(),
            has_undo: Some(true),
            input: None,
            form: None,
        }),
    )
}

/// The undo of a step is done.
pub(super) fn undone(step: &str) -> Record {
    Record { path: path(step).undo(), ..done(step) }
}

/// The flow begins to undo what it did.
pub(super) fn unwinding() -> Record {
    let (root, failure) = (Path::template(TEMPLATE), failure("Failed"));
    let unwinding = Unwinding { failed: root.clone(), failure, cause: None };
    Record::new(root, Event::Unwinding(unwinding))
}

pub(super) fn ended(ending: Ending) -> Record {
    Record::new(Path::template(TEMPLATE), Event::Ended(Ended { ending }))
}

pub(super) fn completed() -> Record {
    ended(Ending::Completed(value("paid")))
}

pub(super) fn started() -> Started {
    Started {
        template: TEMPLATE.to_owned(),
        version: 1,
        parameters: value("parameters"),
        user: Some("user".to_owned()),
        deadline: Some(Timestamp::from_millis(7)),
        trace: None,
        schedule: None,
        is_asked_for: false,
        parent: None,
    }
}

pub(super) fn submit(owner: FirstOwner) -> Submit {
    Submit::new(uid(), started(), owner)
}

pub(super) fn uid() -> Uid {
    Uid::random().expect("random bytes")
}

pub(super) fn program(version: u32, compatible: &[u32]) -> Program {
    Program { template: TEMPLATE.to_owned(), version, compatible: compatible.to_vec() }
}

pub(super) fn signal(name: &str) -> Signal {
    Signal { id: uid(), name: name.to_owned(), value: value(name) }
}

/// A flow as its owner sees it.
#[derive(Clone, Debug)]
pub(super) struct Owned<'a> {
    pub(super) journal: &'a dyn Journal,
    pub(super) uid: Uid,
    pub(super) epoch: Epoch,
    pub(super) next: u64,
    pub(super) seen: u64,
}

impl<'a> Owned<'a> {
    /// A new flow of a node.
    pub(super) async fn start(journal: &'a dyn Journal, node: Incarnation) -> Self {
        let submit = submit(FirstOwner::Node(node));
        let uid = submit.uid;
        assert_eq!(journal.submit(submit).await.expect("a new flow"), Submitted::New);
        Self::of(journal, uid)
    }

    /// A flow that a node has stored for itself.
    pub(super) fn of(journal: &'a dyn Journal, uid: Uid) -> Self {
        Self { journal, uid, epoch: Epoch::new(1), next: 1, seen: 0 }
    }

    /// A flow that was claimed.
    pub(super) async fn load(journal: &'a dyn Journal, claimed: Claimed) -> Self {
        let loaded = journal.load(claimed.uid).await.expect("the flow");
        let (uid, epoch) = (claimed.uid, claimed.epoch);
        Self { journal, uid, epoch, next: loaded.next(), seen: 0 }
    }

    pub(super) fn entry(&self, records: Vec<Record>) -> Append {
        Append {
            uid: self.uid,
            epoch: self.epoch,
            version: 1,
            first: self.next,
            records,
            replaces: Vec::new(),
            takes: Vec::new(),
            seen: self.seen,
            condition: Condition::None,
            then: Disposition::Keep,
            is_awaited: false,
        }
    }

    pub(super) async fn send(&mut self, entry: Append) -> Result<Appended, NotWritten> {
        let count = entry.records.len() as u64;
        let answer = append(self.journal, entry).await;
        self.next += if answer.is_ok() { count } else { 0 };
        answer
    }

    pub(super) async fn write(&mut self, records: Vec<Record>) -> Result<Appended, NotWritten> {
        self.send(self.entry(records)).await
    }

    pub(super) async fn leave(&mut self, then: Disposition) {
        let entry = Append { then, ..self.entry(Vec::new()) };
        self.send(entry).await.expect("it is of this owner");
    }

    pub(super) async fn resume(&self, how: Resume) {
        self.journal.resume(self.uid, how).await.expect("it is stopped");
    }

    /// Why it is not resumed.
    pub(super) async fn refused(&self, how: Resume) -> Refused {
        match self.journal.resume(self.uid, how).await {
            Err(Error::Refused(refused)) => refused,
            other => panic!("{other:?}"),
        }
    }

    /// The paths of its records, without the first one.
    pub(super) async fn steps(&self) -> Vec<String> {
        let loaded = self.journal.load(self.uid).await.expect("the flow");
        let paths = loaded.records.iter().skip(1).map(|stored| stored.record.path.to_string());
        paths.map(|path| path.replace(&format!("{TEMPLATE}/"), "")).collect()
    }

    pub(super) async fn state(&self) -> asyncsteps_journal::request::FlowState {
        self.journal.status(self.uid).await.expect("the flow").flow.state
    }
}

pub(super) async fn append(journal: &dyn Journal, entry: Append) -> Result<Appended, NotWritten> {
    let answers = journal.append(vec![entry]).await.expect("the journal answers");
    answers.into_iter().next().expect("an answer for each entry")
}

/// A lease that is longer than a test.
const HOUR: Duration = Duration::from_secs(3600);

/// A node that lives.
pub(super) async fn node(journal: &dyn Journal) -> Incarnation {
    journal.register(HOUR).await.expect("a node").node
}

/// Ends the lease of a node, as if it had died that long ago.
pub(super) async fn kill(journal: &dyn Journal, node: Incarnation) {
    journal.renew(node, Duration::ZERO).await.expect("it has a lease");
}

pub(super) async fn claim(journal: &dyn Journal, node: Incarnation, limit: usize) -> Vec<Claimed> {
    claim_suspects(journal, node, limit, 1).await
}

/// The same for a node that may have this number of suspects at once.
pub(super) async fn claim_suspects(
    journal: &dyn Journal,
    node: Incarnation,
    limit: usize,
    suspects: usize,
) -> Vec<Claimed> {
    let programs = vec![program(1, &[])];
    let claim = Claim { node, ticket: uid(), programs, limit, awaited: Vec::new(), suspects };
    journal.claim(claim).await.expect("the node lives")
}

/// The one flow that can be claimed, on a new node.
pub(super) async fn take_over<'a>(journal: &'a dyn Journal) -> (Owned<'a>, Incarnation, u32) {
    let node = node(journal).await;
    let claimed = claim(journal, node, 10).await;
    assert_eq!(claimed.len(), 1, "one flow can be claimed");
    (Owned::load(journal, claimed[0]).await, node, claimed[0].deaths)
}
