//! A group of changes in one transaction.

use std::collections::{HashMap, HashSet};

use futures_util::future::{try_join, try_join_all, try_join3};

use super::change::{Change, EncodedBatch};
use super::claims::{self, alive};
use super::session::{JournalSession, SessionFailure};
use super::tables::{SAVE, head, head_columns, moment, save};
use super::{emits, reads, submits};
use crate::check;
use crate::coding::{DONE, Encoded};
use crate::error::{Error, NotWritten, Refused};
use crate::head::{FlowHead, WaitingSignals};
use crate::id::{RecordId, Uid};
use crate::limits::{Limits, TAKEN_SIGNALS};
use crate::moment::Moment;
use crate::path::Path;
use crate::request::{Append, Appended, Cancelled, Resume, Signal};
use crate::sealed::Place;
use crate::stored::{int, unsigned};

const INSERT_RECORDS: &str = "INSERT INTO record (flow, epoch, sequence, path, kind, program, body) \
     SELECT flow, epoch, sequence, path, kind, $7, body FROM unnest($1::bigint[], \
     $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bytea[]) \
     AS r (flow, epoch, sequence, path, kind, body)";

const TAKE_SIGNALS: &str = "UPDATE signal SET value = NULL WHERE ctid = ANY(ARRAY(SELECT s.ctid \
     FROM unnest($1::bigint[], $2::bigint[]) AS taken (flow, number), LATERAL (SELECT ctid \
     FROM signal s WHERE s.flow = taken.flow AND s.number = taken.number OFFSET 0) AS s))";

/// How many futures `try_join_all` polls in their order: of more some may not be sent when it waits.
const AT_ONCE: usize = 30;

/// Of taken signals only the last ones are known.
const FORGET_SIGNALS: &str = "DELETE FROM signal WHERE ctid = ANY(ARRAY(SELECT s.ctid \
     FROM unnest($1::bigint[], $2::bigint[]) AS old (flow, number), LATERAL (SELECT ctid FROM signal s \
     WHERE s.flow = old.flow AND s.number <= old.number AND s.value IS NULL OFFSET 0) AS s))";

/// What is known of a group before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupAttempt {
    /// None of it is stored, most probably.
    First,
    /// Some entries may be stored.
    Counted,
    /// The same, and all of it may be: its answer was lost.
    Repeated,
}

/// Where a group is written.
pub(super) struct Group<'a> {
    pub(super) session: &'a JournalSession,
    /// The number of this program in the table of programs.
    pub(super) program: i64,
    pub(super) limits: Limits,
    pub(super) attempt: GroupAttempt,
}

/// Flows that are locked: as they were, and as they are to be.
type Heads = HashMap<Uid, (FlowHead, FlowHead)>;

/// How a group ends.
#[derive(Clone, Copy)]
pub(super) enum GroupEnd {
    Commit,
    /// Its transaction stays open.
    Open,
}

/// Whether an entry was written.
pub(super) type Found = Result<Option<Appended>, NotWritten>;

