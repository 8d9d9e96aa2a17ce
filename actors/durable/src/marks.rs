//! The marks in the paths of records: where the ends of steps are recorded, and what is inside of what.

use asyncsteps_journal::Path;

/// The mark of the record of the normal end of a scope.
const CLOSED: &str = "closed";

/// The marks of the parts that are inside of the attempt of a step before them: not the marks of
/// another attempt, or of an undo.
pub(crate) const INSIDE: [char; 3] = ['/', '#', '@'];

/// Whether it is this step, an attempt of it, or inside of one: not another step of the same name.
pub(crate) fn is_part_of(path: &Path, outer: &Path) -> bool {
    path == outer
        || path.is_within(outer) && !path.as_str()[outer.as_str().len()..].starts_with('|')
}

/// The mark of the record of the normal end of sub-steps within a time limit.
const ENDED: &str = "ended";

/// Where it is recorded that the sub-steps at this path ended normally.
pub(crate) fn end_of(level: &Path) -> Path {
    level.branch(ENDED)
}

/// The sub-steps whose normal end is recorded at this path.
pub(crate) fn ended_by(path: &Path) -> Option<Path> {
    path.as_str().strip_suffix(ENDED)?.strip_suffix('|')?.parse().ok()
}

/// Where it is recorded that the scope at this path ended normally.
pub(crate) fn closing_of(scope: &Path) -> Path {
    scope.branch(CLOSED)
}

/// The scope whose normal end is recorded at this path.
pub(crate) fn closed_by(path: &Path) -> Option<Path> {
    path.as_str().strip_suffix(CLOSED)?.strip_suffix('|')?.parse().ok()
}

/// The mark of the record of a step that commits.
const COMMITTED: &str = "committed";

/// Where it is recorded that the step at this path has begun to commit the request.
pub(crate) fn commit_of(step: &Path) -> Path {
    step.branch(COMMITTED)
}

/// The step whose commit is recorded at this path.
pub(crate) fn committed_by(path: &Path) -> Option<Path> {
    path.as_str().strip_suffix(COMMITTED)?.strip_suffix('|')?.parse().ok()
}

/// The step of an attempt, and the number of that.
pub(crate) fn attempt_of(attempt: &Path) -> (Path, u32) {
    let text = attempt.as_str();
    let numbered = text
        .rfind('!')
        .and_then(|at| Some((text[..at].parse().ok()?, text[at + 1..].parse().ok()?)));
    numbered.unwrap_or_else(|| (attempt.clone(), 1))
}

/// In which iteration of a loop a path is.
pub(crate) fn iteration_of(path: &Path, inner: &Path) -> Option<u64> {
    let rest = inner.as_str().get(path.as_str().len()..)?.strip_prefix('#')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}
