//! Where a step was added: its place in the source and its name, if it has one.

use std::fmt;
use std::panic::Location;

/// The source location of a step and its optional name.
///
/// Every `add` records its caller, so that stacks, violations and traces say which step is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StepLocation {
    source: &'static Location<'static>,
    name: Option<&'static str>,
}

impl StepLocation {
    /// The location of the caller.
    #[track_caller]
    #[inline]
    pub(crate) fn here() -> Self {
        Self { source: Location::caller(), name: None }
    }

    #[inline]
    pub(crate) const fn new(
        source: &'static Location<'static>,
        name: Option<&'static str>,
    ) -> Self {
        Self { source, name }
    }

    /// The same location under a name.
    pub(crate) const fn named(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    /// The place in the source where the step was added.
    #[must_use]
    #[inline]
    pub const fn source(self) -> &'static Location<'static> {
        self.source
    }

    /// The name set with `named`, if any.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.name
    }

    /// The source file in which the step was added.
    #[must_use]
    pub fn file(self) -> &'static str {
        self.source.file()
    }

    /// The line in the source file, from 1.
    #[must_use]
    pub fn line(self) -> u32 {
        self.source.line()
    }
}

impl fmt::Display for StepLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name {
            write!(f, "`{name}` ")?;
        }
        write!(f, "at {}:{}", self.file(), self.line())
    }
}

impl fmt::Debug for StepLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
