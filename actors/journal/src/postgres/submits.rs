//! New flows of a group.

use std::collections::HashSet;

use super::change::Change;
use super::session::{JournalSession, SessionFailure};
use super::tables::{encoded, head, head_columns};
use super::{quotas, tags};
use crate::check;
use crate::coding::Encoded;
use crate::error::{Error, Refused};
use crate::head::FlowHead;
use crate::id::Incarnation;
use crate::moment::Moment;
use crate::quota::WaitingCounts;
use crate::request::{FirstOwner, Submit, Submitted};
use crate::stored::{int, millis};

/// The nodes that flows are submitted for.
pub(super) fn owners(changes: &[Change]) -> Vec<i64> {
    let owner = |change: &Change| {
        let Change::Submit(asked) = change else { return None };
        match asked.request.0.owner {
            FirstOwner::Node(node) => Some(int(node.get())),
            FirstOwner::Any | FirstOwner::AnyFrom(_) | FirstOwner::AnyAfter(_) => None,
        }
    };
    changes.iter().filter_map(owner).collect()
}

/// Writes the new flows, in the order of their keys: two groups with the same keys do not wait for each
/// other.
pub(super) async fn write(
    session: &JournalSession,
    program: i64,
    changes: &mut [Change],
    alive: &HashSet<Incarnation>,
    now: Moment,
) -> Result<(), SessionFailure> {
    let submits = changes.iter_mut().filter_map(|change| match change {
        Change::Submit(asked) => Some(asked),
        Change::Append(_)
        | Change::Signal(_)
        | Change::Emit(_)
        | Change::Cancel(_)
        | Change::Resume(_)
        | Change::Claim(_) => None,
    });
    let mut submits: Vec<_> = submits.collect();
    let quotas = submits.iter().filter_map(|asked| asked.request.0.quota.as_ref());
    let mut waiting = quotas::waiting(session, quotas).await?;
    submits.sort_by_key(|asked| (asked.request.0.key.clone(), asked.request.0.uid));
    let place = SubmitPlace { session, program, alive, now };
    for asked in submits {
        let (submit, started) = &*asked.request;
        asked.answer = Some(match place.submit(submit, started, &mut waiting).await {
            Ok(submitted) => Ok(submitted),
            Err(SessionFailure::Answered(
                error @ (Error::Refused(_) | Error::UnknownValue { .. }),
            )) => Err(error),
            Err(failure) => return Err(failure),
        });
    }
    Ok(())
}

/// Where new flows are written, and when.
struct SubmitPlace<'a> {
    session: &'a JournalSession,
    /// The number of this program in the table of programs.
    program: i64,
    alive: &'a HashSet<Incarnation>,
    now: Moment,
}

impl SubmitPlace<'_> {
    async fn submit(
        &self,
        submit: &Submit,
        started: &Encoded,
        waiting: &mut WaitingCounts,
    ) -> Result<Submitted, SessionFailure> {
        let Self { session, program, alive, now } = *self;
        let known_before = known(session, submit).await?;
        if let Some((answer, earlier)) = &known_before
            && earlier.left_scope(submit).is_none()
        {
            return Ok(*answer);
        }
        let quota = submit.quota.as_ref();
        if let Some(quota) = quota {
            waiting.check(quota)?;
        }
        if let FirstOwner::Node(node) = submit.owner
            && !alive.contains(&node)
        {
            return Err(Refused::NoLease(node).into());
        }
        if let Some((_, earlier)) = known_before {
            // unless another transaction was earlier by a moment: then its flow is known below
            let sql = "UPDATE flow SET scope = $3 WHERE number = $1 AND scope = $2";
            let scope = submit.key.as_ref().map(|key| key.scope.as_str());
            let left = (int(earlier.number), earlier.left_scope(submit));
            session.execute(sql, &[&left.0, &scope, &left.1]).await?;
        }
        let sql = "WITH new AS (INSERT INTO flow (uid, template, version, pinned, state, epoch, owner, \
         run, claims, deaths, inbox, seen, removed, created, due, scope, key, caller, local_id, due_passed) \
         VALUES ($1, $2, $3, false, $4, $5, $6, 0, 0, 0, 0, 0, 0, $7, $8, $9, $10, $15, $16, $17) \
         ON CONFLICT DO NOTHING RETURNING number) \
         INSERT INTO record (flow, epoch, sequence, path, kind, program, body) \
         SELECT number, 0, 0, $11, $12, $13, $14 FROM new";
        let (new, key) = (FlowHead::new(submit, now), submit.key.as_ref());
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 17] = [
            &new.uid.as_bytes().as_slice(),
            &new.template,
            &i64::from(new.version),
            &(new.state as i64),
            &int(new.epoch.get()),
            &new.owner.map(|node| int(node.get())),
            &millis(new.created),
            &new.due.map(millis),
            &key.map(|key| key.scope.as_str()),
            &key.map(|key| key.key.as_str()),
            &started.path.as_str(),
            &i64::from(started.kind),
            &program,
            &started.body,
            &quota.map(|quota| quota.caller.as_str()),
            &submit.started.local_id(),
            &new.due_passed.map(millis),
        ];
        if session.execute(sql, &values).await? > 0 {
            tags::insert(session, submit.uid, &submit.tags).await?;
            if let Some(quota) = quota {
                waiting.add(quota, new.state);
            }
            return Ok(Submitted::New);
        }
        // another transaction was earlier by a moment
        let (answer, _) = known(session, submit).await?.ok_or_else(super::tables::foreign)?;
        Ok(answer)
    }
}

/// The flow with the uid or the key, if there is one, and the answer about it.
async fn known(
    session: &JournalSession,
    submit: &Submit,
) -> Result<Option<(Submitted, FlowHead)>, SessionFailure> {
    let sql = concat!(
        "SELECT ",
        head_columns!(),
        ", r.path, r.kind, r.body FROM (SELECT * FROM flow WHERE scope = $2 AND key = $3 \
         UNION ALL SELECT * FROM flow WHERE uid = $1) AS f LEFT JOIN LATERAL \
         (SELECT * FROM record WHERE flow = f.number AND epoch = 0 AND sequence = 0 OFFSET 0) AS r \
         ON true ORDER BY f.uid <> $1 LIMIT 1"
    );
    let key = submit.key.as_ref();
    let (scope, key) = (key.map(|key| key.scope.as_str()), key.map(|key| key.key.as_str()));
    let rows = session.query(sql, &[&submit.uid.as_bytes().as_slice(), &scope, &key]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (head, first) = (head(row)?, encoded(row, 26)?);
    let answer = check::known(submit, head.uid, Some(&first), &session.seal)?;
    Ok(Some((answer, head)))
}
