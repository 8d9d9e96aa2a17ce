//! Requests that only read.

use rusqlite::{OptionalExtension as _, params};

use super::tables::{HEAD, SqliteTables, db_error, encoded, head};
use crate::check;
use crate::coding::EventKind;
use crate::error::Error;
use crate::head::FlowHead;
use crate::id::{Epoch, Incarnation, RecordId, Uid};
use crate::limits::{BATCH, COUNTED};
use crate::moment::Moment;
use crate::record::{Event, Record, StoredRecord};
use crate::request::{
    CallerKey, Counts, FlowInfo, FlowState, Inbox, Loaded, News, OpenFlows, Query, Status,
    StoredSignal,
};
use crate::sealed::Place;
use crate::stored::{OPEN, int, millis, timestamp, unsigned};

impl SqliteTables {
    pub(super) fn load(&self, uid: Uid) -> Result<Loaded, Error> {
        let flow = self.flow(uid)?;
        let records = self.records(&flow, "kind > ?2", 0)?;
        Ok(Loaded { flow: flow.info(), records, inbox: self.inbox(&flow)? })
    }

    /// Records of a flow, oldest first.
    pub(super) fn records(
        &self,
        flow: &FlowHead,
        filter: &str,
        kind: u8,
    ) -> Result<Vec<StoredRecord>, Error> {
        let sql = format!(
            "SELECT epoch, sequence, program.name, path, kind, body \
             FROM record LEFT JOIN program ON program.id = record.program \
             WHERE flow = ?1 AND {filter} ORDER BY epoch, sequence"
        );
        let mut statement = self.prepare(&sql)?;
        let rows = statement.query_map(params![int(flow.number), kind], |row| {
            let epoch = Epoch::new(unsigned(row.get(0)?));
            let id = RecordId { epoch, sequence: unsigned(row.get(1)?) };
            Ok((id, row.get::<_, Option<String>>(2)?, encoded(row, 3)?))
        });
        let read = |row: rusqlite::Result<_>| {
            let (id, program, encoded): (RecordId, Option<String>, crate::coding::Encoded) =
                row.map_err(db_error)?;
            let record = encoded.opened(&self.seal, flow.uid, id).map_err(|reason| {
                Error::UnknownRecord {
                    uid: flow.uid,
                    sequence: id.sequence,
                    program: program.unwrap_or_else(|| "an unknown program".to_owned()),
                    reason,
                }
            })?;
            Ok(StoredRecord { id, record })
        };
        rows.map_err(db_error)?.map(read).collect()
    }

    pub(super) fn inbox(&self, flow: &FlowHead) -> Result<Inbox, Error> {
        let sql = "SELECT number, name, value, id FROM signal \
                   WHERE flow = ?1 AND value IS NOT NULL ORDER BY number";
        let mut statement = self.prepare(sql)?;
        let rows = statement.query_map([int(flow.number)], |row| {
            Ok((unsigned(row.get(0)?), row.get(1)?, row.get(2)?, Uid::from_bytes(row.get(3)?)))
        });
        let read = |row: rusqlite::Result<(u64, String, Vec<u8>, Uid)>| {
            let (number, name, value, id) = row.map_err(db_error)?;
            let place = Place::Signal { flow: flow.uid, id, name: &name };
            let value = self.seal.open_value(&place, &value)?;
            Ok(StoredSignal { number, name, value })
        };
        let signals = rows.map_err(db_error)?.map(read).collect::<Result<_, Error>>()?;
        Ok(Inbox { signals, cancel: flow.cancel.clone(), last: flow.inbox })
    }

    pub(super) fn find(&self, key: &CallerKey) -> Result<Option<Uid>, Error> {
        let mut statement = self.prepare("SELECT uid FROM flow WHERE scope = ?1 AND key = ?2")?;
        let uid = statement.query_row([&key.scope, &key.key], |row| row.get(0));
        uid.optional().map(|uid| uid.map(Uid::from_bytes)).map_err(db_error)
    }

    pub(super) fn news(&self, node: Incarnation) -> Result<Vec<News>, Error> {
        let sql = "SELECT uid, inbox FROM flow WHERE owner = ?1 AND inbox > seen LIMIT ?2";
        let mut statement = self.prepare(sql)?;
        let news = statement.query_map([int(node.get()), int(BATCH as u64)], |row| {
            Ok(News { uid: Uid::from_bytes(row.get(0)?), inbox: unsigned(row.get(1)?) })
        });
        news.and_then(Iterator::collect::<Result<_, _>>).map_err(db_error)
    }

    pub(super) fn status(&self, uid: Uid) -> Result<Status, Error> {
        let flow = self.flow(uid)?;
        let mut ending = None;
        if flow.state == FlowState::Ended {
            let mut last = self.records(&flow, "kind = ?2", EventKind::Ended as u8)?;
            if let Some(Record { event: Event::Ended(ended), .. }) =
                last.pop().map(|stored| stored.record)
            {
                ending = Some(ended.ending);
            }
        }
        Ok(Status { flow: flow.info(), ending })
    }

