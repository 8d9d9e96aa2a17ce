//! Nodes, and flows for them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::{try_join_all, try_join4};
use tokio_postgres::types::ToSql;

use super::change::Change;
use super::presence::ServerSession;
use super::session::{JournalSession, SessionFailure};
use super::tables::{head, head_columns, lease_is_over, look, moment, save};
use crate::check;
use crate::coding::EventKind;
use crate::error::Refused;
use crate::head::{FlowHead, InFlight, OpenEffect};
use crate::id::{Incarnation, Uid};
use crate::limits::{BATCH, Limits};
use crate::moment::{Look, Moment};
use crate::request::{Claim, FlowState, Registered};
use crate::stored::{int, millis, unsigned};
use crate::time::{Reading, Timestamp};

pub(super) async fn register(
    session: &JournalSession,
    lease: Duration,
    presence: Option<ServerSession>,
) -> Result<Registered, SessionFailure> {
    let (seen, time) = look(session, Look::Register).await?;
    let sql =
        "INSERT INTO node (ends, lease, session, server) VALUES ($1, $2, $3, $4) RETURNING id";
    let (lease, (number, server)) = (lease_millis(lease), columns(presence));
    let rows = session.query(sql, &[&(millis(seen) + lease), &lease, &number, &server]).await?;
    let node = rows.first().ok_or_else(super::tables::foreign)?.try_get(0)?;
    Ok(Registered { node: Incarnation::new(unsigned(node)), time })
}

pub(super) async fn renew(
    session: &JournalSession,
    node: Incarnation,
    lease: Duration,
    presence: Option<ServerSession>,
) -> Result<Reading, SessionFailure> {
    let (seen, time) = look(session, Look::Renew).await?;
    let sql = concat!(
        "UPDATE node SET lease = $2, ends = $3::bigint + $2, session = $4, server = $5 \
         WHERE id = $1 AND NOT ",
        lease_is_over!("$3")
    );
    let (node_id, (number, server)) = (int(node.get()), columns(presence));
    let values: [&(dyn ToSql + Sync); 5] =
        [&node_id, &lease_millis(lease), &millis(seen), &number, &server];
    match session.execute(sql, &values).await? {
        0 => Err(Refused::NoLease(node).into()),
        _ => Ok(time),
    }
}

/// The session of a node, as it is in its row.
fn columns(session: Option<ServerSession>) -> (Option<i64>, Option<i64>) {
    session.map(|session| (session.number, session.server)).unzip()
}

fn lease_millis(lease: Duration) -> i64 {
    // a year, so that sums stay numbers
    let most = Duration::from_secs(366 * 86_400);
    millis(Timestamp::default().after(lease.min(most)))
}

/// The nodes among these that have a lease. They keep it until the end of the transaction.
pub(super) async fn alive(
    session: &JournalSession,
    nodes: &[i64],
    now: Moment,
) -> Result<HashSet<Incarnation>, SessionFailure> {
    let sql = concat!(
        "SELECT id FROM node WHERE id = ANY($1) AND NOT ",
        lease_is_over!("$2"),
        " ORDER BY id FOR KEY SHARE"
    );
    let rows = session.query(sql, &[&nodes, &millis(now.seen)]).await?;
    rows.iter().map(|row| Ok(Incarnation::new(unsigned(row.try_get(0)?)))).collect()
}

