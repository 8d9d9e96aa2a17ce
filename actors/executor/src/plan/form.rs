//! The kinds of steps and undos.

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Form {
    /// A body that is an async closure: [`run`](super::Steps::run), [`then`](super::Step::then).
    Body,
    /// Several steps as one: [`nested`](super::Steps::nested), or without a name
    /// [`as_one`](super::Step::as_one) and the options of a function as a whole.
    Group,
    /// A group whose normal end is final: [`scope`](super::Steps::scope).
    Scope,
    /// Branches at once: [`join`](super::Steps::join).
    Join,
    /// The same steps for each item: [`each`](super::Steps::each).
    Each,
    /// The same steps for each item, until some have their result: [`race`](super::Steps::race).
    Race,
    /// A loop: [`then_repeat`](super::Step::then_repeat).
    Repeat,
    /// Steps for some requests: [`when_some`](super::Steps::when_some).
    When,
    /// Ways of which a request takes one: [`either`](super::Step::either).
    Either,
    /// An end of the steps for some requests: [`or_end`](super::Step::or_end).
    OrEnd,
    /// Steps that are defined when a request reaches them: [`dynamic`](super::Step::dynamic).
    Dynamic,
    /// Steps as FTN12 has them, which are known when they run: [`asi`](super::Steps::asi).
    Asi,
    /// Nothing, in front of other steps: [`pass`](super::Steps::pass).
    Pass,
}

/// The arguments of an undo in addition to the outcome of its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UndoForm {
    /// The result: [`undo`](super::Step::undo).
    OfResult,
    /// The input of the step as well: [`undo_taking`](super::Step::undo_taking).
    OfInputAndResult,
}

/// What becomes of the durable request that a step has begun when that step is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildPolicy {
    /// It is cancelled unless it has ended, and its own undo ends before the steps in front are undone.
    Cancel,
    /// It goes on.
    Leave,
}

impl Form {
    /// The first steps inside take what such a step takes.
    pub(super) fn passes_inside(self) -> bool {
        matches!(self, Self::Group | Self::Scope | Self::Join)
    }

    /// The words for such a step in the text of a mistake.
    pub(super) fn words(self) -> &'static str {
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
