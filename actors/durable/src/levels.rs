//! What has become of steps as a whole, by their paths.

use std::collections::BTreeMap;
use std::ops::Bound;

use asyncsteps_journal::Path;

use crate::marks::INSIDE;

/// What has become of a step, or of the sub-steps of one of its attempts or iterations.
#[derive(Debug, Default)]
pub(crate) struct Level {
    /// It fails, or has failed: what is inside is undone.
    pub(crate) fails: bool,
    /// A scope that ended normally: the steps inside are not undone any more.
    pub(crate) is_closed: bool,
    /// The sub-steps ended normally within a time limit.
    pub(crate) is_over: bool,
    /// The step ended normally in an earlier run, or was recovered: records of later steps show it.
    pub(crate) is_passed: bool,
    /// The step was undone, with all that was inside.
    pub(crate) is_undone: bool,
    /// The step has begun to commit the request, and has not failed.
    pub(crate) commits: bool,
    /// The program has the step no more, and it has done something or may have.
    pub(crate) is_retired: bool,
}

/// The levels of which something is known: none in a flow in which all goes well, and that is not replayed.
#[derive(Debug, Default)]
pub(crate) struct Levels(BTreeMap<Path, Level>);

impl Levels {
    pub(crate) fn at(&mut self, path: Path) -> &mut Level {
        self.0.entry(path).or_default()
    }

    /// Whether the level at this path is so.
    pub(crate) fn is(&self, path: &Path, so: impl Fn(&Level) -> bool) -> bool {
        self.0.get(path).is_some_and(so)
    }

    /// The levels around this path and at it, with what of the path is behind each.
    pub(crate) fn around<'a>(
        &'a self,
        path: &'a Path,
    ) -> impl Iterator<Item = (&'a Path, &'a Level, &'a str)> {
        let levels = (!self.0.is_empty()).then(|| {
            path.outer().filter_map(|(outer, rest)| {
                let (outer, level) = self.0.get_key_value(outer)?;
                Some((outer, level, rest))
            })
        });
        levels.into_iter().flatten()
    }

    /// Whether this path is inside of a level that is so.
    pub(crate) fn is_inside(&self, path: &Path, so: impl Fn(&Level) -> bool) -> bool {
        self.around(path).any(|(_, level, rest)| rest.starts_with(INSIDE) && so(level))
    }

    /// Whether a level at this path or within is so, as far as its path is as well.
    pub(crate) fn any_within(&self, outer: &Path, so: impl Fn(&Path, &Level) -> bool) -> bool {
        let levels = self.0.range::<Path, _>((Bound::Included(outer), Bound::Unbounded));
        let mut levels = levels.take_while(|(path, _)| path.as_str().starts_with(outer.as_str()));
        levels.any(|(path, level)| path.is_within(outer) && so(path, level))
    }

    pub(crate) fn any(&self, so: impl Fn(&Level) -> bool) -> bool {
        self.0.values().any(so)
    }

    /// Forgets the level at this path, and those within.
    pub(crate) fn forget(&mut self, outer: &Path) {
        self.0.retain(|path, _| !path.is_within(outer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_around_what_is_inside_of_its_attempt_and_around_nothing_else() {
        let (mut levels, function) = (Levels::default(), Path::template("f"));
        let step = function.step("pay");
        let further = step.branch("2").step("a");
        let inside = [step.step("a"), step.iteration(3).step("a"), step.key("k").step("a").undo()];
        let outside = [step.clone(), step.attempt(2).step("a"), step.undo(), further];
        levels.at(step.clone()).fails = true;
        levels.at(function.step("paid")).fails = true;
        for path in inside {
            assert!(levels.is_inside(&path, |level| level.fails), "{path}");
            assert!(!levels.is_inside(&path, |level| level.is_closed), "{path}");
        }
        for path in outside {
            assert!(!levels.is_inside(&path, |level| level.fails), "{path}");
        }
    }

    #[test]
    fn what_is_known_of_a_level_is_forgotten_with_the_levels_inside() {
        let (mut levels, step) = (Levels::default(), Path::template("f").step("pay"));
        levels.at(step.iteration(1)).is_over = true;
        levels.at(step.iteration(1).step("a")).commits = true;
        levels.at(step.iteration(10)).is_over = true;
        assert!(levels.any_within(&step.iteration(1), |_, level| level.commits));
        levels.forget(&step.iteration(1));
        assert!(!levels.any(|level| level.commits));
        assert!(!levels.is(&step.iteration(1), |level| level.is_over));
        assert!(levels.is(&step.iteration(10), |level| level.is_over));
    }
}
