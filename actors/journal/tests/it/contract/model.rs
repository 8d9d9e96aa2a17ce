//! What a journal does to a few flows, without a journal.

use asyncsteps_core::sim::linear::Model;
use asyncsteps_journal::Incarnation;

/// What is asked. Flows are named by small numbers.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Claim(Incarnation),
    /// One record by the owner at an epoch; flow, epoch and the number of the record.
    Append(usize, u64, u64, Then),
    /// A flow without its records.
    Flow(usize),
    /// The records of a flow.
    Records(usize),
    /// The lease of a node ends.
    Die(Incarnation),
}

/// What happens to the flow with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    Release,
    End,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Flows with their new epochs.
    Given(Vec<(usize, u64)>),
    Written,
    /// The flow is at this epoch and not of the one who asks.
    Stale(u64),
    /// The epoch, the owner, and whether it has ended.
    Flow(u64, Option<Incarnation>, bool),
    /// Their epochs and numbers.
    Records(Vec<(u64, u64)>),
    Died,
    /// No answer that a model allows.
    Failed(String),
}

/// Some flows, as they are at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    epoch: u64,
    owner: Owner,
    has_ended: bool,
    records: Vec<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Nobody,
    Alive(Incarnation),
    /// The flow may be taken from it at any time.
    Dead(Incarnation),
}

/// So many flows that wait for a first owner.
pub(super) struct Flows(pub(super) usize);

impl Model for Flows {
    type State = Vec<Flow>;
    type Operation = Asked;
    type Answer = Answer;

    fn start(&self) -> Vec<Flow> {
        let (owner, has_ended, records) = (Owner::Nobody, false, vec![(0, 0)]);
        vec![Flow { epoch: 0, owner, has_ended, records }; self.0]
    }

    fn apply(
        &self,
        state: &Vec<Flow>,
        asked: &Asked,
        answer: Option<&Answer>,
    ) -> Option<Vec<Flow>> {
        let mut flows = state.clone();
        let is_possible = match (asked, answer) {
            (Asked::Claim(node), Some(Answer::Given(given))) => {
                given.iter().all(|(flow, epoch)| flows[*flow].give(*node, *epoch))
            }
            (Asked::Append(flow, epoch, number, then), answer) => {
                flows[*flow].append((*epoch, *number), *then, answer)
            }
            (Asked::Flow(flow), Some(Answer::Flow(epoch, owner, has_ended))) => {
                let flow = &mut flows[*flow];
                flow.is_of(*owner) && (flow.epoch, flow.has_ended) == (*epoch, *has_ended)
            }
            (Asked::Records(flow), Some(Answer::Records(records))) => {
                flows[*flow].records == *records
            }
            (Asked::Die(node), Some(Answer::Died)) => {
                for flow in flows.iter_mut().filter(|flow| flow.owner == Owner::Alive(*node)) {
                    flow.owner = Owner::Dead(*node);
                }
                true
            }
            _ => false,
        };
        is_possible.then_some(flows)
    }
}

impl Flow {
    /// A claim returns only what is of nobody that lives, with the next epoch.
    fn give(&mut self, node: Incarnation, epoch: u64) -> bool {
        let is_free = !self.has_ended && !matches!(self.owner, Owner::Alive(_));
        (self.epoch, self.owner) = (self.epoch + 1, Owner::Alive(node));
        is_free && self.epoch == epoch
    }

    /// Whether it may be of this owner; then it is.
    fn is_of(&mut self, owner: Option<Incarnation>) -> bool {
        match (self.owner, owner) {
            (Owner::Nobody, None) => true,
            (Owner::Alive(is) | Owner::Dead(is), Some(owner)) => is == owner,
            (Owner::Dead(_), None) => {
                self.owner = Owner::Nobody;
                true
            }
            (Owner::Nobody, Some(_)) | (Owner::Alive(_), None) => false,
        }
    }

    /// A record is written once, by the owner, after those before it. Without an answer it is written if it can
    /// be.
    fn append(&mut self, record: (u64, u64), then: Then, answer: Option<&Answer>) -> bool {
        let is_owner = self.owner != Owner::Nobody && record.0 == self.epoch;
        let is_known = self.records.contains(&record);
        match answer {
            Some(Answer::Written) | None if is_known => true,
            Some(Answer::Written) | None if is_owner => {
                let is_next = self.records.len() as u64 == record.1;
                self.records.push(record);
                self.has_ended = then == Then::End;
                if then != Then::Keep {
                    self.owner = Owner::Nobody;
                }
                is_next
            }
            None => true,
            Some(Answer::Stale(epoch)) => {
                let is_lost = !is_owner || self.is_of(None);
                !is_known && is_lost && *epoch == self.epoch
            }
            _ => false,
        }
    }
}
