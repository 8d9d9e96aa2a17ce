//! What tells the steps of a request apart in their idempotency keys.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::rc::Rc;

use asyncsteps_core::replay::ReplayHooks;

use crate::recorder::{DefinedStep, Part, StepRecorder};

/// Steps that were defined together: those of the function, or of one attempt of a step with sub-steps.
#[derive(Default)]
pub(super) struct Siblings {
    around: Option<Around>,
    names: RefCell<Vec<&'static str>>,
    /// What the host remembers of the step around them, if it remembers the request.
    memory: Option<Rc<dyn StepRecorder>>,
    /// The steps, if the host remembers them.
    defined: RefCell<Vec<Rc<DefinedStep>>>,
    /// How many branches have begun, if they are those of branches.
    branch: Cell<usize>,
    /// Their normal end is final: they are not undone after it.
    is_final: Cell<bool>,
}

/// One attempt of a step with sub-steps, or one iteration in it.
pub(super) struct Around {
    /// The steps beside it; `None` for those of the function.
    pub(super) siblings: Option<Rc<Siblings>>,
    pub(super) step: StepName,
    pub(super) attempt: u32,
    pub(super) undoes: Undoes,
    pub(super) iteration: Option<Iteration>,
}

/// One iteration of a loop.
#[derive(Clone)]
pub(super) struct Iteration {
    pub(super) index: u64,
    /// Whether something in it can be undone after it ended.
    pub(super) undoes: Undoes,
}

/// Whether something inside of a step can be undone. Its attempts share this.
#[derive(Clone, Default)]
pub(super) struct Undoes(Rc<Cell<bool>>);

impl Undoes {
    pub(super) fn get(&self) -> bool {
        self.0.get()
    }
}

/// What tells a step from its siblings.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepName {
    pub(super) name: &'static str,
    /// The number of the step among its siblings of the same name, from 1.
    nth: usize,
}

/// One of several things that a step does.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Nth(usize),
    Key(Rc<str>),
}

impl Item {
    /// Writes it as a part of an idempotency key, which travels in headers.
    pub(super) fn write(&self, key: &mut String) -> fmt::Result {
        match self {
            Self::Nth(number) => write!(key, "#{number}"),
            Self::Key(text) => write_item(text, key),
        }
    }

    /// It as a host knows it.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Nth(number) => number.to_string().into(),
            Self::Key(text) => (&**text).into(),
        }
    }
}

impl Siblings {
    /// The steps that this attempt of a step defines.
    pub(super) fn inside(around: Around, memory: Option<Rc<dyn StepRecorder>>) -> Self {
        Self { around: Some(around), memory, ..Self::default() }
    }

    /// The steps of a function, whose host remembers them.
    pub(super) fn of_function(memory: Option<Rc<dyn StepRecorder>>) -> Self {
        Self { memory, ..Self::default() }
    }

    /// What the host remembers of the step around them.
    pub(super) fn memory(&self) -> Option<&Rc<dyn StepRecorder>> {
        self.memory.as_ref()
    }

    /// The host remembers this step.
    pub(super) fn define(&self, step: Rc<DefinedStep>) {
        self.defined.borrow_mut().push(step);
    }

    /// The steps that are defined from now on are those of a further branch.
    pub(super) fn begin_branch(&self) {
        self.branch.set(self.branch() + 1);
    }

    /// The branch of the steps that are defined now.
    pub(super) fn branch(&self) -> usize {
        self.branch.get()
    }

    /// Their normal end is final.
    pub(super) fn set_final(&self) {
        self.is_final.set(true);
    }

    /// Tells the host the steps that an attempt of the step around them has defined.
    pub(super) fn check_defined(&self) -> Result<(), asyncsteps_core::Error> {
        let Some(memory) = &self.memory else { return Ok(()) };
        memory.defined(self.attempt(), &self.path(), &self.defined.borrow())
    }

    /// Notifies the host that they ended normally.
    pub(super) fn ended(&self) {
        if let Some(memory) = &self.memory {
            memory.ended(&self.path(), self.is_final.get());
        }
    }