    pub(super) fn list(&self, query: &Query, now: Moment) -> Result<Vec<FlowInfo>, Error> {
        let mut statement = self.prepare(&list(query))?;
        let state = query.state.map(|state| state as i64);
        let limit = int(check::limit(query.limit) as u64);
        let (from, before) = (query.from.map(millis), query.before.map(millis));
        let Query { template, user, key, after, uid, scope, tag, open, .. } = query;
        let (without, uid) =
            (query.template_without.map(String::from), uid.as_ref().map(Uid::as_bytes));
        let values = params![
            int(*after),
            state,
            template,
            from,
            before,
            limit,
            user,
            key,
            without,
            uid,
            scope,
            tag,
            open
        ];
        let heads = statement.query_map(values, |row| {
            Ok(FlowInfo { user: row.get(26)?, key: row.get(27)?, ..head(row)?.listed(now) })
        });
        let mut flows: Vec<FlowInfo> =
            heads.and_then(Iterator::collect::<Result<_, _>>).map_err(db_error)?;
        for flow in &mut flows {
            flow.tags = self.tags(flow.number)?;
        }
        Ok(flows)
    }

    pub(super) fn count(&self, templates: &[String], now: Moment) -> Result<Counts, Error> {
        let sql = "SELECT count, uid, epoch, created FROM flow JOIN \
                   (SELECT count(*) AS count, min(number) AS oldest FROM \
                   (SELECT number FROM flow INDEXED BY flow_state WHERE state = ?1 AND template = ?2 \
                   LIMIT ?3)) ON number = oldest";
        let mut statement = self.prepare(sql)?;
        let mut flows = Vec::new();
        for template in templates {
            for state in OPEN.iter().copied() {
                let values = params![state as i64, template, int(COUNTED as u64)];
                let row = statement.query_row(values, |row| {
                    Ok(OpenFlows {
                        template: template.clone(),
                        state,
                        count: unsigned(row.get(0)?),
                        oldest: Uid::from_bytes(row.get(1)?),
                        epoch: Epoch::new(unsigned(row.get(2)?)),
                        created: timestamp(row.get(3)?),
                    })
                });
                flows.extend(row.optional().map_err(db_error)?);
            }
        }
        let sql = "SELECT (SELECT max(number) FROM flow) - (SELECT min(number) FROM flow) + 1, \
                   page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        let row = self.prepare(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)));
        let (stored, bytes): (Option<i64>, i64) = row.map_err(db_error)?;
        let (stored, bytes) = (stored.map_or(0, unsigned), Some(unsigned(bytes)));
        Ok(Counts { time: now.now, flows, stored, bytes, log_bytes: None })
    }
}

/// The statement of a list.
fn list(query: &Query) -> String {
    // each has the index that it needs: most flows have ended, so those are found by their numbers
    let index = match query {
        Query { uid: Some(_), .. } => "uid = ?10",
        Query { key: Some(_), .. } => "key = ?8",
        Query { tag: Some(_), .. } => "number IN (SELECT flow FROM flow_tag WHERE tag = ?12)",
        Query { user: Some(_), .. } => "local_id = ?7",
        Query { state: Some(state), .. } if *state != FlowState::Ended => "state = ?2",
        Query { open: true, .. } => "number IN (SELECT number FROM flow WHERE state < 7)",
        _ => "true",
    };
    format!(
        "SELECT {HEAD}, local_id, key FROM flow WHERE {index} AND number > ?1 \
         AND (?2 IS NULL OR state = ?2) AND (NOT ?13 OR state < 7) AND (?3 IS NULL OR template = ?3) \
         AND (?4 IS NULL OR created >= ?4) AND (?5 IS NULL OR created < ?5) \
         AND (?7 IS NULL OR local_id = ?7) AND (?8 IS NULL OR key = ?8) \
         AND (?9 IS NULL OR instr(template, ?9) = 0) AND (?10 IS NULL OR uid = ?10) \
         AND (?11 IS NULL OR scope = ?11) AND (?12 IS NULL \
         OR EXISTS (SELECT 1 FROM flow_tag WHERE flow = number AND tag = ?12)) \
         ORDER BY number LIMIT ?6"
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, params_from_iter};

    use super::*;
    use crate::sqlite::{Options, schema};

    #[test]
    fn no_list_looks_through_what_has_ended_for_a_few() {
        let db = Connection::open_in_memory().expect("a database");
        schema::set_up(&db, &Options::new("test")).expect("tables");
        let text = || Some(String::new());
        for query in [
            Query { uid: Some(Uid::from_bytes([0; 16])), ..Query::default() },
            Query { user: text(), ..Query::default() },
            Query { key: text(), ..Query::default() },
            Query { tag: text(), ..Query::default() },
            Query { open: true, scope: text(), ..Query::default() },
            Query { state: Some(FlowState::Paused), ..Query::default() },
        ] {
            let mut plan =
                db.prepare(&format!("EXPLAIN QUERY PLAN {}", list(&query))).expect("it is right");
            let rows = plan.query_map(params_from_iter([None::<i64>; 13]), |row| row.get(3));
            let rows: Vec<String> = rows.and_then(Iterator::collect).expect("a plan");
            let all = rows.iter().any(|row| row.contains("SCAN") || row.contains("rowid>?"));
            assert!(!all, "{query:?}: {rows:?}");
        }
    }
}
