//! Random programs: what the steps of a flow do, as data that both sides interpret.

use std::mem;

/// Names a step, or a moment of it, in its program; from 1 up, below [`PERIOD`].
pub(crate) type Id = u64;

/// Events of a step only happen at times that are congruent to its name, so that no two steps
/// meet at the same time: then every trace is the only correct one.
pub(crate) const PERIOD: u64 = 4096;

/// When flows are cancelled that still wait: later than anything else happens.
pub(crate) const NEVER: u64 = 1 << 50;

/// The name of the cancel from outside.
const CANCEL: Id = PERIOD - 1;

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Node>,
    /// Cancels the flow after so many periods.
    pub(crate) cancel: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Step(Step),
    /// A critical section; each branch has a mutex of its own, so that no branch ever waits.
    Sync(Step),
    Parallel {
        branches: Vec<Step>,
        handler: Option<Handler>,
    },
    Loop(Loop),
    /// `success_step`
    Result(Vec<i64>),
    Await {
        wait: Wait,
        handler: Option<Handler>,
    },
    /// The same as a body that nothing outside ends.
    Shielded {
        wait: Wait,
        handler: Option<Handler>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) id: Id,
    pub(crate) takes: Takes,
    pub(crate) body: Body,
    pub(crate) handler: Option<Handler>,
}

/// What a step declares as its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    Anything,
    Nothing,
    One,
    Two,
}

/// What a body does first, and how it ends.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) limit: Option<Pause>,
    pub(crate) cancel: bool,
    /// Keeps a value that tells when it is dropped.
    pub(crate) value: bool,
    /// Adds its name to a state variable.
    pub(crate) count: bool,
    pub(crate) end: End,
}

/// A length of time: so many whole periods, then up to the time of its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    pub(crate) id: Id,
    pub(crate) periods: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum End {
    Return,
    Success(Vec<i64>),
    Error(Info),
    Panic,
    Leave(Leave),
    /// `wait_external`
    Wait(Wait),
    /// `wait_until`
    Until(Pause),
    Steps(Vec<Node>),
    /// Against the rules, but for a further step: something after adding steps.
    StepsAnd(Vec<Node>, Late),
    /// Against the rules: something after success.
    SuccessAnd(Late),
}

/// Whether an error has information.
pub(crate) type Info = bool;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Late {
    Success,
    Error,
    Add,
    Leave(Leave),
}

/// The end of a loop or of an iteration, of the innermost loop if there is no label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave {
    pub(crate) again: bool,
    pub(crate) label: Option<Label>,
}

pub(crate) type Label = &'static str;

/// A completion from outside.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) pause: Pause,
    pub(crate) result: Outside,
}

#[derive(Clone, Debug)]
pub(crate) enum Outside {
    Success(Vec<i64>),
    Error(Info),
    /// Everybody who could complete the step forgets it.
    Abandoned,
}

#[derive(Clone, Debug)]
pub(crate) struct Handler {
    pub(crate) id: Id,
    pub(crate) end: Decision,
}

#[derive(Clone, Debug)]
pub(crate) enum Decision {
    Silent,
    Success(Vec<i64>),
    Error(Info),
    Steps(Vec<Node>),
    Leave(Leave),
    Panic,
    /// Against the rules.
    Wait,
    /// Against the rules.
    StepsAndSuccess,
}

#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) id: Id,
    pub(crate) label: Option<Label>,
    pub(crate) kind: Kind,
    pub(crate) count: usize,
    pub(crate) body: Body,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Repeat,
    ForEach,
    /// Without an end of its own: its body breaks it after `count` iterations.
    Endless,
}

impl Pause {
    /// When a pause that begins now is over.
    pub(crate) fn end(self, now: u64) -> u64 {
        let offset = (self.id + PERIOD - now % PERIOD) % PERIOD;
        let next = if offset == 0 { PERIOD } else { offset };
        now + next + self.periods * PERIOD
    }
}

