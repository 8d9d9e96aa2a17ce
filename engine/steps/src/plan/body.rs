//! What a step with policies does in the end, and what it may hold meanwhile.

use std::rc::Rc;

use crate::args::Args;
use crate::error::StepResult;
use crate::stack::{AsyncSteps, Repeat, Work};
use crate::sync::{ISync, Section};

/// What a step with policies does in the end.
pub(crate) enum Body {
    Once(Box<dyn Work>),
    Again(Rc<dyn Repeat>),
}

impl Body {
    pub(super) fn start(self, asi: &mut AsyncSteps, args: Args) -> StepResult {
        match self {
            Self::Once(work) => work.start(asi, args),
            Self::Again(repeat) => repeat.start(asi, args),
        }
    }
}

/// Runs `body` while the step holds `object`, if there is one.
pub(super) fn within<F>(
    object: Option<&dyn ISync>,
    asi: &mut AsyncSteps,
    args: Args,
    body: F,
) -> StepResult
where
    F: FnOnce(&mut AsyncSteps, Args) -> StepResult + 'static,
{
    match object {
        Some(object) => {
            let section = Section::inner(asi, args, body);
            object.sync(asi, section)
        }
        None => body(asi, args),
    }
}