impl Group<'_> {
    /// Finds the answers of all changes, and commits.
    pub(super) async fn write(&self, changes: &mut [Change]) -> Result<(), SessionFailure> {
        self.session.in_transaction(self.apply(changes, GroupEnd::Commit)).await
    }

    /// Finds the answers of all changes, in an open transaction.
    pub(super) async fn apply(
        &self,
        changes: &mut [Change],
        end: GroupEnd,
    ) -> Result<(), SessionFailure> {
        // nodes, then flows, then keys: in this order they are locked everywhere
        let owners = submits::owners(changes);
        let (now, alive, mut heads) = if owners.is_empty() {
            let (now, heads) = try_join(moment(self.session), self.heads(changes)).await?;
            (now, HashSet::new(), heads)
        } else {
            let now = moment(self.session).await?;
            let alive = alive(self.session, &owners, now).await?;
            (now, alive, self.heads(changes).await?)
        };
        claims::claim(self.session, changes, &self.limits, now).await?;
        let mut stored = self.stored_before(changes, &heads).await?.into_iter();
        let mut pending = PendingRows::default();
        for change in changes.iter_mut() {
            match change {
                Change::Submit(_) | Change::Claim(_) => {}
                Change::Append(asked) => {
                    let EncodedBatch { batch, records } = &asked.request;
                    let mut answers = Vec::with_capacity(batch.len());
                    for (entry, records) in batch.iter().zip(records) {
                        let rows = (&mut heads, &mut pending);
                        let entry = (entry, stored.next());
                        answers.push(self.append(entry, records, rows, now).await?);
                    }
                    asked.answer = Some(Ok(answers));
                }
                Change::Signal(asked) => {
                    let (uid, signal) = &asked.request;
                    asked.answer = Some(told(self.signal(*uid, signal, &mut heads).await)?);
                }
                Change::Emit(asked) => {
                    let (emit, value) = &asked.request;
                    asked.answer = Some(Ok(match heads.get(&emit.uid) {
                        Some((_, head)) => {
                            let bounds = (now, &self.limits);
                            emits::emit(self.session, (emit, value), head, bounds).await?
                        }
                        None => Err(Refused::NoFlow(emit.uid).into()),
                    }));
                }
                Change::Cancel(asked) => {
                    let (uid, by, unless) = &asked.request;
                    asked.answer = Some(match heads.get_mut(uid) {
                        Some((head, new)) => {
                            let is_done = match unless {
                                Some(path) => self.is_done(head, path, &pending).await?,
                                None => false,
                            };
                            match is_done {
                                true => Ok(Cancelled::TooLate),
                                false => Ok(new.cancel(by, now.now)),
                            }
                        }
                        None => Err(Refused::NoFlow(*uid).into()),
                    });
                }
                Change::Resume(asked) => {
                    let (uid, how) = &asked.request;
                    asked.answer = Some(told(self.resume(*uid, how, &mut heads).await)?);
                }
            }
        }
        let has_new = changes.iter().any(|change| matches!(change, Change::Submit(_)));
        let commit = async |is_time| match end {
            GroupEnd::Commit if is_time => self.session.batch("COMMIT").await,
            GroupEnd::Commit | GroupEnd::Open => Ok(()),
        };
        self.store(pending, &mut heads, commit(!has_new)).await?;
        if has_new {
            submits::write(self.session, self.program, changes, &alive, now).await?;
            commit(true).await?;
        }
        Ok(())
    }

    /// Looks whether an entry was written, in an open transaction: it waits for one that may be at it.
    pub(super) async fn find(&self, change: Change) -> Result<Found, SessionFailure> {
        let changes = [change];
        let heads = self.heads(&changes).await?;
        let [Change::Append(asked)] = &changes else { return Ok(Ok(None)) };
        let Some(entry) = asked.request.batch.first() else { return Ok(Ok(None)) };
        let Some((head, _)) = heads.get(&entry.uid) else {
            return Ok(Err(Refused::NoFlow(entry.uid).into()));
        };
        Ok(check::repeated(entry, self.stored(entry, &heads).await?, head))
    }

    /// Locks the flows of a group, in the order of their uid.
    async fn heads(&self, changes: &[Change]) -> Result<Heads, SessionFailure> {
        let uids: HashSet<_> = changes.iter().flat_map(Change::flows).collect();
        if uids.is_empty() {
            return Ok(Heads::new());
        }
        let uids: Vec<&[u8]> = uids.iter().map(|uid| uid.as_bytes().as_slice()).collect();
        macro_rules! select {
            ($which:literal) => {
                concat!("SELECT ", head_columns!(), " FROM flow f WHERE uid = ", $which)
            };
        }
        let rows = match uids.as_slice() {
            // the server plans it once, and one with a list each time
            [uid] => self.session.query(select!("$1 FOR UPDATE"), &[uid]).await?,
            _ => self.session.query(select!("ANY($1) ORDER BY uid FOR UPDATE"), &[&uids]).await?,
        };
        let locked = |row| {
            let head = head(row)?;
            Ok((head.uid, (head.clone(), head)))
        };
        rows.iter().map(locked).collect()
    }

    /// The answer to an entry. It is taken to be new at first: if its flow refuses it, it may be the repetition of one that
    /// has ended the flow, and if it is written twice, the numbers of its records are taken.
    async fn append(
        &self,
        (entry, stored): (&Append, Option<u64>),
        records: &Result<Vec<Encoded>, Refused>,
        (heads, pending): (&mut Heads, &mut PendingRows),
        now: Moment,
    ) -> Result<Result<Appended, NotWritten>, SessionFailure> {
        let known = stored.unwrap_or(0);
        let written = append(entry, records, heads, pending, (known, now, &self.limits));
        if stored.is_some() || written.is_ok() {
            return Ok(written);
        }
        let known = self.stored(entry, heads).await?;
        Ok(append(entry, records, heads, pending, (known, now, &self.limits)))
    }

    /// How many records of each entry are stored; nothing if they are taken to be new.
    async fn stored_before(
        &self,
        changes: &[Change],
        heads: &Heads,
    ) -> Result<Vec<u64>, SessionFailure> {
        if self.attempt == GroupAttempt::First {
            return Ok(Vec::new());
        }
        let entries = changes.iter().flat_map(Change::entries);
        try_join_all(entries.map(|entry| self.stored(entry, heads))).await
    }

    /// How many records of an entry are stored.
    async fn stored(&self, entry: &Append, heads: &Heads) -> Result<u64, SessionFailure> {
        let Some((flow, _)) = heads.get(&entry.uid) else { return Ok(0) };
        let sql = "SELECT count(*) FROM record \
                   WHERE flow = $1 AND epoch = $2 AND sequence >= $3 AND sequence < $4";
        let (flow, epoch) = (int(flow.number), int(entry.epoch.get()));
        let end = entry.first.saturating_add(entry.records.len() as u64);
        let rows = self.session.query(sql, &[&flow, &epoch, &int(entry.first), &int(end)]).await?;
        let row = rows.first().ok_or_else(super::tables::foreign)?;
        Ok(unsigned(row.try_get(0)?))
    }

    /// Whether the step at a path is recorded as done, or is about to be.
    async fn is_done(
        &self,
        flow: &FlowHead,
        path: &Path,
        pending: &PendingRows,
    ) -> Result<bool, SessionFailure> {
        let (number, kind) = (int(flow.number), i64::from(DONE));
        let rows = pending.ids.0.iter().zip(&pending.paths).zip(&pending.kinds);
        let mut rows = rows.map(|((flow, path), kind)| (*flow, path.as_str(), *kind));
        if rows.any(|row| row == (number, path.as_str(), kind)) {
            return Ok(true);
        }
        let sql = "SELECT FROM record WHERE flow = $1 AND path = $2 AND kind = $3 LIMIT 1";
        Ok(!self.session.query(sql, &[&number, &path.as_str(), &kind]).await?.is_empty())
    }

    async fn signal(
        &self,
        uid: Uid,
        signal: &Signal,
        heads: &mut Heads,
    ) -> Result<(), SessionFailure> {
        let (_, new) = heads.get_mut(&uid).ok_or(Refused::NoFlow(uid))?;
        let Some(waiting) = self.waiting_unless_known(new.number, signal).await? else {
            return Ok(());
        };
        let number = new.signal(signal.bytes(), waiting, &self.limits)?;
        self.insert_signal(new, number, signal).await
    }

    /// The signals of a flow that were not taken; `None` if this one is stored already.
    async fn waiting_unless_known(
        &self,
        flow: u64,
        signal: &Signal,
    ) -> Result<Option<WaitingSignals>, SessionFailure> {
        let sql = "SELECT count(*) FILTER (WHERE id = $2), count(*) FILTER (WHERE value IS NOT NULL), \
                   coalesce(sum(octet_length(name) + octet_length(value)), 0)::bigint \
                   FROM signal WHERE flow = $1";
        let id = signal.id.as_bytes().as_slice();
        let rows = self.session.query(sql, &[&int(flow), &id]).await?;
        let row = rows.first().ok_or_else(super::tables::foreign)?;
        if row.try_get::<_, i64>(0)? > 0 {
            return Ok(None);
        }
        // the sum leaves out signals without a value
        let (count, bytes) = (unsigned(row.try_get(1)?), unsigned(row.try_get(2)?));
        Ok(Some(WaitingSignals { count, bytes }))
    }

    async fn insert_signal(
        &self,
        flow: &FlowHead,
        number: u64,
        signal: &Signal,
    ) -> Result<(), SessionFailure> {
        let sql = "INSERT INTO signal (flow, number, id, name, value) VALUES ($1, $2, $3, $4, $5)";
        let Signal { id, name, value } = signal;
        let place = Place::Signal { flow: flow.uid, id: *id, name };
        let value = self.session.seal.seal_value(&place, value)?;
        let (flow, number, id) = (int(flow.number), int(number), id.as_bytes().as_slice());
        self.session.execute(sql, &[&flow, &number, &id, name, &value]).await?;
        Ok(())
    }

    async fn resume(
        &self,
        uid: Uid,
        how: &Resume,
        heads: &mut Heads,
    ) -> Result<(), SessionFailure> {
        let (_, new) = heads.get_mut(&uid).ok_or(Refused::NoFlow(uid))?;
        if let Resume::Signal(signal) = how {
            if self.waiting_unless_known(new.number, signal).await?.is_none() {
                return Ok(());
            }
            new.check_stopped()?;
        }
        match (new.check_stopped(), self.attempt) {
            (Ok(()), _) => {}
            // the first attempt has let it go on
            (Err(_), GroupAttempt::Repeated) => return Ok(()),
            (Err(refused), GroupAttempt::First | GroupAttempt::Counted) => {
                return Err(refused.into());
            }
        }
        let records = if how.removes_records() {
            reads::records(self.session, new, 0).await?
        } else {
            Vec::new()
        };
        new.resume(how, &records)?;
        new.removed += match how {
            Resume::Without(records) => {
                let mut pending = PendingRows::default();
                records.iter().for_each(|id| pending.remove(new.number, *id));
                pending.remove_records(self.session).await?.values().sum()
            }
            Resume::Again => {
                let sql = "DELETE FROM record WHERE flow = $1 AND sequence > 0";
                self.session.execute(sql, &[&int(new.number)]).await?
            }
            Resume::Signal(signal) => {
                self.insert_signal(new, new.inbox, signal).await?;
                0
            }
            Resume::Continue | Resume::OnItsVersion => 0,
        };
        Ok(())
    }

    /// Writes what was decided, and sends the `end` of the transaction behind it without waiting: if a statement
    /// fails, nothing is committed.
    async fn store(
        &self,
        pending: PendingRows,
        heads: &mut Heads,
        end: impl Future<Output = Result<(), SessionFailure>>,
    ) -> Result<(), SessionFailure> {
        // one that is not prepared would be sent behind the end
        for sql in [INSERT_RECORDS, TAKE_SIGNALS, FORGET_SIGNALS, SAVE] {
            self.session.prepare(sql).await?;
        }
        let rest = async {
            let removed = pending.remove_records(self.session).await?;
            for (_, new) in heads.values_mut() {
                new.removed += removed.get(&int(new.number)).copied().unwrap_or(0);
            }
            let changed = heads.values().filter(|(old, new)| old != new);
            let saves: Vec<_> = changed.map(|(_, new)| save(self.session, new)).collect();
            let (is_small, saved) = (saves.len() <= AT_ONCE, try_join_all(saves));
            let taken = pending.take_signals(self.session);
            if is_small {
                return try_join3(taken, saved, end).await.map(|_| ());
            }
            try_join(taken, saved).await?;
            end.await
        };
        try_join(pending.insert_records(self.session, self.program), rest).await?;
        Ok(())
    }
}

