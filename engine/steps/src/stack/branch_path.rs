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

    /// Whether the two run beside each other: in different branches of one parallel step.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let mut differences = self.0.iter().zip(&other.0).filter(|(one, other)| one != other);
        differences.next().is_some_and(|((step, _), (other, _))| step == other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(branches: &[(u32, u32)]) -> BranchPath {
        BranchPath(branches.to_vec())
    }

    #[test]
    fn branches_of_one_parallel_step_are_beside_each_other() {
        let (root, left, right) = (path(&[]), path(&[(1, 1)]), path(&[(1, 2)]));
        let (below, later) = (path(&[(1, 1), (3, 4)]), path(&[(5, 5)]));
        assert!(left.is_beside(&right) && right.is_beside(&below) && below.is_beside(&right));
        for (one, other) in
            [(&root, &left), (&left, &below), (&left, &left), (&left, &later), (&below, &later)]
        {
            assert!(!one.is_beside(other) && !other.is_beside(one), "{one:?} {other:?}");
        }
        assert_eq!([&root, &below, &later].map(BranchPath::number), [0, 4, 5]);
    }
}
