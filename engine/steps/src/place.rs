//! Where a step was added: its name, if it has one, and its place in the source.

use std::fmt;
use std::panic::Location;

/// The source place of a step and its optional name.
///
/// Every `add` records its caller, so stacks, violations and traces can say which step is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    location: &'static Location<'static>,
    name: Option<&'static str>,
}

impl Place {
    #[track_caller]
    pub(crate) fn here() -> Self {
        Self { location: Location::caller(), name: None }
    }

    pub(crate) const fn at(location: &'static Location<'static>) -> Self {
        Self { location, name: None }
    }

    pub(crate) const fn with_name(self, name: &'static str) -> Self {
        self.with(Some(name))
    }

    pub(crate) const fn with(self, name: Option<&'static str>) -> Self {
        Self { name, ..self }
    }

    pub(crate) const fn location(self) -> &'static Location<'static> {
        self.location
    }

    /// The name given with `named`, if any.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.name
    }

    /// The source file in which the step was added.
    #[must_use]
    pub fn file(self) -> &'static str {
        self.location.file()
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(self) -> u32 {
        self.location.line()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name {
            write!(f, "`{name}` ")?;
        }
        write!(f, "at {}:{}", self.file(), self.line())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