/// A refusal is an answer; other failures end the transaction.
fn told<T>(result: Result<T, SessionFailure>) -> Result<Result<T, Error>, SessionFailure> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(SessionFailure::Answered(error @ Error::Refused(_))) => Ok(Err(error)),
        Err(failure) => Err(failure),
    }
}

fn append(
    entry: &Append,
    records: &Result<Vec<Encoded>, Refused>,
    heads: &mut Heads,
    pending: &mut PendingRows,
    (known, now, limits): (u64, Moment, &Limits),
) -> Result<Appended, NotWritten> {
    let records = records.as_ref().map_err(Clone::clone)?;
    let (_, head) = heads.get_mut(&entry.uid).ok_or(Refused::NoFlow(entry.uid))?;
    let ids = (entry.first..).map(|sequence| RecordId { epoch: entry.epoch, sequence });
    let ids: Vec<_> = ids.take(records.len()).collect();
    // records that another entry of the group has written count as well
    let beside = ids.iter().filter(|id| pending.written.contains(&(head.number, **id))).count();
    if let Some(written) = check::repeated(entry, known + beside as u64, head)? {
        return Ok(written);
    }
    let written = head.append(entry, now, limits)?;
    for (id, record) in ids.into_iter().zip(records) {
        pending.insert(head.number, id, record);
    }
    entry.replaces.iter().for_each(|id| pending.remove(head.number, *id));
    for number in &entry.takes {
        pending.taken.0.push(int(head.number));
        pending.taken.1.push(int(*number));
        pending.taken.2.push(int(head.inbox.saturating_sub(TAKEN_SIGNALS)));
    }
    Ok(written)
}

