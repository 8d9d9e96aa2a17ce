//! The quotas of callers, among the groups of several nodes.

use std::collections::BTreeMap;

use super::session::{JournalSession, SessionFailure};
use crate::quota::{CallerRange, WaitingCounts};
use crate::request::CallerQuota;
use crate::stored::{int, unsigned, waits};

/// The requests of some callers in a group.
struct CallerShare<'a> {
    counted: CallerRange<'a>,
    /// How many flows of theirs it is to store.
    submits: u64,
}

/// How many flows of these callers wait. Groups that bring callers near their quota are written one after the other:
/// beyond a quarter of it the count is made under a lock of these callers. Other groups do not wait for each other, nor
/// do those whose submits are refused: a caller that has used up its quota holds up no node.
pub(super) async fn waiting<'a>(
    session: &JournalSession,
    quotas: impl Iterator<Item = &'a CallerQuota>,
) -> Result<WaitingCounts, SessionFailure> {
    let mut shares: BTreeMap<&str, CallerShare<'_>> = BTreeMap::new();
    for counted in quotas.flat_map(CallerQuota::counted) {
        let share = CallerShare { submits: 0, counted };
        shares.entry(share.counted.from).or_insert(share).submits += 1;
    }
    let mut waiting = WaitingCounts::default();
    let mut shares: Vec<_> = shares.into_values().collect();
    count(session, &shares, &mut waiting).await?;
    shares.retain(|CallerShare { counted, submits }| {
        let waiting = waiting.get(counted).unwrap_or_default();
        waiting < counted.most && waiting + submits > counted.most / 4
    });
    if !shares.is_empty() {
        // in the order of the locks, so that no two groups wait for each other
        let sql = "SELECT pg_advisory_xact_lock(x'4173634b'::int, lock) FROM (SELECT DISTINCT hashtext(caller) \
             AS lock FROM unnest($1::text[]) AS caller ORDER BY lock) AS locks";
        let callers: Vec<_> = shares.iter().map(|share| share.counted.from).collect();
        session.query(sql, &[&callers]).await?;
        count(session, &shares, &mut waiting).await?;
    }
    Ok(waiting)
}

async fn count(
    session: &JournalSession,
    shares: &[CallerShare<'_>],
    waiting: &mut WaitingCounts,
) -> Result<(), SessionFailure> {
    if shares.is_empty() {
        return Ok(());
    }
    let sql = concat!(
        "SELECT c.first, (SELECT count(*) FROM (SELECT 1 FROM flow \
         WHERE caller >= c.first AND caller < c.till AND ",
        waits!(),
        " ORDER BY caller LIMIT c.most) AS waiting) \
         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS c (first, till, most)"
    );
    let counted = shares.iter().map(|share| &share.counted);
    let first: Vec<_> = counted.clone().map(|it| it.from).collect();
    let till: Vec<_> = counted.clone().map(|it| &*it.till).collect();
    let most: Vec<_> = counted.map(|it| int(it.most)).collect();
    for row in session.query(sql, &[&first, &till, &most]).await? {
        waiting.set(row.try_get(0)?, unsigned(row.try_get(1)?));
    }
    Ok(())
}