    /// What the host remembers of steps between the one around them and these.
    pub(super) fn memory_inside(&self) -> Option<Rc<dyn ReplayHooks>> {
        Some(self.memory.as_ref()?.inside(self.attempt(), &self.path()))
    }

    /// The attempt of the step around them.
    fn attempt(&self) -> u32 {
        self.around.as_ref().map_or(1, |around| around.attempt)
    }

    /// Where they are.
    pub(super) fn path(&self) -> Vec<Part> {
        let Some(around) = &self.around else { return Vec::new() };
        let Around { siblings, step, attempt, iteration, .. } = around;
        let mut path = siblings.as_ref().map_or_else(Vec::new, |siblings| siblings.path());
        step.add_to(&mut path);
        path.extend((*attempt > 1).then_some(Part::Attempt(*attempt)));
        path.extend(iteration.as_ref().map(|iteration| Part::Iteration(iteration.index)));
        path
    }

    /// The step that was added last has this name instead.
    pub(super) fn rename(&self, name: &'static str) -> StepName {
        self.names.borrow_mut().pop();
        self.add(name)
    }

    /// Adds a step with this name.
    pub(super) fn add(&self, name: &'static str) -> StepName {
        let mut names = self.names.borrow_mut();
        names.push(name);
        StepName { name, nth: names.iter().filter(|other| **other == name).count() }
    }

    /// One of the steps can be undone.
    pub(super) fn can_be_undone(&self) {
        self.have_undo();
        let (mut level, mut outlives) = (Some(self), true);
        while let Some(Self { around: Some(around), is_final, .. }) = level {
            outlives &= !is_final.get();
            if let Some(iteration) = around.iteration.as_ref().filter(|_| outlives) {
                iteration.undoes.0.set(true);
            }
            level = around.siblings.as_deref();
        }
    }

    /// One of the steps has an undo: what is around them has new keys in each attempt.
    pub(super) fn have_undo(&self) {
        let mut level = Some(self);
        while let Some(Self { around: Some(around), .. }) = level {
            around.undoes.0.set(true);
            level = around.siblings.as_deref();
        }
    }

    /// Writes the steps around these, each with a slash behind it.
    pub(super) fn write_path(&self, key: &mut String) -> fmt::Result {
        let Some(around) = &self.around else { return Ok(()) };
        let Around { siblings, step, attempt, undoes, iteration } = around;
        if let Some(siblings) = siblings {
            siblings.write_path(key)?;
        }
        step.write(key)?;
        if *attempt > 1 && undoes.0.get() {
            write!(key, ".{attempt}")?;
        }
        if let Some(Iteration { index, .. }) = iteration {
            write!(key, "#{index}")?;
        }
        key.write_char('/')
    }
}

impl StepName {
    /// The only step of its name.
    pub(super) fn only(name: &'static str) -> Self {
        Self { name, nth: 1 }
    }

    /// The step of this name that has this number among its siblings of the same name.
    pub(super) fn nth((name, nth): (&'static str, usize)) -> Self {
        Self { name, nth }
    }

    /// Its name, and its number among its siblings of that name.
    pub(super) fn numbered(self) -> (&'static str, usize) {
        (self.name, self.nth)
    }

    pub(super) fn add_to(self, path: &mut Vec<Part>) {
        path.push(Part::Step(self.name));
        path.extend((self.nth > 1).then_some(Part::Nth(self.nth)));
    }

    pub(super) fn write(self, key: &mut String) -> fmt::Result {
        key.write_str(self.name)?;
        if self.nth > 1 { write!(key, "~{}", self.nth) } else { Ok(()) }
    }
}

/// Writes the key of an item as a part of an idempotency key, which travels in headers.
pub(crate) fn write_item(item: &str, key: &mut String) -> fmt::Result {
    key.push('#');
    item.bytes().try_for_each(|byte| match byte {
        b'%' => key.write_str("%25"),
        byte if byte.is_ascii_graphic() => key.write_char(char::from(byte)),
        byte => write!(key, "%{byte:02X}"),
    })
}
