//! The outcome of a step, for its undo (FTN12 §1.2, §1.3).

/// The outcome of the body of a step that is undone, see [`Added::undo`](crate::Added::undo)
/// (FTN12 §1.2, §1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a body that is undone has succeeded, or its outcome is unknown"
)]
pub enum Undo<T> {
    /// It succeeded, with this result.
    Done(T),
    /// It was begun and cut: by a time limit, a cancel, a failed branch or a panic. It may have had
    /// its effect or not, or have it later.
    Unknown,
}
