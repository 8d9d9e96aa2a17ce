//! State variables that other threads see too (FTN12 §2.2.1 `state`).

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::iter::successors;
use std::sync::{Arc, OnceLock};

/// State variables of a flow that any thread may read and add to (FTN12 §2.2.1 `state`).
///
/// [`State::shared`](crate::State::shared) returns it; clones share the variables. No variable is
/// replaced or removed, so a reference lives as long as the state, and reading takes no lock. A value
/// that changes is an atomic or a mutex. The flow's steps read shared variables like their own.
///
/// A look-up goes through all variables: it is meant for a few of them.
///
/// ```
/// # use asyncsteps_core::Flow;
/// # use std::sync::atomic::{AtomicU32, Ordering};
/// let mut flow = Flow::new();
/// let shared = flow.state_mut().shared().clone();
/// shared.add("progress", AtomicU32::new(0)).unwrap();
/// std::thread::spawn(move || {
///     shared.get::<AtomicU32>("progress").unwrap().store(7, Ordering::Relaxed);
/// }).join().unwrap();
/// let progress = flow.state().get::<AtomicU32>("progress").unwrap();
/// assert_eq!(progress.load(Ordering::Relaxed), 7);
/// ```
#[derive(Clone, Default)]
pub struct SharedState(Arc<SharedVariables>);

/// A list that only grows.
#[derive(Default)]
struct SharedVariables(Link);

type Link = OnceLock<Box<SharedVariable>>;

struct SharedVariable {
    name: Cow<'static, str>,
    value: Box<dyn Any + Send + Sync>,
    next: Link,
}

impl SharedState {
    /// Adds a variable.
    ///
    /// # Errors
    /// The value, if there is a variable of the same name and type.
    pub fn add<T: Send + Sync + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        value: T,
    ) -> Result<(), T> {
        let (name, value) = (name.into(), Box::new(value));
        let mut new = Box::new(SharedVariable { name, value, next: Link::new() });
        let mut link = &self.0.0;
        loop {
            if let Some(old) = link.get() {
                if old.name == new.name && old.value.is::<T>() {
                    let given = new.value.downcast::<T>();
                    return Err(*given.unwrap_or_else(|_| unreachable!("it was given as `T`")));
                }
                link = &old.next;
            } else if let Err(refused) = link.set(new) {
                // another thread added a variable meanwhile
                new = refused;
            } else {
                return Ok(());
            }
        }
    }

    /// Reads a variable; `None` if there is none of this name and type.
    #[must_use]
    pub fn get<T: 'static>(&self, name: &str) -> Option<&T> {
        self.named(name).find_map(|variable| variable.value.downcast_ref())
    }

    /// Reads a variable of any type: the oldest one of this name.
    #[must_use]
    pub fn get_any(&self, name: &str) -> Option<&(dyn Any + Send + Sync)> {
        self.named(name).map(|variable| &*variable.value).next()
    }

    /// The names of all variables, the oldest first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables().map(|variable| &*variable.name)
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &SharedVariable> {
        self.variables().filter(move |variable| variable.name == name)
    }

    fn variables(&self) -> impl Iterator<Item = &SharedVariable> {
        successors(self.0.0.get(), |variable| variable.next.get()).map(|variable| &**variable)
    }
}

/// Drops the newest variable first, because it may depend on older ones, and without recursion.
impl Drop for SharedVariables {
    fn drop(&mut self) {
        let mut variables = Vec::new();
        let mut next = self.0.take();
        while let Some(mut variable) = next {
            next = variable.next.take();
            variables.push(variable);
        }
        variables.into_iter().rev().for_each(drop);
    }
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex, PoisonError};
    use std::thread;

    use super::*;

    #[test]
    fn a_variable_is_known_by_its_name_and_type() {
        let shared = SharedState::default();
        assert_eq!(shared.add("a", 1u8), Ok(()));
        assert_eq!(shared.add("a", 2u8), Err(2));
        assert_eq!(shared.add("a", "text"), Ok(()));
        assert_eq!((shared.get("a"), shared.get("a")), (Some(&1u8), Some(&"text")));
        assert_eq!(shared.get::<u8>("b"), None);
        let oldest = shared.get_any("a").and_then(|value| value.downcast_ref());
        assert_eq!(oldest, Some(&1u8));
    }

    #[test]
    fn threads_that_add_the_same_variable_agree_on_one() {
        const THREADS: usize = 4;
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let (shared, start) = (SharedState::default(), Barrier::new(THREADS));
        let added = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (shared, start, added) = (&shared, &start, &added);
                scope.spawn(move || {
                    start.wait();
                    for name in NAMES {
                        added.fetch_add(
                            usize::from(shared.add(name, thread).is_ok()),
                            Ordering::Relaxed,
                        );
                    }
                });
            }
        });
        assert_eq!(added.into_inner(), NAMES.len());
        let mut names: Vec<&str> = shared.names().collect();
        names.sort_unstable();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn variables_are_dropped_once_and_the_newest_first() {
        struct Noted(usize, Arc<Mutex<Vec<usize>>>);
        impl Drop for Noted {
            fn drop(&mut self) {
                self.1.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
            }
        }
        let (shared, notes) = (SharedState::default(), Arc::default());
        for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
            assert!(shared.add(name, Noted(number, Arc::clone(&notes))).is_ok());
        }
        drop(shared.clone());
        assert!(notes.lock().unwrap().is_empty());
        drop(shared);
        assert_eq!(*notes.lock().unwrap(), [2, 1, 0]);
    }
}
