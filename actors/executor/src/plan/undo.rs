//! Undo of what the records of a request say was begun, after the run that began it has ended: it needs the plan, the
//! records, the parameters and the service.
//!
//! It walks the steps of a level from the last one to the first; branches and items in parallel, attempts and
//! iterations newest first. A step holds the locks and limiters that it has in the plan while the steps inside of it
//! are undone.

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::{Arguments, AsyncSteps, StepResult, codes};

use super::around::Around;
use super::context::Context;
use super::facts::Facts;
use super::form::Form;
use super::node::{Level, Node};
use super::taken::Taken;
use super::work::AT_ONCE;
use crate::recorder::Sublevel;

impl Level {
    /// Adds steps to the running one that undo the begun steps of this level; `taken` is the input of the first of them.
    pub(super) fn undo(
        self: &Arc<Self>,
        asi: &mut AsyncSteps,
        around: &Rc<Around>,
        taken: Option<&Taken>,
    ) {
        if self.ways() < 2 {
            return self.undo_way(0, asi, around, taken);
        }
        let source = around.source;
        let mut branches = asi.parallel(|branches| {
            for way in 0..self.ways() {
                let (level, around) = (Arc::clone(self), Rc::clone(around));
                let taken = taken.cloned();
                let branch = move |asi: &mut AsyncSteps, ()| {
                    level.undo_way(way, asi, &around, taken.as_ref());
                };
                branches.add(branch).located_at(source);
            }
        });
        branches.located_at(source);
    }

    fn undo_way(
        self: &Arc<Self>,
        way: usize,
        asi: &mut AsyncSteps,
        around: &Rc<Around>,
        taken: Option<&Taken>,
    ) {
        for (at, node) in self.way(way).iter().enumerate().rev() {
            let cx = Context::at(Rc::clone(around), &node.id);
            if !node.is_to_undo(&cx) {
                continue;
            }
            let taken = self.taken((way, at), &cx, taken);
            let (level, source, of_error) = (Arc::clone(self), cx.source(), cx.clone());
            let mut step = asi.add(move |asi, ()| match level.way(way).get(at) {
                Some(node) => node.undo(asi, cx, taken),
                None => Ok(()),
            });
            // the others are undone all the same
            step.located_at(source).on_error(move |asi, error| {
                if let Some(step) = of_error.recorder() {
                    drop(step.undone(Err(error)));
                }
                match error.code() {
                    // the steps before it are undone when there is room
                    codes::DEFENSE_REJECTED => Ok(()),
                    _ => asi.success(()),
                }
            });
            if !node.id.name.is_empty() {
                step.named(node.id.name);
            }
        }
    }

    /// The input of this step; `None` if that is not recorded.
    fn taken(
        &self,
        (way, at): (usize, usize),
        cx: &Context,
        first: Option<&Taken>,
    ) -> Option<Taken> {
        let nodes = self.way(way);
        let facts = &nodes.get(at)?.facts;
        if facts.takes_nothing {
            return Some(Rc::new(|| Ok(((),).into_args())));
        }
        if let Some(read) = facts.input.clone() {
            let stored = cx.recorded()?.recalled(1).input?;
            return Some(Rc::new(move || read.read(&stored)));
        }
        let Some((before, node)) =
            nodes.iter().enumerate().take(at).rfind(|(_, node)| !node.is_retired())
        else {
            return first.cloned();
        };
        let of_node = Context::at(Rc::clone(&cx.around), &node.id);
        if node.facts.passes {
            return self.taken((way, before), &of_node, first);
        }
        let read = node.facts.read.clone()?;
        let stored = of_node.recorded()?.recalled(1).result?;
        Some(Rc::new(move || read.read(&stored)))
    }
}

impl Level {
    /// Whether it is known after a crash what this step took, as [`taken`](Self::taken) finds it.
    pub(super) fn knows_taken(&self, (way, at): (usize, usize), knows_first: bool) -> bool {
        let nodes = self.way(way);
        let Some(facts) = nodes.get(at).map(|node| &node.facts) else { return false };
        if facts.takes_nothing || facts.input.is_some() {
            return true;
        }
        for node in nodes.iter().take(at).rev().filter(|node| !node.is_retired()) {
            let facts = &node.facts;
            if !facts.passes {
                return facts.read.is_some();
            }
            if facts.takes_nothing || facts.input.is_some() {
                return true;
            }
        }
        knows_first
    }
}

