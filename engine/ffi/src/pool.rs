//! Memory that is free to be used again, and how long it rests before.
//!
//! A pointer is all that a caller has, and late answers are a fact of life: the longer a place is
//! not used again, the later an answer may come and still be found out.

use std::collections::VecDeque;

/// How many places of steps and roots that ended as they should rest.
const ENDED: usize = 1024;

/// How many places of steps that waited for an answer in vain rest.
///
/// Together this bounds what rests on a thread to some three and a half megabytes, which it gets
/// only after that many such steps.
const UNANSWERED: usize = 8192;

/// How a place was used, which says how long it rests.
#[derive(Clone, Copy)]
pub(crate) enum Use {
    /// It was over as soon as its callback returned: nobody has a reason to keep the pointer.
    Brief,
    Ended,
    /// Whoever was to complete the step may still try to.
    Unanswered,
}

/// Free places.
pub(crate) struct Pool<T: 'static> {
    /// The next one last: it was used a moment ago and is in the cache.
    ready: Vec<&'static T>,
    /// The others rest in lines, the next one first.
    ended: VecDeque<&'static T>,
    unanswered: VecDeque<&'static T>,
}

impl<T> Pool<T> {
    pub(crate) const fn new() -> Self {
        Self { ready: Vec::new(), ended: VecDeque::new(), unanswered: VecDeque::new() }
    }

    /// A place that has rested; `None` if new ones have to be made.
    pub(crate) fn take(&mut self) -> Option<&'static T> {
        self.ready.pop().or_else(|| self.rested())
    }

    fn rested(&mut self) -> Option<&'static T> {
        let lines = [(&mut self.ended, ENDED), (&mut self.unanswered, UNANSWERED)];
        lines.into_iter().find_map(
            |(line, rest)| {
                if line.len() > rest { line.pop_front() } else { None }
            },
        )
    }

    pub(crate) fn give(&mut self, place: &'static T, after: Use) {
        match after {
            Use::Brief => self.ready.push(place),
            Use::Ended => self.ended.push_back(place),
            Use::Unanswered => self.unanswered.push_back(place),
        }
    }

    /// Adds places that nobody used.
    pub(crate) fn fill(&mut self, places: impl Iterator<Item = &'static T>) {
        self.ready.extend(places);
    }

    /// Takes over what is in another pool.
    pub(crate) fn join(&mut self, other: &mut Self) {
        self.ready.append(&mut other.ready);
        self.ended.append(&mut other.ended);
        self.unanswered.append(&mut other.unanswered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of which no two are the same.
    fn places() -> impl Iterator<Item = &'static u8> {
        static PLACES: [u8; UNANSWERED + 1] = [0; UNANSWERED + 1];
        PLACES.iter()
    }

    #[test]
    fn brief_uses_share_one_place_and_others_rest_behind_those_before_them() {
        for (after, rest) in [(Use::Ended, ENDED), (Use::Unanswered, UNANSWERED)] {
            let (mut pool, mut places) = (Pool::new(), places());
            let first = places.next().unwrap();
            pool.give(first, Use::Brief);
            assert!(std::ptr::eq(pool.take().unwrap(), first));
            pool.give(first, after);
            places.by_ref().take(rest - 1).for_each(|place| pool.give(place, after));
            assert_eq!(pool.take(), None, "all of them rest");
            pool.give(places.next().unwrap(), after);
            assert!(std::ptr::eq(pool.take().unwrap(), first));
            assert_eq!(pool.take(), None);
        }
    }

    #[test]
    fn what_another_thread_left_rests_on() {
        let (mut pool, mut left, mut places) = (Pool::new(), Pool::new(), places());
        places.by_ref().take(ENDED).for_each(|place| left.give(place, Use::Ended));
        left.fill(places.take(2));
        pool.join(&mut left);
        assert!(left.take().is_none());
        assert!(pool.take().is_some() && pool.take().is_some());
        assert_eq!(pool.take(), None);
    }
}
