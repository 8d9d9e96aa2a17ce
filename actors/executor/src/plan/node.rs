//! The plan of a function: a tree of steps that nothing changes once it is built.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use asyncsteps_core::{Args, Arguments, AsyncSteps, Error, StepResult, Template, TemplateSteps};

use super::around::Around;
use super::context::Context;
use super::facts::{Facts, StepFacts, StepView, Ways};
use super::form::Form;
use super::locks::Held;
use super::mistake::{Mistake, mistaken};
use super::of_request::OfRequest;
use super::place::{Place, StepId};
use super::recorded::RecordedLevel;
use super::taken::Taken;
use crate::recorder::{Kind, Part, StepRecorder, Sublevel};

/// A step of a plan.
pub(super) struct Node {
    step: Arc<StepFacts>,
    pub(super) work: Arc<dyn Work>,
    /// The steps inside, if it has sub-steps that are known.
    pub(super) inside: Option<Arc<Level>>,
}

/// The work of a step when a request comes to it.
pub(super) trait Work: Send + Sync {
    /// Adds the step to a template, where it takes the result of the step before it; for requests that a host records, or
    /// for others.
    fn add(self: Arc<Self>, steps: &mut TemplateSteps, is_recorded: bool);

    /// The locks and limiters that the step holds, which took this.
    fn held(&self, cx: &Context, taken: Option<&Taken>) -> Result<Held, Error>;

    /// Adds the undo of the step to the running one, which took `taken`, if it has one and is a body; `result` is its
    /// recorded result.
    fn undo(
        self: Arc<Self>,
        asi: &mut AsyncSteps,
        cx: Context,
        taken: Option<&Taken>,
        result: Option<Args>,
    ) -> StepResult {
        let _ = (asi, cx, taken, result);
        Ok(())
    }

    /// The steps inside, if they follow from the input of the step.
    fn define(&self, cx: &Context, taken: Option<&Taken>) -> Result<Option<Arc<Level>>, Error> {
        let _ = (cx, taken);
        Ok(None)
    }
}

/// Steps that are defined together: the steps of a function, or of a step with sub-steps.
pub(super) struct Level {
    ways: Vec<Way>,
    /// The steps of each way, as the host of a request sees them.
    steps: Ways,
    extent: Extent,
    /// How deep steps are nested in it.
    depth: usize,
    pub(super) has_undo: bool,
    /// A step in it can be undone when all have ended.
    pub(super) keeps_undo: bool,
    /// A step in it waits for a signal.
    pub(super) takes_signals: bool,
}

/// The relation of steps that are defined together to the level around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// They are a level of their own.
    Own,
    /// It goes on in them.
    Rest,
    /// They are all of it.
    Whole,
}

/// The steps of a level so far.
#[derive(Default)]
struct Beside {
    steps: Vec<Arc<StepId>>,
    /// How many there are of each name, with the names that they had before.
    numbers: HashMap<&'static str, usize>,
    /// The names of steps of which paths name the attempts.
    tried: HashSet<&'static str>,
}

/// How deep steps can be nested. Each early end nests the steps behind it, and plans are built, drawn and dropped by
/// recursion.
const MOST_DEPTH: usize = 200;

/// Steps one after the other: all of a level, or a branch of it.
struct Way {
    nodes: Vec<Node>,
    template: Template,
    /// For requests that a host records.
    recorded: OnceLock<Template>,
}

impl Level {
    /// Steps one after the other.
    pub(super) fn of(nodes: Vec<Node>) -> Arc<Self> {
        Self::of_ways(vec![nodes])
    }

    /// Branches, or ways of which one is taken.
    pub(super) fn of_ways(ways: Vec<Vec<Node>>) -> Arc<Self> {
        Arc::new(Self::new(ways, Extent::Own))
    }

    /// Steps with which the level around them goes on.
    pub(super) fn rest(nodes: Vec<Node>) -> Arc<Self> {
        Arc::new(Self::new(vec![nodes], Extent::Rest))
    }

    /// All steps of the level around them, of which something is said.
    pub(super) fn whole(nodes: Vec<Node>) -> Arc<Self> {
        Arc::new(Self::new(vec![nodes], Extent::Whole))
    }

