//! Values with the lifetime of a step (FTN12 §1.14, §2.2.2 `stack`).

use std::any::Any;
use std::ops::{Index, IndexMut};

use crate::stack::{Activity, AsyncSteps, Lifetime, Locks, Stack};

impl AsyncSteps {
    /// Keeps a value as long as this step and its sub-steps live (FTN12 §1.14).
    ///
    /// In a loop body the value lives until the iteration ends. Values of a step are dropped once,
    /// in reverse order, however the step ends; no value outlives its flow.
    ///
    /// ```
    /// # use asyncsteps_core::Flow;
    /// let mut flow = Flow::new();
    /// flow.add(|asi, ()| {
    ///     let total = asi.stack(0);
    ///     asi.repeat(4, move |asi, i| asi[total] += i);
    ///     asi.add(move |asi, ()| asi.success(asi[total]));
    /// });
    /// assert_eq!(asyncsteps_core::run_to_end::<usize>(flow).unwrap(), 6);
    /// ```
    pub fn stack<T: 'static>(&mut self, value: T) -> Stack<T> {
        self.keep_named(value, Lifetime::Step)
    }

    /// Keeps a lock as long as this step and its sub-steps live, without a name; this is cheaper than
    /// [`stack`](Self::stack). It is dropped after the values that have a name.
    ///
    /// If the step is cancelled, the lock lives until everything [inside](crate::Added::undo) is
    /// undone, which may be after the end of the flow.
    pub fn hold<T: 'static>(&mut self, value: T) {
        match self.strand.top.activity() {
            Activity::Plain => self.set_activity(Activity::Holding(Box::new(value))),
            Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Looping(_)
            | Activity::Parallel(_)
            | Activity::Polling(_)
            | Activity::Retrying(_)
            | Activity::Undoing(_) => {
                self.hold_named(value);
            }
        }
    }

    /// [`hold`](Self::hold) with a name, for a lock that is waited for.
    pub fn hold_named<T: 'static>(&mut self, value: T) -> Stack<T> {
        self.keep_named(value, Lifetime::Undone)
    }

    fn keep_named<T: 'static>(&mut self, value: T, lifetime: Lifetime) -> Stack<T> {
        let older = self.strand.top.values();
        let (id, name) = self.cold().values.insert(value, older, lifetime);
        self.extras().values = Some(id);
        name
    }

    /// Keeps the lock of the running step among its values, as the first one that it made.
    pub(crate) fn keep(&mut self, lock: Box<dyn Any>) {
        let newest = self.strand.top.values();
        let values = &mut self.cold().values;
        let (id, _) = values.insert_boxed(lock, None, Lifetime::Undone);
        match newest {
            Some(newest) => values.link_oldest(newest, id),
            None => self.extras().values = Some(id),
        }
    }

    /// Takes the locks of the running step from it, in the order in which they are dropped.
    pub(crate) fn take_locks(&mut self) -> Locks {
        let mut locks = Locks::new();
        if let (Some(cold), newest) = (&mut self.cold, self.strand.top.values()) {
            cold.values.take_locks(newest, &mut locks);
        }
        if matches!(self.strand.top.activity(), Activity::Holding(_))
            && let Activity::Holding(lock) = self.strand.top.replace_activity(Activity::Plain)
        {
            locks.push(lock);
        }
        locks
    }

    /// Reads a value made with [`stack`](Self::stack); `None` after its step ended.
    #[must_use]
    pub fn value<T: 'static>(&self, name: Stack<T>) -> Option<&T> {
        self.cold.as_ref()?.values.get(name)
    }

    /// Changes a value made with [`stack`](Self::stack); `None` after its step ended.
    #[must_use]
    pub fn value_mut<T: 'static>(&mut self, name: Stack<T>) -> Option<&mut T> {
        self.cold.as_mut()?.values.get_mut(name)
    }
}

impl<T: 'static> Index<Stack<T>> for AsyncSteps {
    type Output = T;

    /// # Panics
    /// After the step of the value ended; inside a step that becomes an `InternalError`.
    fn index(&self, name: Stack<T>) -> &T {
        match self.value(name) {
            Some(value) => value,
            None => panic!("a value made with `stack` was used after its step ended"),
        }
    }
}

impl<T: 'static> IndexMut<Stack<T>> for AsyncSteps {
    fn index_mut(&mut self, name: Stack<T>) -> &mut T {
        match self.value_mut(name) {
            Some(value) => value,
            None => panic!("a value made with `stack` was used after its step ended"),
        }
    }
}
