//! The plan of a function: a tree of steps that nothing changes once it is built.

use std::panic::{Location, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use asyncsteps_core::{AsyncSteps, Error, Retry, StepResult, Template, TemplateSteps, codes};

use super::cx::Cx;
pub(super) use super::form::{Form, UndoForm};
use super::place::{Place, StepId};
use crate::service::Service;

/// A step of a plan.
pub(super) struct Node<S: Service, P> {
    pub(super) id: Arc<StepId>,
    pub(super) facts: Facts,
    pub(super) work: Arc<dyn Work<S, P>>,
    /// What is inside, if it has sub-steps that are known.
    pub(super) inside: Option<Arc<Level<S, P>>>,
}

/// What a step does when a request comes to it.
pub(super) trait Work<S: Service, P>: Send + Sync {
    /// Adds the step to a template, where it takes the context of the step before it and its result, and
    /// returns the same.
    fn add(self: Arc<Self>, steps: &mut TemplateSteps);
}

/// Steps that are defined together: those of a function, or of a step with sub-steps.
pub(super) struct Level<S: Service, P> {
    ways: Vec<Way<S, P>>,
    /// The level goes on in it.
    is_rest: bool,
    pub(super) has_undo: bool,
}

/// Steps one after the other: all of a level, or a branch of it.
struct Way<S: Service, P> {
    nodes: Vec<Node<S, P>>,
    template: Template,
}

/// What is known of a step before it runs.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) form: Form,
    /// The types of what it takes and returns.
    pub(super) takes: &'static str,
    pub(super) returns: &'static str,
    pub(super) locks: usize,
    pub(super) limiters: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) retry: Option<Retry>,
    pub(super) undo: Option<UndoForm>,
    pub(super) recovers: bool,
    pub(super) is_shielded: bool,
    pub(super) at_once: Option<usize>,
    /// How many items win a race, and how many have to.
    pub(super) first: Option<usize>,
    pub(super) at_least: Option<usize>,
    /// What it is in a durable function, in the word of the step.
    pub(super) word: Option<&'static str>,
    /// It was said of a step that can have no such policy.
    pub(super) misplaced: Vec<&'static str>,
}

/// A mistake in a plan, for the one who wrote it.
#[derive(Clone, Debug)]
pub(crate) struct Mistake {
    pub(crate) source: &'static Location<'static>,
    pub(crate) what: String,
}

impl<S: Service, P: 'static> Level<S, P> {
    /// Steps one after the other.
    pub(super) fn of(nodes: Vec<Node<S, P>>) -> Arc<Self> {
        Self::of_ways(vec![nodes])
    }

    /// Branches, or ways of which one is taken.
    pub(super) fn of_ways(ways: Vec<Vec<Node<S, P>>>) -> Arc<Self> {
        Arc::new(Self::new(ways, false))
    }

    /// Steps with which the level around them goes on.
    pub(super) fn rest(nodes: Vec<Node<S, P>>) -> Arc<Self> {
        Arc::new(Self::new(vec![nodes], true))
    }

    fn new(ways: Vec<Vec<Node<S, P>>>, is_rest: bool) -> Self {
        let has_undo = ways.iter().flatten().any(Node::has_undo);
        let way = |nodes: Vec<Node<S, P>>| {
            let template = Template::build(|steps| {
                nodes.iter().for_each(|node| Arc::clone(&node.work).add(steps));
            });
            Way { nodes, template }
        };
        Self { ways: ways.into_iter().map(way).collect(), is_rest, has_undo }
    }

    /// Has the running step run the steps with this value.
    pub(super) fn enter<A: 'static>(
        &self,
        asi: &mut AsyncSteps,
        cx: Cx<S, P>,
        value: A,
    ) -> StepResult {
        self.enter_way(0, asi, cx, value)
    }

    /// Has the running step run those of one branch or way.
    pub(super) fn enter_way<A: 'static>(
        &self,
        way: usize,
        asi: &mut AsyncSteps,
        cx: Cx<S, P>,
        value: A,
    ) -> StepResult {
        match self.ways.get(way) {
            Some(way) if !way.nodes.is_empty() => {
                asi.copy_with(&way.template, (cx, value));
                Ok(())
            }
            // steps may be added behind it, so that it is one
            _ => {
                asi.add_inner(move |asi, ()| asi.success((cx, value)));
                Ok(())
            }
        }
    }

    /// The level around goes on in it.
    pub(super) fn is_rest(&self) -> bool {
        self.is_rest
    }

    /// How many branches or ways there are.
    pub(super) fn ways(&self) -> usize {
        self.ways.len()
    }

    /// The steps, with those of the rest of the level as if they were beside them.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (usize, &Node<S, P>)> {
        let ways = self.ways.iter().enumerate();
        ways.flat_map(|(number, way)| way.nodes.iter().map(move |node| (number, node)))
    }

    /// Tells all steps inside where they are, and collects mistakes.
    pub(super) fn complete(&self, depth: usize, mistakes: &mut Vec<Mistake>) {
        let mut beside = Vec::new();
        self.place(depth, &mut beside, mistakes);
        for (id, _) in &beside {
            let Some(step) = id.attempted() else { continue };
            let what = match beside.iter().any(|(other, is_tried)| *is_tried && other.name == step)
            {
                _ if step.is_empty() => "steps as one".to_owned(),
                true => format!("`{step}`"),
                false => continue,
            };
            let what = format!("the name `{}` is that of an attempt of {what} in paths", id.name);
            mistakes.push(Mistake { source: id.source, what });
        }
    }

    /// `beside` are the steps of this level so far, and whether paths name their attempts.
    fn place(
        &self,
        depth: usize,
        beside: &mut Vec<(Arc<StepId>, bool)>,
        mistakes: &mut Vec<Mistake>,
    ) {
        for (_, node) in self.nodes() {
            let name = node.id.name;
            let nth = 1 + beside.iter().filter(|(other, _)| other.name == name).count();
            node.id.put(Place { nth, depth });
            node.check(mistakes);
            let inside = node.inside.as_ref();
            match inside.map(|inside| (inside, inside.is_rest, name.is_empty())) {
                Some((rest, true, _)) => rest.place(depth, beside, mistakes),
                // a group without a name has no part in paths
                Some((group, false, true)) => group.place(depth + 1, beside, mistakes),
                Some((inside, false, false)) => {
                    beside.push((Arc::clone(&node.id), true));
                    inside.complete(depth + 1, mistakes);
                }
                None => beside.push((Arc::clone(&node.id), false)),
            }
        }
    }
}

