//! Changes of single flows.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::tables::{HEAD, SqliteTables, db_error, encoded, head};
use crate::check;
use crate::coding::{DONE, Encoded};
use crate::error::{Error, NotWritten, Refused};
use crate::head::{FlowHead, WaitingSignals};
use crate::id::{Incarnation, RecordId, Uid};
use crate::limits::TAKEN_SIGNALS;
use crate::moment::{Look, Moment};
use crate::path::Path;
use crate::request::{
    Append, Appended, CallerQuota, Cancelled, CancelledBy, FirstOwner, Registered, Resume, Signal,
    Submit, Submitted,
};
use crate::sealed::Place;
use crate::stored::{int, millis, unsigned, waits};
use crate::time::{Reading, Timestamp};

impl SqliteTables {
    pub(super) fn submit(
        &self,
        submit: &Submit,
        started: &Encoded,
        now: Moment,
    ) -> Result<Submitted, Error> {
        let known = self.known(submit)?;
        if let Some(known) = &known {
            let sql = "SELECT path, kind, body FROM record \
                       WHERE flow = ?1 AND epoch = 0 AND sequence = 0";
            let first = self.prepare(sql)?.query_row([int(known.number)], |row| encoded(row, 0));
            let first = first.optional().map_err(db_error)?;
            let answer = check::known(submit, known.uid, first.as_ref(), &self.seal)?;
            if known.left_scope(submit).is_none() {
                return Ok(answer);
            }
        }
        let quota = submit.quota.as_ref();
        if let Some(quota) = quota {
            self.check_quota(quota)?;
        }
        if let FirstOwner::Node(node) = submit.owner {
            self.check_lease(node, now)?;
        }
        if let Some(earlier) = known {
            let left = params![int(earlier.number), earlier.left_scope(submit)];
            let sql = "UPDATE flow SET scope = ?2 WHERE number = ?1";
            self.prepare(sql)?.execute(left).map_err(db_error)?;
        }
        let new = FlowHead::new(submit, now);
        let sql = "INSERT INTO flow (uid, template, version, pinned, state, epoch, owner, run, \
             claims, deaths, inbox, seen, removed, created, due, scope, key, caller, local_id, due_passed) \
             VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, 0, 0, 0, 0, 0, 0, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
        let key = submit.key.as_ref();
        let values = params![
            new.uid.as_bytes(),
            new.template,
            new.version,
            new.state as i64,
            int(new.epoch.get()),
            new.owner.map(|node| int(node.get())),
            millis(new.created),
            new.due.map(millis),
            key.map(|key| &key.scope),
            key.map(|key| &key.key),
            quota.map(|quota| &quota.caller),
            submit.started.local_id(),
            new.due_passed.map(millis),
        ];
        let number = self.prepare(sql)?.insert(values).map_err(db_error)?;
        self.insert_tags(number, &submit.tags)?;
        let first = RecordId::FIRST;
        self.insert_record(unsigned(number), first.epoch, first.sequence, started)?;
        if let (Some(cache), Some(quota)) = (&self.cache, quota) {
            cache.waiting().add(quota, new.state);
        }
        Ok(Submitted::New)
    }

    /// Whether one more flow of a caller may be stored. Flows are counted once in a transaction.
    fn check_quota(&self, quota: &CallerQuota) -> Result<(), Error> {
        let Some(cache) = &self.cache else { return Ok(()) };
        for counted in quota.counted() {
            if cache.waiting().get(&counted).is_none() {
                let sql = concat!(
                    "SELECT count(*) FROM (SELECT 1 FROM flow INDEXED BY flow_waiting \
                     WHERE caller >= ?1 AND caller < ?2 AND ",
                    waits!(),
                    " LIMIT ?3)"
                );
                let callers = params![counted.from, counted.till, int(counted.most)];
                let found = self.prepare(sql)?.query_row(callers, |row| row.get(0));
                cache.waiting().set(counted.from, unsigned(found.map_err(db_error)?));
            }
        }
        Ok(cache.waiting().check(quota)?)
    }

