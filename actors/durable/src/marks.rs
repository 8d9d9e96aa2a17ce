//! The marks in the paths of records: where the ends of steps are recorded, and what is inside of what.

use asyncsteps_journal::Path;

/// The branch of a scope at which its normal end is recorded.
pub(crate) const CLOSED: &str = "closed";

/// The branch of sub-steps within a time limit at which their normal end is recorded.
pub(crate) const ENDED: &str = "ended";

/// The branch of a step at which it is recorded that it commits the request.
pub(crate) const COMMITTED: &str = "committed";

/// The branch of a step at which the request that it begins is named, before that is stored.
pub(crate) const CHILD: &str = "child";

/// The name of the signal which says that a request has ended for which the flow waits, and how the keys of children begin:
/// names of steps and keys of people have no such character.
pub(crate) const HAS_ENDED: &str = "\u{1}ended";

/// The branch of a request at which it is recorded that its deadline has passed.
pub(crate) const OVERDUE: &str = "overdue";

/// The step or the level of which this path is that branch.
pub(crate) fn branched(path: &Path, branch: &str) -> Option<Path> {
    path.as_str().strip_suffix(branch)?.strip_suffix('|')?.parse().ok()
}

/// The marks of the parts that are inside of the attempt of a step before them: not the marks of
/// another attempt, or of an undo.
pub(crate) const INSIDE: [char; 3] = ['/', '#', '@'];

/// Whether it is this step, an attempt of it, or inside of one: not another step of the same name.
pub(crate) fn is_part_of(path: &Path, outer: &Path) -> bool {
    path == outer
        || path.is_within(outer) && !path.as_str()[outer.as_str().len()..].starts_with('|')
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
