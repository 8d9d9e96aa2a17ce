//! What tells the steps of a request apart in their idempotency keys.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::rc::Rc;

/// Steps that were defined together: those of the function, or of one attempt of a step with sub-steps.
#[derive(Default)]
pub(super) struct Siblings {
    around: Option<Around>,
    names: RefCell<Vec<&'static str>>,
}

/// One attempt of a step with sub-steps.
pub(super) struct Around {
    /// The steps beside it; `None` for those of the function.
    pub(super) siblings: Option<Rc<Siblings>>,
    pub(super) step: StepName,
    pub(super) attempt: u32,
    pub(super) undoes: Undoes,
}

/// Whether something inside of a step can be undone. Its attempts share this.
#[derive(Clone, Default)]
pub(super) struct Undoes(Rc<Cell<bool>>);

/// What tells a step from its siblings.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepName {
    pub(super) name: &'static str,
    /// The number of the step among its siblings of the same name, from 1.
    nth: usize,
}

impl Siblings {
    /// The steps that this attempt of a step defines.
    pub(super) fn inside(around: Around) -> Self {
        Self { around: Some(around), names: RefCell::default() }
    }

    /// Adds a step with this name.
    pub(super) fn add(&self, name: &'static str) -> StepName {
        let mut names = self.names.borrow_mut();
        names.push(name);
        StepName { name, nth: names.iter().filter(|other| **other == name).count() }
    }

    /// One of the steps can be undone.
    pub(super) fn can_be_undone(&self) {
        let mut next = self.around.as_ref();
        while let Some(around) = next {
            around.undoes.0.set(true);
            next = around.siblings.as_ref().and_then(|siblings| siblings.around.as_ref());
        }
    }

    /// Writes the steps around these, each with a slash behind it.
    pub(super) fn write_path(&self, key: &mut String) -> fmt::Result {
        let Some(Around { siblings, step, attempt, undoes }) = &self.around else { return Ok(()) };
        if let Some(siblings) = siblings {
            siblings.write_path(key)?;
        }
        step.write(key)?;
        if *attempt > 1 && undoes.0.get() {
            write!(key, ".{attempt}")?;
        }
        key.write_char('/')
    }
}

impl StepName {
    /// The only step of its name.
    pub(super) fn only(name: &'static str) -> Self {
        Self { name, nth: 1 }
    }

    pub(super) fn write(self, key: &mut String) -> fmt::Result {
        key.write_str(self.name)?;
        if self.nth > 1 { write!(key, "~{}", self.nth) } else { Ok(()) }
    }
}
