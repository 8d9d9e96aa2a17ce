//! The plan of a function: a tree of steps that nothing changes once it is built.

use std::fmt;
use std::panic::{Location, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use asyncsteps_core::{
    Args, Arguments, AsyncSteps, Error, Retry, StepResult, Template, TemplateSteps, codes,
};

use super::cx::Cx;
pub(super) use super::form::{Form, UndoForm};
use super::place::{Inside, Place, StepId};
use super::recorded::{RecordedLevel, RecordedStep};
use crate::recorder::{self, DefinedStep, HostUndo, Kind, Part};
use crate::service::{Service, errors_of};
use crate::stored::{Codec, Stored};

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
    /// returns the same; for requests that a host records, or for others.
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool);

    /// The undo of the step, for the host of the request, if it has one.
    fn host_undo(&self, cx: Cx<S, P>) -> Option<HostUndo> {
        drop(cx);
        None
    }
}

/// Steps that are defined together: those of a function, or of a step with sub-steps.
pub(super) struct Level<S: Service, P> {
    ways: Vec<Way<S, P>>,
    extent: Extent,
    pub(super) has_undo: bool,
}

/// What steps that are defined together are of the level around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// They are a level of their own.
    Own,
    /// It goes on in them.
    Rest,
    /// They are all of it.
    Whole,
}