    fn new(ways: Vec<Vec<Node>>, extent: Extent) -> Self {
        let has_undo = ways.iter().flatten().any(Node::has_undo);
        let keeps_undo = ways.iter().flatten().any(Node::keeps_undo);
        let takes_signals = ways.iter().flatten().any(Node::takes_signals);
        let depth = depth_of(ways.iter().flatten());
        let way = |nodes: Vec<Node>| {
            let template = template(&nodes, false);
            Way { nodes, template, recorded: OnceLock::new() }
        };
        let steps = ways.iter().map(|nodes| views(nodes)).collect();
        let ways = ways.into_iter().map(way).collect();
        Self { ways, steps, extent, depth, has_undo, keeps_undo, takes_signals }
    }

    /// Makes the running step run the steps with this value in these surroundings, which end with them.
    pub(super) fn enter<A: 'static>(
        &self,
        asi: &mut AsyncSteps,
        around: Rc<Around>,
        value: A,
    ) -> StepResult {
        self.enter_way(0, asi, around, value)
    }

    /// Makes the running step run the steps of one way.
    pub(super) fn enter_way<A: 'static>(
        &self,
        way: usize,
        asi: &mut AsyncSteps,
        around: Rc<Around>,
        value: A,
    ) -> StepResult {
        let level = around.recorded.as_ref().filter(|_| self.extent == Extent::Own).cloned();
        self.enter_branch(way, asi, around, value);
        if let Some(level) = level {
            asi.add_inner(move |asi, result: Args| {
                level.ended(false)?;
                asi.success(result)
            });
        }
        Ok(())
    }

    /// Makes the running step run the steps of one of several branches.
    pub(super) fn enter_branch<A: 'static>(
        &self,
        way: usize,
        asi: &mut AsyncSteps,
        around: Rc<Around>,
        value: A,
    ) {
        self.enter_args(way, asi, around, (value,).into_args());
    }

    /// Makes the running step run the steps of a way, the first of which takes these arguments.
    pub(super) fn enter_args(
        &self,
        way: usize,
        asi: &mut AsyncSteps,
        around: Rc<Around>,
        args: Args,
    ) {
        let is_recorded = around.request.host.is_some();
        asi.surround(around);
        self.copy_way(way, is_recorded, asi, args);
    }

    /// Makes the running step go on with the steps, in its own surroundings.
    pub(super) fn go_on<A: 'static>(
        &self,
        asi: &mut AsyncSteps,
        cx: &Context,
        value: A,
    ) -> StepResult {
        self.copy_way(0, cx.host().is_some(), asi, (value,).into_args());
        Ok(())
    }

    /// Adds the steps of a way to the running step, the first of which takes these arguments.
    fn copy_way(&self, way: usize, is_recorded: bool, asi: &mut AsyncSteps, args: Args) {
        let runs = |node: &Node| !node.is_retired();
        match self.ways.get(way).filter(|way| way.nodes.iter().any(runs)) {
            Some(way) if is_recorded => {
                let template = way.recorded.get_or_init(|| template(&way.nodes, true));
                asi.copy_with(template, args);
            }
            Some(way) => asi.copy_with(&way.template, args),
            // steps may be added behind it, so that it is one
            None => drop(asi.add_inner(move |asi, ()| asi.success(args))),
        }
    }

    /// Makes the running step, which is inside the step with this context, run the steps of an iteration or an item
    /// with this value: in a step of their own, so that the host of the request is notified that the whole attempt
    /// fails before anything inside is undone.
    pub(super) fn enter_inside<A: 'static>(
        self: &Arc<Self>,
        asi: &mut AsyncSteps,
        cx: &Context,
        (part, value): (Part, A),
    ) -> StepResult {
        let Some(step) = cx.recorded() else {
            return self.enter(asi, self.inside(cx, None, Some(part))?, value);
        };
        let (level, of_step, source) = (Arc::clone(self), cx.clone(), cx.source());
        let name = match part {
            Part::Iteration(_) => "iteration",
            Part::Item(_) | Part::Key(_) => "item",
        };
        let body = move |asi: &mut AsyncSteps, ()| {
            level.enter(asi, level.inside(&of_step, None, Some(part))?, value)
        };
        let memory = step.inside_attempt(cx.attempt());
        asi.add(body).remembered(memory).named(name).located_at(source);
        Ok(())
    }

    /// The surroundings of the steps in an attempt of this step, or in an iteration or an item in it: of all ways or of
    /// one. The host of the request is notified that they begin.
    pub(super) fn inside(
        &self,
        cx: &Context,
        way: Option<usize>,
        part: Option<Part>,
    ) -> Result<Rc<Around>, Error> {
        self.around(cx, way, part, true)
    }

    /// [`inside`](Self::inside), where the steps begin or are only to be undone.
    pub(super) fn around(
        &self,
        cx: &Context,
        way: Option<usize>,
        part: Option<Part>,
        begins: bool,
    ) -> Result<Rc<Around>, Error> {
        // a step that the host does not know has no steps of its own
        let recorded = cx.recorded().map(|step| {
            let at = Sublevel { attempt: cx.attempt(), part: part.clone() };
            let ways = way.and_then(|way| self.steps.get(way..=way)).unwrap_or(&self.steps);
            RecordedLevel::new(step, at, ways, begins)
        });
        Ok(cx.inside(self.has_undo, part, recorded.transpose()?))
    }

    /// The surroundings of the steps of a function that a host records.
    pub(super) fn of_function(
        &self,
        request: &Rc<OfRequest>,
        function: &Rc<dyn StepRecorder>,
        begins: bool,
    ) -> Result<Rc<Around>, Error> {
        let recorded = RecordedLevel::new(function, Sublevel::of(1), &self.steps, begins)?;
        Ok(Around::of_function(Rc::clone(request), Some(recorded)))
    }

    /// The steps of each way, as the host of a request sees them.
    pub(super) fn steps(&self) -> &Ways {
        &self.steps
    }

    /// Its steps are a level of their own.
    pub(super) fn is_own(&self) -> bool {
        self.extent == Extent::Own
    }

    /// The level around goes on in it.
    pub(super) fn is_rest(&self) -> bool {
        self.extent == Extent::Rest
    }

    /// The steps of one of several branches or ways.
    pub(super) fn way(&self, way: usize) -> &[Node] {
        self.ways.get(way).map_or(&[], |way| &way.nodes)
    }

    /// Branches or ways, each with its steps.
    pub(super) fn each_way(&self) -> impl Iterator<Item = &[Node]> {
        self.ways.iter().map(|way| &*way.nodes)
    }

    /// How many branches or ways there are.
    pub(super) fn ways(&self) -> usize {
        self.ways.len()
    }

    /// All steps, each with the number of its branch or way.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        let ways = self.ways.iter().enumerate();
        ways.flat_map(|(number, way)| way.nodes.iter().map(move |node| (number, node)))
    }

    /// The steps, each with its way and its number in it.
    pub(super) fn placed(&self) -> impl Iterator<Item = ((usize, usize), &Node)> {
        let ways = self.ways.iter().enumerate();
        ways.flat_map(|(number, way)| {
            way.nodes.iter().enumerate().map(move |(at, node)| ((number, at), node))
        })
    }

    /// Sets the place of all steps inside, and collects mistakes. `retried` is the innermost step around them that is tried
    /// again.
    pub(super) fn complete(&self, retried: Option<&'static str>, mistakes: &mut Vec<Mistake>) {
        let mut beside = Beside::default();
        self.place(retried, &mut beside, mistakes);
        for id in &beside.steps {
            let Some(step) = id.attempted() else { continue };
            let what = match beside.tried.contains(step) {
                _ if step.is_empty() => "steps as one".to_owned(),
                true => format!("`{step}`"),
                false => continue,
            };
            let what = format!("the name `{}` is that of an attempt of {what} in paths", id.name);
            mistakes.push(Mistake { source: id.source, what });
        }
    }

    /// `beside` are the steps of this level so far.
    fn place(
        &self,
        retried: Option<&'static str>,
        beside: &mut Beside,
        mistakes: &mut Vec<Mistake>,
    ) {
        for (_, node) in self.nodes() {
            let retried = node.facts.retry.as_ref().map(|_| node.name()).or(retried);
            let inside = node.inside.as_ref();
            let extent = inside.map_or(Extent::Own, |inside| inside.extent);
            let is_own = extent == Extent::Own;
            let mut number = |name| {
                let before = beside.numbers.entry(name).or_default();
                *before += usize::from(is_own);
                *before + usize::from(!is_own)
            };
            let nth = number(node.name());
            let was = node.facts.was.iter().map(|name| (*name, number(name))).collect();
            if is_own {
                beside.steps.push(Arc::clone(&node.id));
                beside.tried.extend(inside.is_some().then(|| node.name()));
            }
            node.id.put(Place { nth, retried, was });
            node.check(mistakes);
            match inside {
                // a group without a name has no part in keys
                Some(inside) if inside.is_rest() || node.id.name.is_empty() => {
                    inside.place(retried, beside, mistakes);
                }
                Some(inside) => inside.complete(retried, mistakes),
                None => {}
            }
        }
    }
}

