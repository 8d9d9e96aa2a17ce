//! A journal that drops what steps record: what is left is the work of a durable request without storage.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use asyncsteps_journal::record::{Ended, Started};
use asyncsteps_journal::request::{
    Append, Appended, CallerKey, Cancelled, CancelledBy, Claim, Claimed, Counts, Emit, EmittedPage,
    FlowInfo, FlowState, Inbox, Loaded, News, Query, ReadSchedule, Registered, Resume, Signal,
    Status, StoredSchedule, Submit, Submitted,
};
use asyncsteps_journal::{
    Answer, Clock as _, Epoch, Error, Event, Incarnation, Journal, NotWritten, Path, Reading,
    Record, RecordId, Refused, StoredRecord, SystemClock, Uid,
};
use tokio::sync::watch;

/// It knows a request until its end was asked for.
#[derive(Debug, Default)]
pub(crate) struct Dropping {
    requests: Mutex<HashMap<Uid, (Started, Status)>>,
    changes: watch::Sender<u64>,
}

impl Dropping {
    fn requests(&self) -> MutexGuard<'_, HashMap<Uid, (Started, Status)>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node has each request from its beginning.
fn beginning(submit: &Submit) -> Status {
    let flow = FlowInfo {
        uid: submit.uid,
        number: 1,
        template: submit.started.template.clone(),
        version: submit.started.version,
        state: FlowState::Running,
        epoch: Epoch::new(1),
        owner: Some(Incarnation::new(1)),
        run: 0,
        claims: 0,
        created: SystemClock.now(),
        due: None,
        ended: None,
        reason: None,
        cancel: None,
        outcome: None,
        user: None,
        key: None,
        tags: Vec::new(),
    };
    Status { flow, ending: None }
}

fn reading() -> Reading {
    let now = SystemClock.now();
    Reading { now, passed: now, jump: None }
}

fn answer<'a, T: Send + 'a>(result: Result<T, Error>) -> Answer<'a, T> {
    Box::pin(async { result })
}

fn unknown<'a, T: Send + 'a>(uid: Uid) -> Answer<'a, T> {
    answer(Err(Refused::NoFlow(uid).into()))
}

impl Journal for Dropping {
    fn submit(&self, submit: Submit) -> Answer<'_, Submitted> {
        let status = beginning(&submit);
        self.requests().insert(submit.uid, (submit.started, status));
        answer(Ok(Submitted::New))
    }

    fn append(&self, batch: Vec<Append>) -> Answer<'_, Vec<Result<Appended, NotWritten>>> {
        let mut requests = self.requests();
        for entry in &batch {
            if let Some(Record { event: Event::Ended(Ended { ending }), .. }) = entry.records.last()
                && let Some((_, status)) = requests.get_mut(&entry.uid)
            {
                status.ending = Some(ending.clone());
            }
        }
        answer(Ok(batch.iter().map(|_| Ok(Appended { inbox: 0 })).collect()))
    }

    fn claim(&self, _: Claim) -> Answer<'_, Vec<Claimed>> {
        answer(Ok(Vec::new()))
    }

    fn load(&self, uid: Uid) -> Answer<'_, Loaded> {
        let requests = self.requests();
        let Some((started, status)) = requests.get(&uid) else { return unknown(uid) };
        let id = RecordId { epoch: Epoch::default(), sequence: 0 };
        let path = Path::template(&started.template);
        let record = Record::new(path, Event::Started(started.clone()));
        let records = vec![StoredRecord { id, record }];
        answer(Ok(Loaded { flow: status.flow.clone(), records, inbox: Inbox::default() }))
    }

    fn inbox(&self, _: Uid) -> Answer<'_, Inbox> {
        answer(Ok(Inbox::default()))
    }

    fn news(&self, _: Incarnation) -> Answer<'_, Vec<News>> {
        answer(Ok(Vec::new()))
    }

    fn find(&self, _: CallerKey) -> Answer<'_, Option<Uid>> {
        answer(Ok(None))
    }

    fn status(&self, uid: Uid) -> Answer<'_, Status> {
        let mut requests = self.requests();
        match requests.get(&uid).map(|(_, status)| status.ending.is_some()) {
            None => unknown(uid),
            Some(false) => answer(Ok(requests[&uid].1.clone())),
            Some(true) => match requests.remove(&uid) {
                Some((_, status)) => answer(Ok(status)),
                None => unknown(uid),
            },
        }
    }

    fn list(&self, _: Query) -> Answer<'_, Vec<FlowInfo>> {
        answer(Ok(Vec::new()))
    }

    fn count(&self, _: Vec<String>) -> Answer<'_, Counts> {
        answer(Ok(Counts::default()))
    }

    fn signal(&self, uid: Uid, _: Signal) -> Answer<'_, ()> {
        unknown(uid)
    }

    fn emit(&self, _: Emit) -> Answer<'_, Result<(), NotWritten>> {
        answer(Ok(Ok(())))
    }

    fn emitted(&self, _: Uid, _: u64, _: usize) -> Answer<'_, EmittedPage> {
        answer(Ok(EmittedPage::default()))
    }

    fn cancel(&self, uid: Uid, _: CancelledBy, _: Option<Path>) -> Answer<'_, Cancelled> {
        unknown(uid)
    }

    fn resume(&self, uid: Uid, _: Resume) -> Answer<'_, ()> {
        unknown(uid)
    }

    fn trim(&self, _: Duration) -> Answer<'_, usize> {
        answer(Ok(0))
    }

    fn remove(&self, _: Vec<Uid>) -> Answer<'_, ()> {
        answer(Ok(()))
    }

    fn schedules(&self) -> Answer<'_, Vec<ReadSchedule>> {
        answer(Ok(Vec::new()))
    }

    fn put_schedule(&self, _: StoredSchedule) -> Answer<'_, ()> {
        answer(Ok(()))
    }

    fn remove_schedule(&self, _: String) -> Answer<'_, bool> {
        answer(Ok(false))
    }

    fn register(&self, _: Duration) -> Answer<'_, Registered> {
        answer(Ok(Registered { node: Incarnation::new(1), time: reading() }))
    }

    fn renew(&self, _: Incarnation, _: Duration) -> Answer<'_, Reading> {
        answer(Ok(reading()))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