/// Finds the answers of the claims among these changes.
pub(super) async fn claim(
    session: &JournalSession,
    changes: &mut [Change],
    limits: &Limits,
    now: Moment,
) -> Result<(), SessionFailure> {
    let asked = changes.iter_mut().filter_map(|change| match change {
        // a node that has gone would keep what it was given until its lease ends
        Change::Claim(asked) if asked.is_wanted() => Some(asked),
        Change::Claim(_)
        | Change::Submit(_)
        | Change::Append(_)
        | Change::Signal(_)
        | Change::Emit(_)
        | Change::Cancel(_)
        | Change::Resume(_) => None,
    });
    let mut asked: Vec<_> = asked.collect();
    if asked.is_empty() {
        return Ok(());
    }
    let nodes: Vec<i64> = asked.iter().map(|asked| int(asked.request.node.get())).collect();
    let tickets: Vec<_> =
        asked.iter().map(|asked| asked.request.ticket.as_bytes().to_vec()).collect();
    let sql = concat!("SELECT ", head_columns!(), " FROM flow f WHERE ticket = ANY($1)");
    let tickets: [&(dyn ToSql + Sync); 1] = [&tickets];
    // in boxes: together they are more than the stack of a thread takes in a build without optimization
    let looks = (Box::pin(alive(session, &nodes, now)), Box::pin(heads(session, sql, &tickets)));
    let rest = (Box::pin(expire(session, limits, now)), Box::pin(wake(session, now)));
    let (alive, given, (), ()) = try_join4(looks.0, looks.1, rest.0, rest.1).await?;
    asked.retain_mut(|asked| {
        let Claim { node, ticket, .. } = asked.request;
        let before = given.iter().filter(|head| head.ticket == Some(ticket));
        let before: Vec<_> = before.map(FlowHead::given).collect();
        asked.answer = match alive.contains(&node) {
            false => Some(Err(Refused::NoLease(node).into())),
            true => (!before.is_empty()).then_some(Ok(before)),
        };
        asked.answer.is_none()
    });
    while !asked.is_empty() {
        let chosen = asked.iter().map(|asked| Box::pin(chosen(session, &asked.request)));
        let mut chosen = try_join_all(chosen).await?.into_iter();
        let (mut taken, mut saved) = (HashSet::new(), Vec::new());
        asked.retain_mut(|asked| {
            let mut flows = chosen.next().unwrap_or_default();
            if !asked.is_wanted() {
                return false;
            }
            // the rows that a claim locks are no obstacle to another one of its transaction
            let has_found = !flows.is_empty();
            flows.retain(|head| taken.insert(head.number));
            if has_found && flows.is_empty() {
                return true;
            }
            let claimed = flows.iter_mut().map(|head| head.claim(&asked.request));
            asked.answer = Some(Ok(claimed.collect()));
            saved.append(&mut flows);
            false
        });
        save_all(session, &saved).await?;
    }
    Ok(())
}

/// The flows for a claim.
async fn chosen(session: &JournalSession, claim: &Claim) -> Result<Vec<FlowHead>, SessionFailure> {
    let mut chosen = awaited(session, claim).await?;
    let limit = check::limit(claim.limit) + chosen.len();
    let states: &[FlowState] = match claim.suspects {
        usize::MAX => &[FlowState::Suspect, FlowState::Ready, FlowState::New],
        most => {
            let room = most.max(1).saturating_sub(suspects_of(session, claim.node).await?);
            let room = room.min(limit - chosen.len());
            chosen.extend(claimable(session, &[FlowState::Suspect], claim, room).await?);
            &[FlowState::Ready, FlowState::New]
        }
    };
    if chosen.len() < limit {
        chosen.extend(claimable(session, states, claim, limit).await?);
    }
    let mut numbers = HashSet::new();
    chosen.retain(|head| numbers.insert(head.number));
    chosen.truncate(limit);
    Ok(chosen)
}

/// Takes flows from nodes whose lease has ended, suspects first, then the oldest. A node is gone when it has none left.
async fn expire(
    session: &JournalSession,
    limits: &Limits,
    now: Moment,
) -> Result<(), SessionFailure> {
    let sql = concat!(
        "SELECT id FROM node WHERE ",
        lease_is_over!("$1"),
        " ORDER BY id FOR UPDATE SKIP LOCKED"
    );
    let rows = session.query(sql, &[&millis(now.seen)]).await?;
    let dead: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if dead.is_empty() {
        return Ok(());
    }
    // in the order of the uid, as appends lock them; one that was released meanwhile is left out
    let sql = concat!(
        "SELECT ",
        head_columns!(),
        " FROM flow f WHERE uid = ANY(ARRAY(SELECT uid FROM flow WHERE owner = ANY($1) \
         ORDER BY claims = 0, number LIMIT $2)) ORDER BY uid FOR UPDATE"
    );
    let mut lost = heads(session, sql, &[&dead, &int(BATCH as u64)]).await?;
    let is_lost = |head: &FlowHead| head.owner.is_some_and(|node| dead.contains(&int(node.get())));
    lost.retain(is_lost);
    let open = open_effects(session, &dead).await?;
    let mut in_flight: HashMap<Incarnation, InFlight> = HashMap::new();
    for (owner, effect) in open.values() {
        in_flight.entry(*owner).or_default().add(*effect);
    }
    for head in &mut lost {
        let effect = open.get(&head.number).map_or(OpenEffect::None, |(_, effect)| *effect);
        let beside = head.owner.and_then(|owner| in_flight.get(&owner)).copied();
        head.lose_owner(effect, beside.unwrap_or_default(), limits);
    }
    save_all(session, &lost).await?;
    let sql = "DELETE FROM node n WHERE id = ANY($1) \
               AND (SELECT 1 FROM flow f WHERE f.owner = n.id LIMIT 1) IS NULL";
    session.execute(sql, &[&dead]).await?;
    Ok(())
}