/// The steps of a way, as the host of a request sees them; a step that has the rest or all of its level inside is
/// replaced by its sub-steps.
fn views(nodes: &[Node]) -> Vec<StepView> {
    let mut views = Vec::with_capacity(nodes.len());
    for node in nodes {
        match node.inside.as_ref().filter(|inside| inside.extent != Extent::Own) {
            Some(inside) => views.extend(inside.steps.iter().flatten().map(|view| StepView {
                is_behind_end: view.is_behind_end || inside.is_rest(),
                ..view.clone()
            })),
            None => views.push(StepView { step: Arc::clone(&node.step), is_behind_end: false }),
        }
    }
    views
}

/// How deep steps are nested in a level of these.
fn depth_of<'a>(nodes: impl Iterator<Item = &'a Node>) -> usize {
    let depths = nodes.filter_map(|node| Some((node, 1 + node.inside.as_ref()?.depth)));
    let Some((deepest, depth)) = depths.max_by_key(|(_, depth)| *depth) else { return 0 };
    if depth > MOST_DEPTH {
        let what = format!(
            "the steps are nested more than {MOST_DEPTH} deep, where each early end nests the steps behind it"
        );
        mistaken(deepest.id.source, &what);
    }
    depth
}

fn template(nodes: &[Node], is_recorded: bool) -> Template {
    Template::build(|steps| {
        nodes.iter().for_each(|node| Arc::clone(&node.work).add(steps, is_recorded));
    })
}

