//! Values with the lifetime of a step (FTN12 §1.14, §2.2.2 `stack`).

use std::any::Any;
use std::ops::{Index, IndexMut};

use crate::stack::{Activity, AsyncSteps, Stack};

impl AsyncSteps {
    /// Keeps a value as long as this step and its sub-steps live (FTN12 §1.14).
    ///
    /// In a loop body the value lives until the iteration ends. Values of a step are dropped once,
    /// in reverse order, however the step ends; no value outlives its flow.
    ///
    /// ```
    /// # use asyncsteps::Flow;
    /// let mut flow = Flow::new();
    /// flow.add(|asi, ()| {
    ///     let total = asi.stack(0);
    ///     asi.repeat(4, move |asi, i| asi[total] += i);
    ///     asi.add(move |asi, ()| asi.success(asi[total]));
    /// });
    /// assert_eq!(asyncsteps::run_to_end::<usize>(flow).unwrap(), 6);
    /// ```
    pub fn stack<T: 'static>(&mut self, value: T) -> Stack<T> {
        let older = self.strand.top.values();
        let (id, name) = self.cold().values.insert(value, older);
        self.strand.top.extras().values = Some(id);
        name
    }

    /// Keeps a value as long as this step and its sub-steps live, without a name: the cheapest way
    /// to own a lock. It is dropped after the values made with [`stack`](Self::stack).
    pub fn hold<T: 'static>(&mut self, value: T) {
        match self.strand.top.activity() {
            Activity::Plain => self.set_activity(Activity::Holding(Box::new(value))),
            Activity::Holding(_)
            | Activity::Waiting(_)
            | Activity::Looping(_)
            | Activity::Parallel(_)
            | Activity::Polling(_)
            | Activity::Undoing(_) => {
                self.stack(value);
            }
        }
    }

    /// [`stack`](Self::stack) for a value that is boxed already and needs no name.
    pub(crate) fn keep(&mut self, value: Box<dyn Any>) {
        let older = self.strand.top.values();
        let (id, _) = self.cold().values.insert_boxed(value, older);
        self.strand.top.extras().values = Some(id);
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