/// A step of a level, a name of it, and whether paths name its attempts.
type Beside = (Arc<StepId>, &'static str, bool);

/// Steps one after the other: all of a level, or a branch of it.
struct Way<S: Service, P> {
    nodes: Vec<Node<S, P>>,
    template: Template,
    /// For requests that a host records.
    recorded: OnceLock<Template>,
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
    /// What the host of a request that it records does with the body.
    pub(super) kind: Option<Kind>,
    pub(super) commits: bool,
    /// The names that it had before, the newest first.
    pub(super) was: Vec<&'static str>,
    /// Reads a stored result.
    pub(super) read: Option<Read>,
    /// It was said of a step that can have no such policy.
    pub(super) misplaced: Vec<&'static str>,
}

/// Reads a stored result of a step.
#[derive(Clone)]
pub(super) struct Read(Arc<ReadResult>);

type ReadResult = dyn Fn(&Stored) -> Result<Args, Error> + Send + Sync;

impl Read {
    pub(super) fn of<T: 'static>(codec: Codec<T>) -> Self {
        Self(Arc::new(move |stored| Ok(((codec.read)(stored)?,).into_args())))
    }
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Read")
    }
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
        Arc::new(Self::new(ways, Extent::Own))
    }

    /// Steps with which the level around them goes on.
    pub(super) fn rest(nodes: Vec<Node<S, P>>) -> Arc<Self> {
        Arc::new(Self::new(vec![nodes], Extent::Rest))
    }

    /// All steps of the level around them, of which something is said.
    pub(super) fn whole(nodes: Vec<Node<S, P>>) -> Arc<Self> {
        Arc::new(Self::new(vec![nodes], Extent::Whole))
    }

    fn new(ways: Vec<Vec<Node<S, P>>>, extent: Extent) -> Self {
        let has_undo = ways.iter().flatten().any(Node::has_undo);
        let way = |nodes: Vec<Node<S, P>>| {
            let template = template(&nodes, false);
            Way { nodes, template, recorded: OnceLock::new() }
        };
        Self { ways: ways.into_iter().map(way).collect(), extent, has_undo }
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

    /// Has the running step run those of one way.
    pub(super) fn enter_way<A: 'static>(
        &self,
        way: usize,
        asi: &mut AsyncSteps,
        cx: Cx<S, P>,
        value: A,
    ) -> StepResult {
        let level = cx.own_level().filter(|_| self.extent == Extent::Own).cloned();
        let Some(level) = level else { return self.enter_branch(way, asi, cx, value) };
        self.enter_branch(way, asi, cx, value)?;
        asi.add_inner(move |asi, result: Args| {
            level.ended(false);
            asi.success(result)
        });
        Ok(())
    }

    /// Has the running step run those of one of several branches.
    pub(super) fn enter_branch<A: 'static>(
        &self,
        way: usize,
        asi: &mut AsyncSteps,
        cx: Cx<S, P>,
        value: A,
    ) -> StepResult {
        let is_recorded = cx.host().is_some();
        let runs = |node: &Node<S, P>| is_recorded || !node.is_retired();
        match self.ways.get(way) {
            Some(way) if is_recorded && !way.nodes.is_empty() => {
                let template = way.recorded.get_or_init(|| template(&way.nodes, true));
                asi.copy_with(template, (cx, value));
            }
            Some(way) if way.nodes.iter().any(runs) => asi.copy_with(&way.template, (cx, value)),
            // steps may be added behind it, so that it is one
            _ => drop(asi.add_inner(move |asi, ()| asi.success((cx, value)))),
        }
        Ok(())
    }

    /// [`enter`](Self::enter) in a step inside of the running one, which is `around`: so that the host of the request
    /// is told that the whole attempt fails before anything inside is undone.
    pub(super) fn enter_inside<A: 'static>(
        self: &Arc<Self>,
        asi: &mut AsyncSteps,
        around: &Cx<S, P>,
        (cx, value): (Cx<S, P>, A),
    ) -> StepResult {
        let Some(step) = around.recorded() else { return self.enter(asi, cx, value) };
        let (level, source) = (Arc::clone(self), around.source());
        asi.add(move |asi, ()| level.enter(asi, cx, value))
            .remembered(step.inside(around.attempt()))
            .located_at(source);
        Ok(())
    }

    /// The context of the steps in an attempt of this step, or in an iteration or an item in it: of all ways or of
    /// one. The host of the request is notified of the steps.
    pub(super) fn inside(
        &self,
        cx: Cx<S, P>,
        way: Option<usize>,
        inside: Option<Inside>,
    ) -> Result<Cx<S, P>, Error> {
        // a step that the host does not know has no steps of its own
        let Some(step) = cx.recorded().cloned() else {
            return Ok(cx.inside(self.has_undo, inside, None));
        };
        let (attempt, path) = (cx.attempt(), step.path_of(cx.attempt(), inside.as_ref()));
        let steps = self.recorded(&cx, &path, way);
        let around = Rc::clone(&step.memory);
        let level = Rc::new(RecordedLevel { around, attempt, path, steps });
        let cx = cx.inside(self.has_undo, inside, Some(Rc::clone(&level)));
        self.begin(&cx, &level)?;
        Ok(cx)
    }

    /// Notifies the host of the request of the steps of the function.
    pub(super) fn begin_function(&self, cx: &Cx<S, P>) -> Result<(), Error> {
        let Some(host) = cx.host() else { return Ok(()) };
        let (around, path) = (Rc::clone(&host.function), Vec::new());
        let steps = self.recorded(cx, &path, None);
        let level = Rc::new(RecordedLevel { around, attempt: 1, path, steps });
        let _ = host.level.set(Rc::clone(&level));
        self.begin(cx, &level)
    }

    fn begin(&self, cx: &Cx<S, P>, level: &RecordedLevel) -> Result<(), Error> {
        for (_, node) in self.flat() {
            let Some(step) = level.find(&node.id).filter(|_| node.facts.undo.is_some()) else {
                continue;
            };
            if let Some(undo) = node.work.host_undo(cx.clone().at(&node.id)) {
                step.memory.undo_by(undo);
            }
        }
        level.begin()
    }

    /// The steps of all ways or of one, as the host of the request is to record them.
    fn recorded(&self, cx: &Cx<S, P>, path: &[Part], way: Option<usize>) -> Vec<Rc<RecordedStep>> {
        let Some(host) = cx.host() else { return Vec::new() };
        let nodes = self.flat().into_iter().filter(|(of, _)| way.is_none_or(|way| way == *of));
        nodes
            .map(|(branch, node)| {
                let step = Rc::new(node.defined((path.to_vec(), branch)));
                let memory = host.request.step(Rc::clone(&step));
                for (name, nth) in node.id.was() {
                    step.add_name(name);
                    if !memory.is_known() {
                        step.set_known_as((name, *nth));
                    }
                }
                Rc::new(RecordedStep { id: Arc::clone(&node.id), step, memory })
            })
            .collect()
    }

    /// The steps, with those of the rest of the level, or of all of it, in their place; each with its branch or way.
    fn flat(&self) -> Vec<(usize, &Node<S, P>)> {
        let mut found = Vec::new();
        for (way, node) in self.nodes() {
            match &node.inside {
                Some(inside) if inside.extent != Extent::Own => {
                    found.extend(inside.flat().into_iter().map(|(_, node)| (way, node)));
                }
                _ => found.push((way, node)),
            }
        }
        found
    }

    /// Collects the steps that do not say what a crash does to them.
    pub(super) fn check_words(&self, mistakes: &mut Vec<Mistake>) {
        for (_, node) in self.nodes() {
            let (name, source) = (node.id.name, node.id.source);
            let lacks =
                |word| Some(format!("`{name}` does not say what a crash does to it: {word}"));
            let what = match (node.facts.form, node.facts.kind) {
                (Form::Body, None) => lacks("`recorded()`, `once()` or `repeatable()`"),
                (Form::Repeat, None) => {
                    lacks("`recorded_with_input()`, because its state is recorded")
                }
                (Form::Asi | Form::Race, _) => Some(format!(
                    "a durable function cannot have `{name}`, {}",
                    node.facts.form.words()
                )),
                _ => None,
            };
            mistakes.extend(what.map(|what| Mistake { source, what }));
            if let Some(inside) = &node.inside {
                inside.check_words(mistakes);
            }
        }
    }

    /// The level around goes on in it.
    pub(super) fn is_rest(&self) -> bool {
        self.extent == Extent::Rest
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
        for (id, name, _) in &beside {
            let Some(step) = id.attempted().filter(|_| *name == id.name) else { continue };
            let is_step = |(_, other, is_tried): &Beside| *is_tried && *other == step;
            let what = match beside.iter().any(is_step) {
                _ if step.is_empty() => "steps as one".to_owned(),
                true => format!("`{step}`"),
                false => continue,
            };
            let what = format!("the name `{}` is that of an attempt of {what} in paths", id.name);
            mistakes.push(Mistake { source: id.source, what });
        }
    }

    /// `beside` are the steps of this level so far.
    fn place(&self, depth: usize, beside: &mut Vec<Beside>, mistakes: &mut Vec<Mistake>) {
        for (_, node) in self.nodes() {
            let inside = node.inside.as_ref();
            let extent = inside.map_or(Extent::Own, |inside| inside.extent);
            let name = node.name();
            let mut number = |name, is_tried| {
                let before = beside.iter().filter(|(_, other, _)| *other == name).count();
                let this = (Arc::clone(&node.id), name, is_tried);
                beside.extend((extent == Extent::Own).then_some(this));
                1 + before
            };
            let nth = number(name, inside.is_some());
            let was = node.facts.was.iter().map(|name| (*name, number(name, false))).collect();
            node.id.put(Place { nth, depth, was });
            node.check(mistakes);
            match inside.map(|inside| (inside, extent, node.id.name.is_empty())) {
                Some((rest, Extent::Rest, _)) => rest.place(depth, beside, mistakes),
                // a group without a name has no part in keys
                Some((group, _, true)) => group.place(depth + 1, beside, mistakes),
                Some((inside, _, false)) => inside.complete(depth + 1, mistakes),
                None => {}
            }
        }
    }
}