/// Ends the building of a plan with a mistake of the caller.
pub(super) fn mistaken(source: &'static Location<'static>, what: &str) -> ! {
    resume_unwind(Box::new(Mistake { source, what: what.to_owned() }))
}

impl Mistake {
    /// The mistake in steps that a request defines.
    pub(super) fn into_error(self) -> Error {
        Error::with_info(codes::INTERNAL_ERROR, format!("{}: {}", self.source, self.what))
    }
}

/// What a path writes between names.
const NOT_IN_NAMES: [char; 4] = ['/', '#', '~', '?'];

impl<S: Service, P> Node<S, P> {
    fn has_undo(&self) -> bool {
        self.facts.undo.is_some() || self.inside.as_ref().is_some_and(|inside| inside.has_undo)
    }

    fn check(&self, mistakes: &mut Vec<Mistake>) {
        let (name, source) = (self.id.name, self.id.source);
        let mut found = |what| mistakes.push(Mistake { source, what });
        if name.is_empty() && !matches!(self.facts.form, Form::Group | Form::OrEnd | Form::Pass) {
            found("a step without a name has no path".to_owned());
        }
        if let Some(letter) = name.chars().find(|letter| NOT_IN_NAMES.contains(letter)) {
            found(format!(
                "the name `{name}` has a `{letter}`, which stands between names in paths"
            ));
        }
        for word in &self.facts.misplaced {
            found(format!("`{word}` cannot be said of `{name}`, {}", self.facts.form.words()));
        }
    }
}

impl Facts {
    pub(super) fn new<A, T>(form: Form) -> Self {
        Self {
            form,
            takes: std::any::type_name::<A>(),
            returns: std::any::type_name::<T>(),
            locks: 0,
            limiters: 0,
            timeout: None,
            retry: None,
            undo: None,
            recovers: false,
            is_shielded: false,
            at_once: None,
            first: None,
            at_least: None,
            word: None,
            misplaced: Vec::new(),
        }
    }

    /// Something is said about it.
    pub(super) fn is_said(&self) -> bool {
        self.locks + self.limiters > 0
            || self.timeout.is_some()
            || self.retry.is_some()
            || self.recovers
            || !self.misplaced.is_empty()
    }

    /// It is for steps that are a body.
    pub(super) fn needs_body(&mut self, word: &'static str) {
        if self.form != Form::Body {
            self.misplaced.push(word);
        }
    }
}

impl Form {
    /// What such a step is, in the text of a mistake.
    fn words(self) -> &'static str {
        match self {
            Self::Body => "which is a body",
            Self::Scope => "which is a scope: the steps inside have policies of their own",
            Self::Group => "which is a group: the steps inside have policies of their own",
            Self::Join => "which has branches: the steps inside have policies of their own",
            Self::Each => "which has items: the steps inside have policies of their own",
            Self::Race => "which is a race: the steps inside have policies of their own",
            Self::Repeat => "which is a loop: the steps inside have policies of their own",
            Self::When | Self::Either => {
                "which chooses: the steps inside have policies of their own"
            }
            Self::OrEnd => "which ends the steps early",
            Self::Dynamic => "which is dynamic: the steps inside have policies of their own",
            Self::Asi => "which has steps of FTN12: they have policies of their own",
            Self::Pass => "which is no step",
        }
    }
}
