//! What the model knows of a line of execution, and how steps end.

use super::program::{self, Id, Leave};

/// The values that a step gives to the next one.
pub(crate) type Values = Vec<i64>;

/// How a step ended: with its result, or on its way out.
pub(crate) type Ran = Result<Values, Abort>;

#[derive(Clone, Debug)]
pub(crate) enum Abort {
    Error(Fault),
    Leave(Leave),
    /// Cancelled: from outside, or with the other branches.
    Stopped,
}

#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) code: String,
    pub(crate) info: Option<String>,
}

impl Fault {
    pub(crate) fn internal() -> Abort {
        Abort::Error(Self { code: "InternalError".to_owned(), info: None })
    }

    pub(crate) fn timeout() -> Abort {
        Abort::Error(Self { code: "Timeout".to_owned(), info: None })
    }

    pub(crate) fn raised(id: Id, info: program::Info) -> Abort {
        Abort::Error(Self { code: program::code(id), info: program::info(id, info) })
    }
}

/// One line of execution: the root or a branch.
pub(crate) struct Strand {
    /// The steps in progress, outermost first.
    pub(crate) frames: Vec<Frame>,
    /// The loops around, also those outside of the branch.
    pub(crate) loops: Vec<Option<program::Label>>,
    /// When it is cancelled.
    pub(crate) stop: u64,
    pub(crate) is_branch: bool,
    pub(crate) bodies: Vec<Alone>,
}

/// A shielded body whose step was ended before it.
#[derive(Clone)]
pub(crate) struct Alone {
    /// How many steps in progress it is inside of.
    pub(crate) depth: usize,
    pub(crate) end: u64,
    /// It keeps the lock of a step that has ended.
    pub(crate) keeps: bool,
}

/// What the body of a step in progress has set.
#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) limit: Option<u64>,
    /// The step has a cancel handler.
    pub(crate) cancel: Option<Id>,
    /// The step keeps a value.
    pub(crate) value: Option<Id>,
}

impl Strand {
    pub(crate) fn new(stop: u64) -> Self {
        Self { frames: Vec::new(), loops: Vec::new(), stop, is_branch: false, bodies: Vec::new() }
    }

    pub(crate) fn branch(&self, stop: u64) -> Self {
        Self { loops: self.loops.clone(), is_branch: true, ..Self::new(stop) }
    }

    pub(crate) fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a step is in progress")
    }

    /// The step on top ends: the bodies inside keep its lock, if it has one.
    pub(crate) fn leave_bodies(&mut self, has_lock: bool) {
        let depth = self.frames.len();
        for body in self.bodies.iter_mut().filter(|body| body.depth >= depth) {
            body.depth = depth - 1;
            body.keeps |= has_lock;
        }
    }

    /// A branch of the step on top has ended.
    pub(crate) fn take_bodies(&mut self, branch: Self) {
        let depth = self.frames.len();
        self.bodies.extend(branch.bodies.into_iter().map(|body| Alone { depth, ..body }));
    }

    /// When the last body has ended that keeps a lock.
    pub(crate) fn kept_until(&self) -> Option<u64> {
        self.bodies.iter().filter(|body| body.keeps).map(|body| body.end).max()
    }

    /// The time limit that expires first, and whose it is.
    pub(crate) fn next_limit(&self) -> Option<(u64, usize)> {
        let frames = self.frames.iter().enumerate();
        frames.filter_map(|(at, frame)| Some((frame.limit?, at))).min()
    }

    /// Results of the step that a branch consists of are against the rules.
    pub(crate) fn success(&self, values: &Values) -> Ran {
        if self.is_branch && self.frames.len() == 1 && !values.is_empty() {
            return Err(Fault::internal());
        }
        Ok(values.clone())
    }

    pub(crate) fn leave(&self, leave: Leave) -> Abort {
        let is_target = |label: &Option<_>| leave.label.is_none() || *label == leave.label;
        if self.loops.iter().any(is_target) { Abort::Leave(leave) } else { Fault::internal() }
    }
}
