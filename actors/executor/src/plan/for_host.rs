//! The steps of a function for the host of its requests, made of its plan.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Arguments, Error, codes};
use serde::de::DeserializeOwned;

use super::cx::read;
use super::mistake::Mistake;
use super::node::{Level, Node};
use super::planned::{Define, Planned, PlannedStep, Ways};
use super::read::Read;

impl Define {
    /// `read` reads the result of the step before, from which `steps` defines the sub-steps of a step that was written
    /// there.
    pub(super) fn new<T: 'static>(
        source: &'static Location<'static>,
        read: Read,
        steps: impl Fn(T) -> Vec<Node> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |stored| {
            let (value,) = <(T,)>::from_args(read.read(stored)?)
                .map_err(|mismatch| Error::caused_by(codes::INTERNAL_ERROR, mismatch))?;
            let nodes = Mistake::catch(source, || steps(value)).map_err(Mistake::into_error)?;
            let (level, mut mistakes) = (Level::of(nodes), Vec::new());
            level.complete(None, &mut mistakes);
            level.check_recorded(&mut mistakes);
            match mistakes.pop() {
                None => Ok(level.planned()),
                Some(mistake) => Err(mistake.into_error()),
            }
        }))
    }
}

impl Planned {
    /// The steps of a function whose parameters are `P`.
    pub(super) fn of<P: DeserializeOwned + 'static>(level: &Level) -> Self {
        Self { steps: level.planned(), reads_params: |params| Ok(Rc::new(read::<P>(params)?)) }
    }
}

impl Level {
    fn planned(&self) -> Ways {
        let planned = |nodes: &[Node]| {
            let mut steps = Vec::new();
            add(nodes, false, &mut steps);
            steps
        };
        self.each_way().map(planned).collect()
    }
}

/// Adds steps; a step that has the rest or all of this level inside is replaced by its sub-steps.
fn add(nodes: &[Node], is_behind_end: bool, steps: &mut Vec<PlannedStep>) {
    for node in nodes {
        match node.inside.as_ref().filter(|inside| !inside.is_own()) {
            Some(inside) => {
                let is_behind_end = is_behind_end || inside.is_rest();
                inside.each_way().for_each(|nodes| add(nodes, is_behind_end, steps));
            }
            None => steps.push(PlannedStep::of(node, is_behind_end)),
        }
    }
}

impl PlannedStep {
    fn of(node: &Node, is_behind_end: bool) -> Self {
        let facts = &node.facts;
        let (_, nth) = node.id.numbered();
        let names = [(node.name(), nth)].into_iter().chain(node.id.was().iter().copied());
        Self {
            source: node.id.source,
            names: names.collect(),
            form: facts.form,
            kind: facts.kind,
            can_be_undone: facts.undo.is_some(),
            recovers: facts.recovers,
            is_behind_end,
            ways: node.inside.as_ref().map(|inside| inside.planned()).unwrap_or_default(),
            read: facts.read.clone(),
            read_state: facts.read_state.clone(),
            define: facts.define.clone(),
            senders: facts.senders.clone(),
            errors: facts.errors,
        }
    }
}
