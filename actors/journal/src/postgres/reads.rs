//! Requests that only read.

use futures_util::future::{try_join_all, try_join3};
use tokio_postgres::types::ToSql;

use super::session::{JournalSession, SessionFailure};
use super::tables::{encoded, foreign, head, head_columns, moment, uid};
use crate::check;
use crate::coding::EventKind;
use crate::error::{Error, Refused};
use crate::head::FlowHead;
use crate::id::{Epoch, Incarnation, RecordId, Uid};
use crate::limits::{BATCH, COUNTED};
use crate::record::{Event, Record, StoredRecord};
use crate::request::{
    CallerKey, Counts, FlowInfo, FlowState, Inbox, Loaded, News, OpenFlows, Query, Status,
    StoredSignal,
};
use crate::sealed::Place;
use crate::stored::{OPEN, int, millis, timestamp, unsigned};

pub(super) async fn flow(session: &JournalSession, uid: Uid) -> Result<FlowHead, SessionFailure> {
    let sql = concat!("SELECT ", head_columns!(), " FROM flow f WHERE uid = $1");
    let rows = session.query(sql, &[&uid.as_bytes().as_slice()]).await?;
    head(rows.first().ok_or(Refused::NoFlow(uid))?)
}

const RECORDS: &str = "SELECT r.epoch, r.sequence, (SELECT name FROM program WHERE id = r.program), \
     r.path, r.kind, r.body FROM record r WHERE r.flow = $1 AND ($2::bigint = 0 OR r.kind = $2) ORDER BY r.epoch, r.sequence";

/// The head is read first: entries that come into the inbox afterwards are not counted as seen. It is read again behind
/// the records, which are of its version then.
pub(super) async fn load(session: &JournalSession, uid: Uid) -> Result<Loaded, SessionFailure> {
    let mut head = flow(session, uid).await?;
    // one that is not prepared would be sent behind the others
    session.prepare(RECORDS).await?;
    loop {
        // they are sent at once, in this order
        let (records, inbox) = (records(session, &head, 0), inbox(session, &head));
        let (records, inbox, again) = try_join3(records, inbox, flow(session, uid)).await?;
        if again.version == head.version {
            return Ok(Loaded { flow: head.info(), records, inbox });
        }
        head = again;
    }
}

/// Records of a flow, oldest first: of one kind, or all for 0.
pub(super) async fn records(
    session: &JournalSession,
    flow: &FlowHead,
    kind: u8,
) -> Result<Vec<StoredRecord>, SessionFailure> {
    let rows = session.query(RECORDS, &[&int(flow.number), &i64::from(kind)]).await?;
    let read = |row: &tokio_postgres::Row| {
        let epoch = Epoch::new(unsigned(row.try_get(0)?));
        let id = RecordId { epoch, sequence: unsigned(row.try_get(1)?) };
        let program: Option<String> = row.try_get(2)?;
        let record = encoded(row, 3)?.opened(&session.seal, flow.uid, id).map_err(|reason| {
            Error::UnknownRecord {
                uid: flow.uid,
                sequence: id.sequence,
                program: program.unwrap_or_else(|| "an unknown program".to_owned()),
                reason,
            }
        })?;
        Ok(StoredRecord { id, record })
    };
    rows.iter().map(read).collect()
}

pub(super) async fn inbox(
    session: &JournalSession,
    flow: &FlowHead,
) -> Result<Inbox, SessionFailure> {
    let sql = "SELECT number, name, value, id FROM signal \
               WHERE flow = $1 AND number <= $2 AND value IS NOT NULL ORDER BY number";
    let rows = session.query(sql, &[&int(flow.number), &int(flow.inbox)]).await?;
    let read = |row: &tokio_postgres::Row| {
        let name: String = row.try_get(1)?;
        let place = Place::Signal { flow: flow.uid, id: uid(row, 3)?, name: &name };
        let value = session.seal.open_value(&place, row.try_get(2)?)?;
        Ok(StoredSignal { number: unsigned(row.try_get(0)?), name, value })
    };
    let signals = rows.iter().map(read).collect::<Result<_, SessionFailure>>()?;
    Ok(Inbox { signals, cancel: flow.cancel.clone(), last: flow.inbox })
}

pub(super) async fn find(
    session: &JournalSession,
    key: &CallerKey,
) -> Result<Option<Uid>, SessionFailure> {
    let sql = "SELECT uid FROM flow WHERE scope = $1 AND key = $2";
    let rows = session.query(sql, &[&key.scope, &key.key]).await?;
    rows.first().map(|row| uid(row, 0)).transpose()
}

pub(super) async fn news(
    session: &JournalSession,
    node: Incarnation,
) -> Result<Vec<News>, SessionFailure> {
    let sql = "SELECT uid, inbox FROM flow WHERE owner = $1 AND inbox > seen LIMIT $2";
    let rows = session.query(sql, &[&int(node.get()), &int(BATCH as u64)]).await?;
    let read = |row: &tokio_postgres::Row| {
        Ok(News { uid: uid(row, 0)?, inbox: unsigned(row.try_get(1)?) })
    };
    rows.iter().map(read).collect()
}

pub(super) async fn status(session: &JournalSession, uid: Uid) -> Result<Status, SessionFailure> {
    let flow = flow(session, uid).await?;
    let mut ending = None;
    if flow.state == FlowState::Ended {
        let mut last = records(session, &flow, EventKind::Ended as u8).await?;
        if let Some(Record { event: Event::Ended(ended), .. }) =
            last.pop().map(|stored| stored.record)
        {
            ending = Some(ended.ending);
        }
    }
    Ok(Status { flow: flow.info(), ending })
}

