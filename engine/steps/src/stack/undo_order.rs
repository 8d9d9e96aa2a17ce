//! The order in which undos run (FTN12 §1.2, §1.4): one after the other, and branches in parallel.

use std::collections::VecDeque;
use std::mem;

/// Where an item is: the branches around it, as in [`BranchPath`](super::branch_path::BranchPath).
type Path = [(u32, u32)];

/// Items, each of which waits for the items that were pushed before it, unless those are in other
/// branches of the same parallel step.
pub(super) struct UndoOrder<T>(VecDeque<UndoPart<T>>);

/// A part that is done before the next part begins.
enum UndoPart<T> {
    One(T),
    /// The items in the branches of one parallel step.
    Branches(u32, Vec<(u32, UndoOrder<T>)>),
}

impl<T> Default for UndoOrder<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> UndoOrder<T> {
    pub(super) fn push(&mut self, path: &Path, item: T) {
        let mut order = self;
        for (step, number) in path {
            if !matches!(order.0.back(), Some(UndoPart::Branches(last, _)) if last == step) {
                order.0.push_back(UndoPart::Branches(*step, Vec::new()));
            }
            let Some(UndoPart::Branches(_, branches)) = order.0.back_mut() else {
                unreachable!("the branches of the step are the last part")
            };
            let known = branches.iter().position(|(other, _)| other == number);
            let at = known.unwrap_or(branches.len());
            if known.is_none() {
                branches.push((*number, Self::default()));
            }
            order = &mut branches[at].1;
        }
        order.0.push_back(UndoPart::One(item));
    }

    /// Whether an item that is pushed there has to wait.
    pub(super) fn holds_up(&self, path: &Path) -> bool {
        let mut order = self;
        for (step, number) in path {
            let Some(UndoPart::Branches(first, branches)) = order.0.front() else { break };
            if first != step || order.0.len() > 1 {
                break;
            }
            match branches.iter().find(|(other, _)| other == number) {
                Some((_, inside)) => order = inside,
                None => return false,
            }
        }
        !order.0.is_empty()
    }

    /// The items that wait for no other one, as they were pushed.
    pub(super) fn first(&self) -> impl Iterator<Item = &T> {
        let mut orders = vec![self];
        std::iter::from_fn(move || {
            while let Some(order) = orders.pop() {
                match order.0.front() {
                    Some(UndoPart::One(item)) => return Some(item),
                    Some(UndoPart::Branches(_, branches)) => {
                        orders.extend(branches.iter().rev().map(|(_, inside)| inside));
                    }
                    None => {}
                }
            }
            None
        })
    }

    /// The item there, if it waits for no other one.
    pub(super) fn first_mut(&mut self, path: &Path) -> Option<&mut T> {
        let mut order = self;
        for (step, number) in path {
            let UndoPart::Branches(first, branches) = order.0.front_mut()? else { return None };
            let inside = branches.iter_mut().filter(|_| first == step);
            order = &mut inside.into_iter().find(|(other, _)| other == number)?.1;
        }
        match order.0.front_mut()? {
            UndoPart::One(item) => Some(item),
            UndoPart::Branches(..) => None,
        }
    }

    /// Removes the item there, if it waits for no other one.
    pub(super) fn remove(&mut self, path: &Path) -> Option<T> {
        let Some(((step, number), inside)) = path.split_first() else {
            if matches!(self.0.front(), Some(UndoPart::One(_)))
                && let Some(UndoPart::One(item)) = self.0.pop_front()
            {
                return Some(item);
            }
            return None;
        };
        let UndoPart::Branches(first, branches) = self.0.front_mut()? else { return None };
        let at =
            branches.iter().position(|(other, _)| other == number).filter(|_| first == step)?;
        let removed = branches[at].1.remove(inside);
        if branches[at].1.0.is_empty() {
            drop(branches.remove(at));
        }
        if branches.is_empty() {
            drop(self.0.pop_front());
        }
        removed
    }

    /// How many of these items may have to run in parallel.
    pub(super) fn width(&self, counts: impl Fn(&T) -> bool + Copy) -> usize {
        let widths = self.0.iter().map(|part| match part {
            UndoPart::One(item) => usize::from(counts(item)),
            UndoPart::Branches(_, branches) => {
                branches.iter().map(|(_, inside)| inside.width(counts)).sum()
            }
        });
        widths.max().unwrap_or(0)
    }

    /// Takes all items.
    pub(super) fn take(&mut self) -> Vec<T> {
        let (mut items, mut rest) = (Vec::new(), vec![mem::take(&mut self.0)]);
        while let Some(parts) = rest.last_mut() {
            match parts.pop_front() {
                Some(UndoPart::One(item)) => items.push(item),
                Some(UndoPart::Branches(_, branches)) => {
                    let inside = branches.into_iter().rev();
                    rest.extend(inside.map(|(_, mut inside)| mem::take(&mut inside.0)));
                }
                None => drop(rest.pop()),
            }
        }
        items
    }
}

impl<T> Drop for UndoOrder<T> {
    /// Without recursion, however deep the branches are.
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of items at these places, each with its place as the item.
    fn order(paths: &[&'static Path]) -> UndoOrder<&'static Path> {
        let mut order = UndoOrder::default();
        paths.iter().for_each(|path| order.push(path, *path));
        order
    }

    #[test]
    fn branches_of_one_parallel_step_are_beside_each_other() {
        let (root, left, right): (&Path, &Path, &Path) = (&[], &[(1, 1)], &[(1, 2)]);
        let (below, later): (&Path, &Path) = (&[(1, 1), (3, 4)], &[(5, 5)]);
        for (one, other) in [(left, right), (right, below)] {
            assert!(!order(&[one]).holds_up(other) && !order(&[other]).holds_up(one));
        }
        for (one, other) in
            [(root, left), (left, below), (left, left), (left, later), (below, later)]
        {
            assert!(order(&[one]).holds_up(other), "{one:?} {other:?}");
            assert!(order(&[other]).holds_up(one), "{other:?} {one:?}");
        }
        assert!(order(&[left, root]).holds_up(right), "it waits for one that waits");
    }

    #[test]
    fn items_come_as_they_were_pushed_and_branches_together() {
        const ALL: [&Path; 7] =
            [&[], &[(3, 3)], &[(3, 4)], &[(3, 3)], &[(1, 1)], &[(1, 2), (5, 6)], &[]];
        let mut order = order(&ALL);
        assert_eq!(order.width(|_| true), 2);
        let mut rounds = Vec::new();
        loop {
            let first: Vec<_> = order.first().copied().collect();
            if first.is_empty() {
                break;
            }
            for path in &first {
                assert_eq!(order.first_mut(path).copied(), Some(*path));
                assert_eq!(order.remove(path), Some(*path));
            }
            rounds.push(first);
        }
        let [a, b, c, d, e, f, g] = ALL;
        assert_eq!(rounds, [vec![a], vec![b, c], vec![d], vec![e, f], vec![g]]);
        assert!(order.take().is_empty() && order.remove(&[]).is_none());
    }
}