/// Rows of a group, by columns.
#[derive(Default)]
struct PendingRows {
    written: HashSet<(u64, RecordId)>,
    ids: Ids,
    paths: Vec<String>,
    kinds: Vec<i64>,
    bodies: Vec<Vec<u8>>,
    removed: Ids,
    /// Flows, signals, and up to which number taken ones are forgotten.
    taken: (Vec<i64>, Vec<i64>, Vec<i64>),
}

/// Names of records, by columns: flows, epochs, numbers.
#[derive(Default)]
struct Ids(Vec<i64>, Vec<i64>, Vec<i64>);

impl Ids {
    fn push(&mut self, flow: u64, id: RecordId) {
        self.0.push(int(flow));
        self.1.push(int(id.epoch.get()));
        self.2.push(int(id.sequence));
    }
}

impl PendingRows {
    fn insert(&mut self, flow: u64, id: RecordId, record: &Encoded) {
        self.written.insert((flow, id));
        self.ids.push(flow, id);
        self.paths.push(record.path.to_string());
        self.kinds.push(i64::from(record.kind));
        self.bodies.push(record.body.clone());
    }

    fn remove(&mut self, flow: u64, id: RecordId) {
        if id != RecordId::FIRST {
            self.removed.push(flow, id);
        }
    }