pub(super) async fn list(
    session: &JournalSession,
    query: &Query,
) -> Result<Vec<FlowInfo>, SessionFailure> {
    macro_rules! select {
        ($($index:literal),*) => {
            concat!(
                "SELECT ",
                head_columns!(),
                ", f.local_id, f.key, ARRAY(SELECT tag FROM flow_tag WHERE flow = f.number ORDER BY tag) \
                 FROM flow f WHERE ",
                $($index,)*
                " AND number > $1 AND ($2::bigint IS NULL OR state = $2) AND (NOT $13::boolean OR state < 7) \
                 AND ($3::text IS NULL OR template = $3) AND ($4::bigint IS NULL OR created >= $4) \
                 AND ($5::bigint IS NULL OR created < $5) AND ($7::text IS NULL OR local_id = $7) \
                 AND ($8::text IS NULL OR key = $8) \
                 AND ($9::text IS NULL OR position($9 in template) = 0) \
                 AND ($10::bytea IS NULL OR uid = $10) \
                 AND ($11::text IS NULL OR scope = $11) AND ($12::text IS NULL OR EXISTS \
                 (SELECT 1 FROM flow_tag WHERE flow = f.number AND tag = $12)) ORDER BY number LIMIT $6"
            )
        };
    }
    // the number of the state is in the text: the server cannot know how few flows a parameter stands for
    macro_rules! of_state {
        ($state:literal) => {
            of_state!("= ", $state)
        };
        ($is:literal, $state:literal) => {
            select!("number = ANY(ARRAY(SELECT number FROM flow WHERE state ", $is, $state, "))")
        };
    }
    // each has the index that it needs: most flows have ended, so those are found by their numbers
    let sql = match query {
        Query { uid: Some(_), .. } => select!("uid = $10"),
        Query { key: Some(_), .. } => select!("key = $8"),
        Query { tag: Some(_), .. } => {
            select!("number = ANY(ARRAY(SELECT flow FROM flow_tag WHERE tag = $12))")
        }
        Query { user: Some(_), .. } => select!("local_id = $7"),
        Query { state: Some(state), .. } => match state {
            FlowState::Ready => of_state!(0),
            FlowState::New => of_state!(1),
            FlowState::Suspect => of_state!(2),
            FlowState::Running => of_state!(3),
            FlowState::Parked => of_state!(4),
            FlowState::Paused => of_state!(5),
            FlowState::Dead => of_state!(6),
            FlowState::Ended => select!("true"),
        },
        Query { open: true, .. } => of_state!("< ", 7),
        _ => select!("true"),
    };
    let state = query.state.map(|state| state as i64);
    let limit = int(check::limit(query.limit) as u64);
    let (from, before) = (query.from.map(millis), query.before.map(millis));
    let Query { template, user, key, scope, tag, open, .. } = query;
    let without = query.template_without.map(String::from);
    let uid = query.uid.map(|uid| uid.as_bytes().to_vec());
    let after = int(query.after);
    let values: [&(dyn ToSql + Sync); 13] = [
        &after, &state, template, &from, &before, &limit, user, key, &without, &uid, scope, tag,
        open,
    ];
    let rows = session.query(sql, &values).await?;
    let now = moment(session).await?;
    let read = |row: &tokio_postgres::Row| {
        let (user, key, tags) = (row.try_get(26)?, row.try_get(27)?, row.try_get(28)?);
        Ok(FlowInfo { user, key, tags, ..head(row)?.listed(now) })
    };
    rows.iter().map(read).collect()
}

/// The order of the index keeps the server to it, whatever it knows of the table. One statement for all would cost so much
/// by the server's estimate that it compiles it first.
const COUNT: &str = "SELECT count, uid, epoch, created FROM flow JOIN \
     (SELECT count(*) AS count, min(number) AS oldest FROM \
     (SELECT number FROM flow WHERE state = $1 AND template = $2 \
     ORDER BY state, template, version, number LIMIT $3) o) c ON number = oldest";

pub(super) async fn count(
    session: &JournalSession,
    templates: &[String],
) -> Result<Counts, SessionFailure> {
    session.prepare(COUNT).await?;
    let count = async |(template, state): (&String, FlowState)| {
        let values: [&(dyn ToSql + Sync); 3] = [&(state as i64), template, &int(COUNTED as u64)];
        let rows = session.query(COUNT, &values).await?;
        let read = |row: &tokio_postgres::Row| {
            Ok::<_, SessionFailure>(OpenFlows {
                template: template.clone(),
                state,
                count: unsigned(row.try_get(0)?),
                oldest: uid(row, 1)?,
                epoch: Epoch::new(unsigned(row.try_get(2)?)),
                created: timestamp(row.try_get(3)?),
            })
        };
        rows.first().map(read).transpose()
    };
    // they are sent at once
    let wanted = templates.iter().flat_map(|it| OPEN.iter().map(move |state| (it, *state)));
    let flows = try_join_all(wanted.map(count)).await?.into_iter().flatten().collect();
    let sql = "SELECT (SELECT max(number) - min(number) + 1 FROM flow), \
               pg_total_relation_size('flow') + pg_total_relation_size('record') \
               + pg_total_relation_size('signal') + pg_total_relation_size('emitted') \
               + pg_total_relation_size('flow_tag')";
    let rows = session.query(sql, &[]).await?;
    let row = rows.first().ok_or_else(foreign)?;
    let (stored, bytes) = (row.try_get::<_, Option<i64>>(0)?, Some(unsigned(row.try_get(1)?)));
    let (time, stored) = (moment(session).await?.now, stored.map_or(0, unsigned));
    Ok(Counts { time, flows, stored, bytes, log_bytes: None })
}