impl Takes {
    /// How many values there must be at least.
    pub(crate) fn least(self) -> usize {
        match self {
            Self::Anything | Self::Nothing => 0,
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// The values as the step sees them.
    pub(crate) fn shown(self, values: &[i64]) -> String {
        match self {
            Self::Anything => format!("{values:?}"),
            Self::Nothing => format!("{:?}", &values[..0]),
            Self::One => format!("{:?}", &values[..1]),
            Self::Two => format!("{:?}", &values[..2]),
        }
    }
}

impl Program {
    /// When the flow is cancelled from outside.
    pub(crate) fn cancelled_at(&self) -> u64 {
        self.cancel.map_or(NEVER, |periods| Pause { id: CANCEL, periods }.end(0))
    }

    /// Gives every step a name of its own.
    pub(crate) fn numbered(mut self) -> Self {
        let mut names = Names(0);
        names.nodes(&mut self.steps);
        assert!(names.0 < CANCEL, "a program with too many steps");
        self
    }
}

/// Gives out names, in the order of the text.
struct Names(Id);

impl Names {
    fn name(&mut self, id: &mut Id) {
        self.0 += 1;
        *id = self.0;
    }

    fn nodes(&mut self, nodes: &mut [Node]) {
        for node in nodes {
            match node {
                Node::Step(step) | Node::Sync(step) => self.step(step),
                Node::Parallel { branches, handler } => {
                    branches.iter_mut().for_each(|branch| self.step(branch));
                    self.handler(handler);
                }
                Node::Loop(looped) => {
                    self.name(&mut looped.id);
                    self.body(&mut looped.body);
                }
                Node::Result(_) => {}
                Node::Await { wait, handler } | Node::Shielded { wait, handler } => {
                    self.name(&mut wait.pause.id);
                    self.handler(handler);
                }
            }
        }
    }

    fn step(&mut self, step: &mut Step) {
        self.name(&mut step.id);
        self.body(&mut step.body);
        self.handler(&mut step.handler);
    }

    fn body(&mut self, body: &mut Body) {
        if let Some(limit) = &mut body.limit {
            self.name(&mut limit.id);
        }
        match &mut body.end {
            End::Steps(nodes) | End::StepsAnd(nodes, _) => self.nodes(nodes),
            End::Wait(Wait { pause, .. }) | End::Until(pause) => self.name(&mut pause.id),
            End::Return
            | End::Success(_)
            | End::Error(_)
            | End::Panic
            | End::Leave(_)
            | End::SuccessAnd(_) => {}
        }
    }

    fn handler(&mut self, handler: &mut Option<Handler>) {
        let Some(handler) = handler else { return };
        self.name(&mut handler.id);
        if let Decision::Steps(nodes) = &mut handler.end {
            self.nodes(nodes);
        }
    }
}

/// What a program did: the events with their times, how it ended and when, and its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) events: Vec<(u64, String)>,
    pub(crate) ending: String,
    pub(crate) ended_at: u64,
    pub(crate) counts: [i64; COUNTERS],
}

/// How many state variables programs count in.
pub(crate) const COUNTERS: usize = 3;

/// The state variable that a step counts in.
pub(crate) fn counter(id: Id) -> usize {
    usize::try_from(id).unwrap_or_default() % COUNTERS
}

/// The code of an error that this step or handler raises.
pub(crate) fn code(id: Id) -> String {
    format!("E{id}")
}

pub(crate) fn info(id: Id, with: Info) -> Option<String> {
    with.then(|| format!("i{id}"))
}

/// An error as traces show it: broken rules and panics by their code only.
pub(crate) fn shown(code: &str, info: Option<&str>) -> String {
    match info.filter(|_| code != asyncsteps_core::codes::INTERNAL_ERROR) {
        Some(info) => format!("{code}({info})"),
        None => code.to_owned(),
    }
}

impl Story {
    /// The events in the order of time.
    pub(crate) fn sorted(mut self) -> Self {
        let mut events = mem::take(&mut self.events);
        events.sort_by_key(|(at, _)| *at);
        Self { events, ..self }
    }
}