    async fn insert_records(
        &self,
        session: &JournalSession,
        program: i64,
    ) -> Result<(), SessionFailure> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        let Ids(flows, epochs, numbers) = &self.ids;
        let (paths, kinds, bodies) = (&self.paths, &self.kinds, &self.bodies);
        let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [flows, epochs, numbers, paths, kinds, bodies, &program];
        session.execute(INSERT_RECORDS, &columns).await?;
        Ok(())
    }

    /// Returns how many were there, by flow.
    async fn remove_records(
        &self,
        session: &JournalSession,
    ) -> Result<HashMap<i64, u64>, SessionFailure> {
        let Ids(flows, epochs, numbers) = &self.removed;
        let mut removed = HashMap::new();
        if flows.is_empty() {
            return Ok(removed);
        }
        let sql = "DELETE FROM record WHERE ctid = ANY(ARRAY(SELECT r.ctid \
             FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS gone (flow, epoch, sequence), \
             LATERAL (SELECT ctid FROM record r WHERE r.flow = gone.flow AND r.epoch = gone.epoch \
             AND r.sequence = gone.sequence OFFSET 0) AS r)) RETURNING flow";
        for row in session.query(sql, &[flows, epochs, numbers]).await? {
            *removed.entry(row.try_get(0)?).or_insert(0) += 1;
        }
        Ok(removed)
    }

    async fn take_signals(&self, session: &JournalSession) -> Result<(), SessionFailure> {
        let (flows, numbers, old) = &self.taken;
        if flows.is_empty() {
            return Ok(());
        }
        try_join(
            session.execute(TAKE_SIGNALS, &[flows, numbers]),
            session.execute(FORGET_SIGNALS, &[flows, old]),
        )
        .await?;
        Ok(())
    }
}