/// The flows of these nodes that have an intent which nothing after it closes, by number, with the node.
async fn open_effects(
    session: &JournalSession,
    nodes: &[i64],
) -> Result<HashMap<u64, (Incarnation, OpenEffect)>, SessionFailure> {
    let sql = "SELECT flow, owner, bool_or(of_owner) FROM (SELECT DISTINCT ON (r.flow, r.path) \
               r.flow, f.owner, r.kind, r.epoch = f.epoch AS of_owner \
               FROM flow f, LATERAL (SELECT * FROM record WHERE flow = f.number \
               AND kind BETWEEN $2 AND $3 OFFSET 0) AS r WHERE f.owner = ANY($1) \
               ORDER BY r.flow, r.path, r.epoch DESC, r.sequence DESC) AS last \
               WHERE kind = $2 GROUP BY flow, owner";
    let (intent, outcome) = (EventKind::Intent as i64, EventKind::Outcome as i64);
    let rows = session.query(sql, &[&nodes, &intent, &outcome]).await?;
    let open = rows.iter().map(|row| {
        let owner = Incarnation::new(unsigned(row.try_get(1)?));
        Ok((unsigned(row.try_get(0)?), (owner, OpenEffect::open(row.try_get(2)?))))
    });
    open.collect()
}

/// Lets parked flows go on whose time has come.
async fn wake(session: &JournalSession, now: Moment) -> Result<(), SessionFailure> {
    let by_clock = concat!(
        "SELECT ",
        head_columns!(),
        " FROM flow f WHERE state + 0 = 4 AND due <= $1 ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED"
    );
    let by_length = concat!(
        "SELECT ",
        head_columns!(),
        " FROM flow f WHERE state + 0 = 4 AND due_passed <= $1 ORDER BY due_passed LIMIT $2 \
         FOR UPDATE SKIP LOCKED"
    );
    for (sql, now) in [(by_clock, now.now), (by_length, now.passed)] {
        let mut due = heads(session, sql, &[&millis(now), &int(BATCH as u64)]).await?;
        due.iter_mut().for_each(FlowHead::wake);
        save_all(session, &due).await?;
    }
    Ok(())
}