fn template<S: Service, P>(nodes: &[Node<S, P>], is_recorded: bool) -> Template {
    Template::build(|steps| {
        nodes.iter().for_each(|node| Arc::clone(&node.work).add(steps, is_recorded));
    })
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

/// The name of a group without one, for the host of a request.
const GROUP: &str = "as one";

impl<S: Service, P> Node<S, P> {
    /// Its name, for the host of a request.
    fn name(&self) -> &'static str {
        if self.id.name.is_empty() { GROUP } else { self.id.name }
    }

    fn is_retired(&self) -> bool {
        self.facts.kind == Some(Kind::Retired)
    }

    /// The step as the host of a request knows it, inside of the one at this path, in this branch.
    fn defined(&self, around: (Vec<Part>, usize)) -> DefinedStep {
        let facts = &self.facts;
        let form = if facts.form == Form::Body {
            recorder::Form::Body
        } else if facts.form == Form::Repeat {
            recorder::Form::Loop
        } else {
            recorder::Form::Nested
        };
        let (_, nth) = self.id.numbered();
        let forms = (form, errors_of::<S>());
        let step = DefinedStep::new(around, Some((self.name(), nth)), self.id.source, forms);
        if let Some(kind) = facts.kind {
            step.set_kind(kind);
        }
        if let Some(Read(read)) = facts.read.clone() {
            step.set_read(Box::new(move |stored| read(stored)));
        }
        if facts.commits {
            step.set_commits();
        }
        if facts.undo.is_some() {
            step.set_can_be_undone();
        }
        if facts.form == Form::Each {
            step.set_has_items();
        }
        step
    }

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
            kind: None,
            commits: false,
            was: Vec::new(),
            read: None,
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
