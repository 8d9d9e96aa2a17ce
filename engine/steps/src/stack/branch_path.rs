//! Where a branch is in the tree of branches (FTN12 §1.4).

/// The branches around a step, the outermost first: of each the number, behind the number of the first
/// branch of the same parallel step. The root has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchPath(Vec<(u32, u32)>);

impl BranchPath {
    /// The path through these branches, the innermost first.
    pub(crate) fn from_innermost(branches: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut path: Vec<_> = branches.collect();
        path.reverse();
        Self(path)
    }

    /// The number of the innermost branch, 0 for the root.
    pub(crate) fn number(&self) -> u32 {
        self.0.last().map_or(0, |(_, number)| *number)
    }

    /// The branches, the outermost first.
    pub(crate) fn branches(&self) -> &[(u32, u32)] {
        &self.0
    }
}
