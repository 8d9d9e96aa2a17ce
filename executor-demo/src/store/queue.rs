//! The jobs that wait for a thread of the database, in lanes that take turns.
//!
//! A lane has the jobs of one product, first in, first out. So a product that everyone wants keeps the orders
//! for others waiting no longer than for one turn.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::StoreError;

/// The lane of jobs that concern no product.
const OTHERS: &str = "";

/// Makes a queue with room for this number of jobs; it ends with either end.
pub(super) fn queue<T>(room: usize) -> (Adder<T>, Taker<T>) {
    let waiting = Lanes { lanes: HashMap::new(), turns: VecDeque::new(), count: 0, ended: false };
    let queue = Arc::new(LaneQueue { room, waiting: Mutex::new(waiting), changed: Condvar::new() });
    (Adder(Arc::new(QueueEnd(Arc::clone(&queue)))), Taker(QueueEnd(queue)))
}

/// The end that jobs are added at; cheap to clone.
pub(super) struct Adder<T>(Arc<QueueEnd<T>>);

/// The end that jobs are taken from.
pub(super) struct Taker<T>(QueueEnd<T>);

struct LaneQueue<T> {
    room: usize,
    waiting: Mutex<Lanes<T>>,
    changed: Condvar,
}

struct Lanes<T> {
    /// None of them is empty.
    lanes: HashMap<Arc<str>, VecDeque<T>>,
    /// The lanes, the next one first.
    turns: VecDeque<Arc<str>>,
    count: usize,
    ended: bool,
}

impl<T> Clone for Adder<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Adder<T> {
    /// Adds a job that concerns these products: to the longest of their lanes.
    ///
    /// # Errors
    /// The job that has to be refused, and why. If there is no room, this is the last job of the longest
    /// lane, which may be another one than was added.
    pub(super) fn add<'a>(
        &self,
        products: impl IntoIterator<Item = &'a Arc<str>>,
        job: T,
    ) -> Result<(), (T, StoreError)> {
        let LaneQueue { room, changed, .. } = &*self.0.0;
        let mut waiting = self.0.0.waiting.lock();
        if waiting.ended {
            return Err((job, StoreError::Closed));
        }
        let lane = products.into_iter().max_by_key(|product| waiting.length(product));
        let lane = lane.map_or_else(|| Arc::from(OTHERS), Arc::clone);
        waiting.push(Arc::clone(&lane), job);
        let refused = if waiting.count > *room { waiting.drop_last(lane) } else { None };
        drop(waiting);
        changed.notify_one();
        refused.map_or(Ok(()), |job| Err((job, StoreError::Full)))
    }
}

impl<T> Taker<T> {
    /// Waits for jobs and takes at most this number, one of each lane in turn; none when there will be no more.
    pub(super) fn take(&self, most: usize) -> Vec<T> {
        let mut waiting = self.0.0.waiting.lock();
        self.0.0.changed.wait_while(&mut waiting, |waiting| waiting.count == 0 && !waiting.ended);
        std::iter::from_fn(|| waiting.pop()).take(most).collect()
    }
}

impl<T> Lanes<T> {
    fn length(&self, lane: &str) -> usize {
        self.lanes.get(lane).map_or(0, VecDeque::len)
    }

    fn push(&mut self, lane: Arc<str>, job: T) {
        let jobs = self.lanes.entry(Arc::clone(&lane)).or_default();
        if jobs.is_empty() {
            self.turns.push_back(lane);
        }
        jobs.push_back(job);
        self.count += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let lane = self.turns.pop_front()?;
        let jobs = self.lanes.get_mut(&lane)?;
        let job = jobs.pop_front();
        self.count -= 1;
        if jobs.is_empty() {
            self.lanes.remove(&lane);
        } else {
            self.turns.push_back(lane);
        }
        job
    }

    /// Takes the last job of the longest lane: of this one, unless another is longer.
    fn drop_last(&mut self, this: Arc<str>) -> Option<T> {
        let (longest, length) = self
            .lanes
            .iter()
            .map(|(lane, jobs)| (lane, jobs.len()))
            .max_by_key(|(_, length)| *length)?;
        let lane = if length > self.length(&this) { Arc::clone(longest) } else { this };
        let jobs = self.lanes.get_mut(&lane)?;
        let job = jobs.pop_back();
        self.count -= 1;
        if jobs.is_empty() {
            self.lanes.remove(&lane);
            self.turns.retain(|other| *other != lane);
        }
        job
    }
}

/// Ends the queue when it is dropped.
struct QueueEnd<T>(Arc<LaneQueue<T>>);

impl<T> Drop for QueueEnd<T> {
    fn drop(&mut self) {
        self.0.waiting.lock().ended = true;
        self.0.changed.notify_one();
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut waiting = self.0.0.waiting.lock();
        waiting.ended = true;
        // they would never be answered
        let left = mem::take(&mut waiting.lanes);
        drop(waiting);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(queue: &Adder<&'static str>, products: &[&str], job: &'static str) -> &'static str {
        let products: Vec<Arc<str>> = products.iter().map(|product| Arc::from(*product)).collect();
        match queue.add(&products, job) {
            Ok(()) => "",
            Err((job, _)) => job,
        }
    }

    #[test]
    fn lanes_take_turns() {
        let (adder, taker) = queue(10);
        for job in ["h1", "h2", "h3"] {
            assert_eq!(add(&adder, &["hot"], job), "");
        }
        assert_eq!(add(&adder, &["cold", "hot"], "h4"), "", "with those that it has to wait for");
        assert_eq!(add(&adder, &["cold"], "c1"), "");
        assert_eq!(add(&adder, &[], "o1"), "");
        assert_eq!(taker.take(2), ["h1", "c1"]);
        assert_eq!(add(&adder, &["cold"], "c2"), "");
        drop(adder);
        assert_eq!(taker.take(10), ["o1", "h2", "c2", "h3", "h4"]);
        assert!(taker.take(10).is_empty());
    }

    #[test]
    fn a_full_queue_refuses_the_last_of_the_longest_lane() {
        let (adder, taker) = queue(3);
        for job in ["h1", "h2", "h3"] {
            assert_eq!(add(&adder, &["hot"], job), "");
        }
        assert_eq!(add(&adder, &["hot"], "h4"), "h4");
        assert_eq!(add(&adder, &["cold"], "c1"), "h3");
        assert_eq!(taker.take(9), ["h1", "c1", "h2"]);
        // none is longer: the one that comes last
        for job in ["a", "b", "c"] {
            assert_eq!(add(&adder, &[job], job), "");
        }
        assert_eq!(add(&adder, &["d"], "d"), "d");
        drop(taker);
        assert_eq!(add(&adder, &["hot"], "h5"), "h5");
    }
}