/// The separators between names in a path.
const NOT_IN_NAMES: [char; 4] = ['/', '#', '~', '?'];

impl Deref for Node {
    type Target = StepFacts;

    fn deref(&self) -> &StepFacts {
        &self.step
    }
}

impl Node {
    pub(super) fn new(
        id: Arc<StepId>,
        facts: Facts,
        work: Arc<dyn Work>,
        inside: Option<Arc<Level>>,
    ) -> Self {
        let ways = inside.as_ref().map_or_else(|| [].into(), |inside| Arc::clone(&inside.steps));
        Self { step: Arc::new(StepFacts { id, facts, ways }), work, inside }
    }

    pub(super) fn is_retired(&self) -> bool {
        self.facts.kind == Some(Kind::Retired)
    }

    /// It has the steps behind an answer inside.
    pub(super) fn is_answered(&self) -> bool {
        let has_rest = self.inside.as_ref().is_some_and(|inside| inside.is_rest());
        has_rest && self.facts.form == Form::Group
    }

    pub(super) fn has_undo(&self) -> bool {
        self.facts.undo.is_some() || self.inside.as_ref().is_some_and(|inside| inside.has_undo)
    }

    fn keeps_undo(&self) -> bool {
        // the steps inside of a dynamic step are not known before
        let is_dynamic = self.facts.form == Form::Dynamic;
        let inside = self.inside.as_ref().filter(|_| self.facts.form != Form::Scope);
        self.facts.undo.is_some() || is_dynamic || inside.is_some_and(|inside| inside.keeps_undo)
    }

    fn takes_signals(&self) -> bool {
        // the steps inside of a dynamic step are not known before
        let is_dynamic = self.facts.form == Form::Dynamic;
        let is_inside = self.inside.as_ref().is_some_and(|inside| inside.takes_signals);
        self.facts.senders.is_some() || is_dynamic || is_inside
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
        let (first, least) = (self.facts.first.unwrap_or(1), self.facts.at_least.unwrap_or(0));
        if least > first {
            found(format!("`{name}` needs {least} winners, and ends with the first {first}"));
        }
        if let Some(retried) = self.id.retried().filter(|_| self.facts.senders.is_some()) {
            found(format!(
                "`{name}` waits for a signal where `{retried}` says `retry`: an attempt takes the signal, and the next one \
                 waits for ever. Wait in front of `{retried}`; where each attempt needs a signal of its own, use \
                 `then_repeat`"
            ));
        }
        for word in &self.facts.misplaced {
            found(format!("`{word}` cannot be said of `{name}`, {}", self.facts.form.words()));
        }
    }
}