impl Node {
    /// Whether the step is to be undone, or a step inside; `cx` is its own.
    fn is_to_undo(&self, cx: &Context) -> bool {
        match (&self.inside, cx.recorded()) {
            (_, Some(step)) => step.recalled(1).is_to_undo,
            (Some(inside), None) => {
                let here = |node: &Self| Context::at(Rc::clone(&cx.around), &node.id);
                inside.nodes().any(|(_, node)| node.is_to_undo(&here(node)))
            }
            (None, None) => false,
        }
    }

    /// Adds steps to the running one that undo the step, which took this.
    fn undo(&self, asi: &mut AsyncSteps, cx: Context, taken: Option<Taken>) -> StepResult {
        let held = self.work.held(&cx, taken.as_ref())?;
        let inside = match &self.inside {
            Some(inside) => Some(Arc::clone(inside)),
            None => self.work.define(&cx, taken.as_ref())?,
        };
        let stored = cx.recorded().and_then(|step| step.recalled(1).result);
        let result = stored.zip(self.facts.read.as_ref());
        let result = result.map(|(stored, read)| read.read(&stored)).transpose()?;
        let (work, facts, source) = (Arc::clone(&self.work), self.facts.clone(), cx.source());
        let mut step = asi.add(move |asi, ()| match inside {
            Some(inside) => inside.undo_inside(asi, &cx, &facts, taken.as_ref()),
            None => work.undo(asi, cx, taken.as_ref(), result),
        });
        held.say(&mut step);
        step.located_at(source);
        Ok(())
    }
}

impl Level {
    /// Adds steps to the running one that undo the begun steps inside of a step, whose context is
    /// `cx`.
    fn undo_inside(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: &Context,
        facts: &Facts,
        taken: Option<&Taken>,
    ) -> StepResult {
        let taken = taken.filter(|_| facts.form.passes_inside());
        if self.is_rest() {
            self.undo(asi, &cx.around, taken);
            return Ok(());
        }
        let Some(step) = cx.recorded() else {
            self.undo(asi, &cx.inside(self.has_undo, None, None), taken);
            return Ok(());
        };
        let begun = step.recalled(1).to_undo;
        for attempt in begun.chunk_by(|one, other| one.attempt == other.attempt) {
            let inside = |Sublevel { attempt, part }: &Sublevel| {
                self.around(&cx.clone().in_attempt(*attempt), None, part.clone(), false)
            };
            let parts = attempt.iter().map(inside).collect::<Result<_, _>>()?;
            // iterations follow each other
            let at_once =
                if facts.form == Form::Repeat { 1 } else { facts.at_once.unwrap_or(AT_ONCE) };
            self.undo_parts(asi, cx, parts, (at_once, taken));
        }
        Ok(())
    }

    /// Adds a step to the running one that undoes these attempts, iterations or items, `at_once` at a time.
    fn undo_parts(
        self: &Arc<Self>,
        asi: &mut AsyncSteps,
        cx: &Context,
        parts: Vec<Rc<Around>>,
        (at_once, taken): (usize, Option<&Taken>),
    ) {
        let source = cx.source();
        let mut branches: Vec<Vec<_>> = (0..at_once.min(parts.len())).map(|_| Vec::new()).collect();
        for (number, part) in parts.into_iter().enumerate() {
            branches[number % at_once].push(part);
        }
        let mut undone = asi.parallel(|parallel| {
            for parts in branches {
                let (level, taken) = (Arc::clone(self), taken.cloned());
                let branch = move |asi: &mut AsyncSteps, ()| {
                    for part in parts {
                        let (level, taken) = (Arc::clone(&level), taken.clone());
                        asi.add(move |asi, ()| level.undo(asi, &part, taken.as_ref()))
                            .located_at(source);
                    }
                };
                parallel.add(branch).located_at(source);
            }
        });
        undone.located_at(source);
    }
}
