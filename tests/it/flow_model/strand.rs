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
        Self { frames: Vec::new(), loops: Vec::new(), stop, is_branch: false }
    }

    pub(crate) fn branch(&self, stop: u64) -> Self {
        Self { loops: self.loops.clone(), is_branch: true, ..Self::new(stop) }
    }

    pub(crate) fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a step is in progress")
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
