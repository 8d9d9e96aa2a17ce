//! The effects of a flow that is to end, by its records: each is done on the way that it took, or undone.

use asyncsteps_journal::Path;
use asyncsteps_journal::record::Ending;

use crate::marks::is_part_of;
use crate::replay::{AtPath, NotUndone, RecordedEnd, Replay};
use crate::settled::Settle;

impl Replay {
    /// The first step at this path or inside that was begun with an undo in an earlier run, and to which the
    /// program has not come in this one.
    pub(crate) fn awaited_within<'a>(&'a self, outer: &'a Path) -> Option<&'a Path> {
        let all = self.at(outer).map(|at| (outer, at)).into_iter().chain(self.within(outer));
        let mut awaited = all.filter(|(path, at)| at.is_awaited && is_part_of(path, outer));
        awaited.find(|(path, at)| at.is_begun && !self.needs_no_undo(path)).map(|(path, _)| path)
    }

    /// Whether an operator has had this step undone, and it is not.
    pub(crate) fn is_ordered(&self, path: &Path) -> bool {
        let is_ordered = self.at(path).is_some_and(|at| matches!(at.settled, Some(Settle::Undo)));
        is_ordered && !self.is_undone(path)
    }

    /// Why a flow must not end like this: an effect was begun, and is neither done on the way that it took nor
    /// undone. Returns the path of that as well.
    pub(crate) fn unfinished(&self, ending: &Ending) -> Option<(Path, String)> {
        let has_result = matches!(ending, Ending::Completed(_));
        if let Some((path, _)) = self.steps(|at| has_result && at.is_gone()).next() {
            let why = "was undone by an operator, and the program has come to a result with it";
            return Some((path.clone(), format!("{path} {why}")));
        }
        // of a request that has gone well, most steps need no further look
        let is_known = has_result && !self.levels.any(|_| true);
        let begun = self.steps(|at| !is_known || at.is_awaited || at.is_cut());
        let mut begun = begun.filter(|(path, at)| at.is_effect(path) && !self.needs_no_undo(path));
        let reason = |(path, at): (&Path, &AtPath)| {
            if !has_result {
                let reason =
                    || format!("{path} was begun, and is not undone{}", self.why_not(path));
                return at.is_begun.then(reason);
            }
            if self.is_unwinding(path) || at.is_cut() {
                let why_not = self.why_not(path);
                let why =
                    format!("{path} was begun in a step that failed, and is not undone{why_not}");
                return at.is_begun.then_some(why);
            }
            (at.is_awaited && !at.may_stay_open).then(|| {
                format!("{path} is recorded, and the program has come to a result without it")
            })
        };
        begun.find_map(|(path, at)| Some((path.clone(), reason((path, at))?)))
    }

    /// The undo of the step at this path begins.
    pub(crate) fn begins_undo(&mut self, path: &Path) {
        self.undo_fails(path, "it has not ended in time".to_owned(), true);
    }

    /// The undo of the step at this path has not undone it, for this reason: because something `is_away`, or not.
    pub(crate) fn undo_fails(&mut self, path: &Path, why: String, is_away: bool) {
        self.not_undone.insert(path.clone(), NotUndone { why, is_away });
    }

    fn why_not(&self, path: &Path) -> String {
        self.not_undone.get(path).map_or_else(String::new, |undo| format!(": {}", undo.why))
    }

    pub(crate) fn needs_no_undo(&self, path: &Path) -> bool {
        self.is_undone(path) || self.is_closed(path)
    }
}

impl AtPath {
    /// Whether the step began, and did not end well.
    fn is_cut(&self) -> bool {
        self.is_open && !self.may_stay_open && !matches!(self.end, Some(RecordedEnd::Done(_)))
    }
}