/// How many suspects a node has.
async fn suspects_of(session: &JournalSession, node: Incarnation) -> Result<usize, SessionFailure> {
    let sql = "SELECT count(*) FROM flow WHERE owner = $1 AND claims > 0";
    let rows = session.query(sql, &[&int(node.get())]).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Those of the flows whose end is waited for that may be claimed.
async fn awaited(session: &JournalSession, claim: &Claim) -> Result<Vec<FlowHead>, SessionFailure> {
    if claim.awaited.is_empty() {
        return Ok(Vec::new());
    }
    let sql = concat!(
        "SELECT ",
        head_columns!(),
        " FROM flow f WHERE uid = ANY($1) AND state + 0 IN (0, 1) ORDER BY uid FOR UPDATE SKIP LOCKED"
    );
    let uids = claim.awaited.iter().take(BATCH).map(|uid| uid.as_bytes().as_slice());
    let uids: Vec<_> = uids.collect();
    let mut found = heads(session, sql, &[&uids]).await?;
    found.retain(|head| head.suits(claim));
    Ok(found)
}

/// Flows for which the node has a program and which no other node is about to get: those in the first of these states
/// first, functions in turns, and the oldest of each.
async fn claimable(
    session: &JournalSession,
    states: &[FlowState],
    claim: &Claim,
    limit: usize,
) -> Result<Vec<FlowHead>, SessionFailure> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let (mut templates, mut versions, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for program in &claim.programs {
        let other = program.compatible.iter().filter(|version| **version != program.version);
        for version in other.chain([&program.version]) {
            templates.push(program.template.as_str());
            versions.push(i64::from(*version));
            own.push(*version == program.version);
        }
    }
    let sql = concat!(
        "SELECT ",
        head_columns!(),
        " FROM (SELECT s.place, row_number() OVER (PARTITION BY s.place, p.template ORDER BY o.number) \
         AS turn, o.* FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::bigint[], $3::bool[])) \
         AS p (template, version, own) \
         CROSS JOIN unnest($4::bigint[]) WITH ORDINALITY AS s (state, place) \
         CROSS JOIN LATERAL (SELECT * FROM flow c \
         WHERE (c.state, c.template, c.version) >= (s.state, p.template, p.version) \
         AND (c.state, c.template, c.version) <= (s.state, p.template, p.version) \
         AND (p.own OR NOT c.pinned) ORDER BY c.state, c.template, c.version, c.number \
         LIMIT $5 FOR UPDATE SKIP LOCKED) AS o) AS f \
         ORDER BY f.place, f.turn, f.number LIMIT $5"
    );
    let states: Vec<i64> = states.iter().map(|state| *state as i64).collect();
    let limit = int(limit as u64);
    heads(session, sql, &[&templates, &versions, &own, &states, &limit]).await
}

/// Removes flows, and returns how many.
macro_rules! remove {
    ($which:literal) => {
        concat!(
            "WITH old AS (DELETE FROM flow WHERE uid = ANY(ARRAY(SELECT uid FROM flow WHERE ",
            $which,
            ")) RETURNING number), \
             records AS (DELETE FROM record WHERE flow = ANY(ARRAY(SELECT number FROM old))), \
             signals AS (DELETE FROM signal WHERE flow = ANY(ARRAY(SELECT number FROM old))) \
             SELECT count(*) FROM old"
        )
    };
}

/// How many flows are removed in one transaction, so that what is asked of them meanwhile waits for some milliseconds.
const PIECE: usize = 50;

pub(super) async fn trim(session: &JournalSession, age: Duration) -> Result<usize, SessionFailure> {
    let before = millis(moment(session).await?.seen_before(age));
    let sql = remove!("ended_seen <= $1 ORDER BY ended_seen LIMIT $2 FOR UPDATE SKIP LOCKED");
    let mut trimmed = 0;
    while trimmed < BATCH {
        let most = PIECE.min(BATCH - trimmed);
        let rows = session.query(sql, &[&before, &int(most as u64)]).await?;
        let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
        let count = usize::try_from(count).unwrap_or(0);
        trimmed += count;
        if count < most {
            break;
        }
    }
    Ok(trimmed)
}

/// Removes those of the flows that have ended.
pub(super) async fn remove(session: &JournalSession, uids: &[Uid]) -> Result<(), SessionFailure> {
    let sql = remove!("uid = ANY($1) AND state + 0 = 7 ORDER BY uid FOR UPDATE");
    for uids in uids.chunks(PIECE) {
        let uids: Vec<&[u8]> = uids.iter().map(|uid| uid.as_bytes().as_slice()).collect();
        session.query(sql, &[&uids]).await?;
    }
    Ok(())
}

async fn heads(
    session: &JournalSession,
    sql: &'static str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<FlowHead>, SessionFailure> {
    session.query(sql, values).await?.iter().map(head).collect()
}

/// All at once, in one turn of the network.
async fn save_all(session: &JournalSession, heads: &[FlowHead]) -> Result<(), SessionFailure> {
    try_join_all(heads.iter().map(|head| save(session, head))).await?;
    Ok(())
}
