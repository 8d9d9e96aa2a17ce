//! Flows for nodes.

use std::collections::{HashMap, HashSet};

use rusqlite::params;

use super::tables::{HEAD, SqliteTables, db_error, head};
use crate::check;
use crate::coding::EventKind;
use crate::error::Error;
use crate::head::{FlowHead, InFlight, OpenEffect, Turns};
use crate::limits::BATCH;
use crate::moment::Moment;
use crate::request::{Claim, Claimed, FlowState};
use crate::stored::{int, millis, unsigned};

impl SqliteTables {
    pub(super) fn claim(&self, claim: &Claim, now: Moment) -> Result<Vec<Claimed>, Error> {
        self.check_lease(claim.node, now)?;
        self.expire(now)?;
        self.wake(now)?;
        let before = self.heads("ticket = ?1", params![claim.ticket.as_bytes()])?;
        if !before.is_empty() {
            return Ok(before.iter().map(FlowHead::given).collect());
        }
        let limit = check::limit(claim.limit);
        let mut chosen = Vec::new();
        for uid in claim.awaited.iter().take(BATCH) {
            let mut found = self.heads("uid = ?1 AND state IN (0, 1)", params![uid.as_bytes()])?;
            found.retain(|head| head.suits(claim));
            chosen.append(&mut found);
        }
        let limit = limit + chosen.len();
        let room = claim.suspects.max(1).saturating_sub(self.suspects_of(int(claim.node.get()))?);
        if room > 0 {
            chosen.extend(self.claimable(
                FlowState::Suspect,
                claim,
                room.min(limit - chosen.len()),
            )?);
        }
        let mut taken: HashSet<u64> = chosen.iter().map(|head| head.number).collect();
        for state in [FlowState::Ready, FlowState::New] {
            if chosen.len() < limit {
                let found = self.claimable(state, claim, limit)?.into_iter();
                chosen.extend(found.filter(|head| taken.insert(head.number)));
            }
        }
        chosen.truncate(limit);
        let give = |old: FlowHead| {
            let mut new = old.clone();
            let claimed = new.claim(claim);
            self.update(&old, &new)?;
            Ok(claimed)
        };
        chosen.into_iter().map(give).collect()
    }

    /// Takes flows from nodes whose lease has ended: suspects first, then the oldest of each, and the node is gone
    /// when it has none left.
    fn expire(&self, now: Moment) -> Result<(), Error> {
        let mut statement = self.prepare("SELECT id FROM node WHERE ends <= ?1")?;
        let dead = statement.query_map([millis(now.seen)], |row| row.get(0));
        let dead: Vec<i64> = dead.and_then(Iterator::collect::<Result<_, _>>).map_err(db_error)?;
        for node in dead {
            let open = self.open_effects(node)?;
            let mut in_flight = InFlight::default();
            open.values().for_each(|effect| in_flight.add(*effect));
            let first = "owner = ?1 ORDER BY claims = 0, number LIMIT ?2";
            let lost = self.heads(first, params![node, int(BATCH as u64)])?;
            if lost.len() < BATCH {
                self.prepare("DELETE FROM node WHERE id = ?1")?
                    .execute([node])
                    .map_err(db_error)?;
            }
            for old in lost {
                let mut new = old.clone();
                let effect = open.get(&old.number).copied().unwrap_or(OpenEffect::None);
                new.lose_owner(effect, in_flight, &self.limits);
                self.update(&old, &new)?;
            }
        }
        Ok(())
    }

    /// The flows of a node that have an intent which nothing after it closes, by number.
    fn open_effects(&self, node: i64) -> Result<HashMap<u64, OpenEffect>, Error> {
        // numbers go on over epochs; with max(), SQLite takes the other columns from the same row
        let sql = "SELECT flow, max(of_owner) FROM (SELECT r.flow, r.kind, r.epoch = f.epoch AS of_owner, \
                   max(r.sequence) FROM flow f JOIN record r ON r.flow = f.number \
                   WHERE f.owner = ?1 AND r.kind BETWEEN ?2 AND ?3 GROUP BY r.flow, r.path) \
                   WHERE kind = ?2 GROUP BY flow";
        let mut statement = self.prepare(sql)?;
        let range = params![node, EventKind::Intent as u8, EventKind::Outcome as u8];
        let open = statement
            .query_map(range, |row| Ok((unsigned(row.get(0)?), OpenEffect::open(row.get(1)?))));
        open.and_then(Iterator::collect::<Result<_, _>>).map_err(db_error)
    }

    /// Lets parked flows go on whose time has come.
    fn wake(&self, now: Moment) -> Result<(), Error> {
        let by_clock = "state = 4 AND due <= ?1 ORDER BY due LIMIT ?2";
        let by_length = "state = 4 AND due_passed <= ?1 ORDER BY due_passed LIMIT ?2";
        for (filter, now) in [(by_clock, now.now), (by_length, now.passed)] {
            for old in self.heads(filter, params![millis(now), int(BATCH as u64)])? {
                let mut new = old.clone();
                new.wake();
                self.update(&old, &new)?;
            }
        }
        Ok(())
    }

    /// How many suspects a node has.
    fn suspects_of(&self, node: i64) -> Result<usize, Error> {
        let sql = "SELECT count(*) FROM flow WHERE owner = ?1 AND claims > 0";
        let count: i64 =
            self.prepare(sql)?.query_row([node], |row| row.get(0)).map_err(db_error)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// The oldest flows in a state for which the node has a program, functions in turns.
    fn claimable(
        &self,
        state: FlowState,
        claim: &Claim,
        limit: usize,
    ) -> Result<Vec<FlowHead>, Error> {
        let mut found = Vec::new();
        let most = int(limit as u64);
        for program in &claim.programs {
            for version in program.compatible.iter().chain([&program.version]) {
                let is_own = *version == program.version;
                found.extend(self.heads(
                    "state = ?1 AND template = ?2 AND version = ?3 AND (?4 OR NOT pinned) \
                     ORDER BY number LIMIT ?5",
                    params![state as i64, program.template, version, is_own, most],
                )?);
            }
        }
        found.sort_unstable_by_key(|head| head.number);
        // a version that is named twice
        found.dedup_by_key(|head| head.number);
        let mut turns = Turns::default();
        let mut found: Vec<_> = found.into_iter().map(|head| (turns.next(&head), head)).collect();
        found.sort_by_key(|(turn, _)| *turn);
        Ok(found.into_iter().take(limit).map(|(_, head)| head).collect())
    }

    pub(super) fn heads(
        &self,
        filter: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<FlowHead>, Error> {
        let mut statement = self.prepare(&format!("SELECT {HEAD} FROM flow WHERE {filter}"))?;
        let heads = statement.query_map(values, head);
        heads.and_then(Iterator::collect::<Result<_, _>>).map_err(db_error)
    }
}
