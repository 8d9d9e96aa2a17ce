//! Steps that wait for a value under a key: an answer that comes as a request of its own, such as a
//! webhook (FTN12 §1.3).
//!
//! - `table.rs`: who waits. `step.rs`: the step.

mod step;
mod table;

use std::borrow::Borrow;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use asyncsteps_core::SendArguments;
use table::Table;

pub use step::WaitersSteps;

/// The steps that wait for a value under a key, from all arbiters. Cheap to clone.
///
/// A step waits with [`wait_for`](WaitersSteps::wait_for), and any thread completes it with
/// [`complete`](Self::complete). The entry of a step is gone as soon as the step is over: by its value,
/// an error, a time limit, a cancel or the end of its arbiter. While it waits, its flow shows name and
/// key. When the last handle is dropped, the steps that wait fail with InternalError, because nothing
/// can complete them any more.
///
/// One step at a time waits for a key. A second one fails, and does not queue: a value answers one
/// question, and if two steps ask under the same key, no order of theirs is right.
///
/// It needs nothing of this crate's hosts, so it works in simulations as well.
///
/// ```
/// use asyncsteps_core::Flow;
/// use asyncsteps_actors::flow::start_flow;
/// use asyncsteps_actors::waiters::{Waiters, WaitersSteps};
///
/// # actix::System::new().block_on(async {
/// let payments = Waiters::<String, u32>::named("payments", 1_000);
/// let webhooks = payments.clone();
/// let mut flow = Flow::new();
/// flow.add(move |asi, ()| {
///     asi.wait_for(&payments, "order 7").timeout(std::time::Duration::from_secs(60));
/// });
/// let paid = start_flow::<u32>(flow);
///
/// assert_eq!(webhooks.complete("order 8", 20), Err(20), "nothing waits for it");
/// assert_eq!(webhooks.complete("order 7", 10), Ok(()));
/// assert_eq!(paid.await.unwrap(), 10);
/// # });
/// ```
pub struct Waiters<K, V>(Arc<Table<K, V>>);

impl<K: Eq + Hash, V> Waiters<K, V> {
    /// Room for so many steps without a name.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::named("", max)
    }

    /// Room for so many steps; a further one fails with DefenseRejected. The name is for stacks and
    /// errors.
    #[must_use]
    pub fn named(name: &'static str, max: usize) -> Self {
        Self(Arc::new(Table::new(name, max)))
    }

    /// Gives the value to the step that waits for the key. `Ok` means that the step takes it: the value
    /// is its result, also if its time limit or a cancel comes before the next turn of its flow. What
    /// the flow does with it is its own matter: if it is cancelled, or the limit of a step around this
    /// one has passed, no further step gets the value.
    ///
    /// # Errors
    /// The value, if no step waits for the key: it did not begin to, is over, or is being cancelled. A
    /// value that comes too
    /// early is not kept here, because a process that restarts would lose it. Either the sender is told
    /// to try again, as senders of webhooks do after an error; or the value is stored, and the step
    /// looks there before it waits.
    pub fn complete<Q>(&self, key: &Q, value: V) -> Result<(), V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
        V: SendArguments,
    {
        self.0.complete(key, value)
    }

    /// How many steps wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no step waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K, V> Clone for Waiters<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash, V> fmt::Debug for Waiters<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("name", &self.0.name()).field("len", &self.len()).finish()
    }
}

const _: () = {
    const fn any_thread<T: Send + Sync>() {}
    any_thread::<Waiters<String, String>>();
};