    /// The flow with the uid or the key.
    fn known(&self, submit: &Submit) -> Result<Option<FlowHead>, Error> {
        match self.flow(submit.uid) {
            Ok(found) => return Ok(Some(found)),
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        let Some(key) = &submit.key else { return Ok(None) };
        let sql = format!("SELECT {HEAD} FROM flow WHERE scope = ?1 AND key = ?2");
        let found = self.prepare(&sql)?.query_row([&key.scope, &key.key], head).optional();
        found.map_err(db_error)
    }

    pub(super) fn append(
        &self,
        batch: &[Append],
        records: &[Result<Vec<Encoded>, Refused>],
        now: Moment,
    ) -> Result<Vec<Result<Appended, NotWritten>>, Error> {
        let mut answers = Vec::with_capacity(batch.len());
        for (entry, records) in batch.iter().zip(records) {
            answers.push(match records {
                Ok(records) => self.append_entry(entry, records, now)?,
                Err(refused) => Err(refused.clone().into()),
            });
        }
        Ok(answers)
    }

    pub(super) fn append_entry(
        &self,
        entry: &Append,
        records: &[Encoded],
        now: Moment,
    ) -> Result<Result<Appended, NotWritten>, Error> {
        let old = match self.flow(entry.uid) {
            Ok(old) => old,
            Err(Error::Refused(refused)) => return Ok(Err(refused.into())),
            Err(error) => return Err(error),
        };
        let known = self.known_records(&old, entry)?;
        match check::repeated(entry, known, &old) {
            Ok(None) => {}
            Ok(Some(written)) => return Ok(Ok(written)),
            Err(taken) => return Ok(Err(taken)),
        }
        let mut new = old.clone();
        let written = match new.append(entry, now, &self.limits) {
            Ok(written) => written,
            Err(refused) => return Ok(Err(refused)),
        };
        for (sequence, record) in (entry.first..).zip(records) {
            self.insert_record(new.number, entry.epoch, sequence, record)?;
        }
        let removed = self.remove(new.number, &entry.replaces)?;
        self.take(&new, &entry.takes)?;
        self.update(&old, &new)?;
        self.add_removed(&mut new, removed)?;
        if let (Some(cache), Some(last)) = (&self.cache, (records.len() as u64).checked_sub(1)) {
            cache.written(new.uid, entry.first + last);
        }
        Ok(Ok(written))
    }

    /// How many of an entry's records are there.
    pub(super) fn known_records(&self, flow: &FlowHead, entry: &Append) -> Result<u64, Error> {
        let Some(last) = (entry.records.len() as u64).checked_sub(1) else { return Ok(0) };
        if self.cache.as_ref().is_some_and(|cache| cache.is_new(entry.uid, entry.first)) {
            return Ok(0);
        }
        let sql = "SELECT count(*) FROM record \
                   WHERE flow = ?1 AND epoch = ?2 AND sequence BETWEEN ?3 AND ?4";
        let (first, last) = (int(entry.first), int(entry.first.saturating_add(last)));
        let range = params![int(flow.number), int(entry.epoch.get()), first, last];
        let known = self.prepare(sql)?.query_row(range, |row| row.get(0)).map_err(db_error)?;
        Ok(unsigned(known))
    }

    fn remove(&self, flow: u64, records: &[RecordId]) -> Result<u64, Error> {
        let mut removed = 0;
        for id in records.iter().filter(|id| **id != RecordId::FIRST) {
            let sql = "DELETE FROM record WHERE flow = ?1 AND epoch = ?2 AND sequence = ?3";
            let id = params![int(flow), int(id.epoch.get()), int(id.sequence)];
            removed += self.prepare(sql)?.execute(id).map_err(db_error)?;
        }
        Ok(removed as u64)
    }

    /// Drops the values of signals that were taken, and the oldest ones as a whole.
    fn take(&self, flow: &FlowHead, signals: &[u64]) -> Result<(), Error> {
        for number in signals {
            let sql = "UPDATE signal SET value = NULL WHERE flow = ?1 AND number = ?2";
            let signal = params![int(flow.number), int(*number)];
            self.prepare(sql)?.execute(signal).map_err(db_error)?;
        }
        if let (Some(oldest), false) = (flow.inbox.checked_sub(TAKEN_SIGNALS), signals.is_empty()) {
            let sql = "DELETE FROM signal WHERE flow = ?1 AND number <= ?2 AND value IS NULL";
            let old = params![int(flow.number), int(oldest)];
            self.prepare(sql)?.execute(old).map_err(db_error)?;
        }
        Ok(())
    }

    pub(super) fn signal(&self, uid: Uid, signal: &Signal) -> Result<(), Error> {
        check::text("name", &signal.name)?;
        let old = self.flow(uid)?;
        if self.knows(&old, signal)? {
            return Ok(());
        }
        let sql = "SELECT count(*), coalesce(sum(octet_length(name) + octet_length(value)), 0) \
                   FROM signal WHERE flow = ?1 AND value IS NOT NULL";
        let waiting = self.prepare(sql)?.query_row([int(old.number)], |row| {
            Ok(WaitingSignals { count: unsigned(row.get(0)?), bytes: unsigned(row.get(1)?) })
        });
        let mut new = old.clone();
        let number = new.signal(signal.bytes(), waiting.map_err(db_error)?, &self.limits)?;
        self.insert_signal(&new, number, signal)?;
        self.update(&old, &new)
    }

    fn knows(&self, flow: &FlowHead, signal: &Signal) -> Result<bool, Error> {
        let sql = "SELECT count(*) FROM signal WHERE flow = ?1 AND id = ?2";
        let id = params![int(flow.number), signal.id.as_bytes()];
        let known: i64 = self.prepare(sql)?.query_row(id, |row| row.get(0)).map_err(db_error)?;
        Ok(known > 0)
    }

    fn insert_signal(&self, flow: &FlowHead, number: u64, signal: &Signal) -> Result<(), Error> {
        let sql = "INSERT INTO signal (flow, number, id, name, value) VALUES (?1, ?2, ?3, ?4, ?5)";
        let Signal { id, name, value } = signal;
        let place = Place::Signal { flow: flow.uid, id: *id, name };
        let value = self.seal.seal_value(&place, value)?;
        let row = params![int(flow.number), int(number), id.as_bytes(), name, value];
        self.prepare(sql)?.execute(row).map_err(db_error)?;
        Ok(())
    }

    pub(super) fn cancel(
        &self,
        uid: Uid,
        by: &CancelledBy,
        unless: Option<&Path>,
        now: Timestamp,
    ) -> Result<Cancelled, Error> {
        check::cancel(by)?;
        let old = self.flow(uid)?;
        if let Some(path) = unless {
            let sql = "SELECT 1 FROM record WHERE flow = ?1 AND path = ?2 AND kind = ?3";
            let row = params![int(old.number), path.as_str(), DONE];
            if self.prepare(sql)?.exists(row).map_err(db_error)? {
                return Ok(Cancelled::TooLate);
            }
        }
        let mut new = old.clone();
        let cancelled = new.cancel(by, now);
        self.update(&old, &new)?;
        Ok(cancelled)
    }

    pub(super) fn resume(&self, uid: Uid, how: &Resume) -> Result<(), Error> {
        check::resume(how)?;
        let old = self.flow(uid)?;
        if let Resume::Signal(signal) = how
            && self.knows(&old, signal)?
        {
            return Ok(());
        }
        let mut new = old.clone();
        new.check_stopped()?;
        let records =
            if how.removes_records() { self.records(&old, "kind > ?2", 0)? } else { Vec::new() };
        new.resume(how, &records)?;
        new.removed += match how {
            Resume::Without(records) => self.remove(new.number, records)?,
            Resume::Again => {
                let sql = "DELETE FROM record WHERE flow = ?1 AND sequence > 0";
                let removed = self.prepare(sql)?.execute([int(new.number)]);
                removed.map_err(db_error)? as u64
            }
            Resume::Signal(signal) => {
                self.insert_signal(&new, new.inbox, signal)?;
                0
            }
            Resume::Continue | Resume::OnItsVersion => 0,
        };
        self.update(&old, &new)
    }

    pub(super) fn check_lease(&self, node: Incarnation, now: Moment) -> Result<(), Error> {
        let sql = "SELECT count(*) FROM node WHERE id = ?1 AND ends > ?2";
        let lease = [int(node.get()), millis(now.seen)];
        let alive: i64 = self.prepare(sql)?.query_row(lease, |row| row.get(0)).map_err(db_error)?;
        if alive > 0 { Ok(()) } else { Err(Refused::NoLease(node).into()) }
    }

    pub(super) fn register(&self, now: Moment, lease: Duration) -> Result<Registered, Error> {
        let (seen, time) = self.look(now.wall, Look::Register)?;
        let sql = "INSERT INTO node (ends) VALUES (?1)";
        let ends = [millis(seen.after(lease))];
        let node = self.prepare(sql)?.insert(ends).map_err(db_error)?;
        Ok(Registered { node: Incarnation::new(unsigned(node)), time })
    }

    pub(super) fn renew(
        &self,
        node: Incarnation,
        now: Moment,
        lease: Duration,
    ) -> Result<Reading, Error> {
        self.check_lease(node, now)?;
        let (seen, time) = self.look(now.wall, Look::Renew)?;
        let sql = "UPDATE node SET ends = ?2 WHERE id = ?1";
        let ends = millis(seen.after(lease));
        self.prepare(sql)?.execute([int(node.get()), ends]).map_err(db_error)?;
        Ok(time)
    }
}
