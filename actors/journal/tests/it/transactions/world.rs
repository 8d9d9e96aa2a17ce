//! Flows whose steps book into an account.

use asyncsteps_journal::request::{Append, Claim, Program};
use asyncsteps_journal::transaction::{Committed, Local, Prepared, StepEntry};
use asyncsteps_journal::{Epoch, Event, Incarnation, Journal, LEASE, Path, Uid};

use crate::flows::{entry, start};

/// What the body of a step does after it has booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Ends,
    Fails,
    Panics,
    GivesTooMuch,
    EndsTheTransaction,
    OverlooksAnError,
    /// A constraint that is checked by the commit.
    BreaksAConstraint,
}

/// A journal in a database with an account.
pub(crate) trait Bank {
    fn journal(&self) -> &dyn Journal;

    /// A transaction that books 1 and gives how much there is then, as a text.
    fn book(&self, then: Then) -> Local<'_, asyncsteps_core::BodyResult<Box<dyn Prepared>>>;

    /// How much is booked.
    fn booked(&self) -> Local<'_, i64>;
}

/// A flow of a node.
pub(crate) struct Flow<'a> {
    pub(crate) bank: &'a dyn Bank,
    pub(crate) node: Incarnation,
    pub(crate) uid: Uid,
}

impl<'a> Flow<'a> {
    pub(crate) async fn start(bank: &'a dyn Bank) -> Self {
        let node = bank.journal().register(LEASE).await.unwrap().node;
        Self { bank, node, uid: start(bank.journal(), node).await }
    }

    /// The entry of the step, as its first owner appends it.
    pub(crate) fn step(&self) -> StepEntry {
        let append = Append { records: Vec::new(), ..entry(self.uid, 1, "") };
        StepEntry { append, path: Path::template("t").step("book"), attempt: 1 }
    }

    pub(crate) async fn book(&self, then: Then) -> Committed {
        match self.bank.book(then).await {
            Ok(mut prepared) => prepared.commit(&self.step()).await.unwrap(),
            Err(raised) => Committed::Failed(raised.into_error()),
        }
    }

    /// Another node has the flow.
    pub(crate) async fn take_over(&self) -> Epoch {
        let journal = self.bank.journal();
        journal.renew(self.node, std::time::Duration::ZERO).await.unwrap();
        let node = journal.register(LEASE).await.unwrap().node;
        let program = Program { template: "t".to_owned(), version: 1, compatible: Vec::new() };
        let ticket = Uid::random().unwrap();
        let claim = Claim {
            node,
            ticket,
            programs: vec![program],
            limit: 9,
            awaited: Vec::new(),
            suspects: 1,
        };
        journal.claim(claim).await.unwrap()[0].epoch
    }

    /// What is recorded of the step.
    pub(crate) async fn recorded(&self) -> Vec<String> {
        let records = self.bank.journal().load(self.uid).await.unwrap().records;
        let values = records.iter().filter_map(|stored| {
            let Event::Done(done) = &stored.record.event else { return None };
            Some(done.value.decode().unwrap())
        });
        values.collect()
    }
}
