//! The step that waits for a value under a key.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use asyncsteps_core::{
    Added, Arguments, AsyncSteps, Awaitable, Error, Identity, StepResult, codes,
};

use super::Waiters;
use super::table::Refused;

/// What steps do to wait for a value under a key.
pub trait WaitersSteps {
    /// Adds a step that waits until [`Waiters::complete`] gives a value for the key; the value is its
    /// result (FTN12 §1.3). It waits for ever, unless it or a step around it has a
    /// [time limit](Added::timeout).
    ///
    /// The step fails with InternalError if another one waits for the key, and with DefenseRejected if
    /// too many steps wait.
    #[track_caller]
    fn wait_for<K, V>(&mut self, waiters: &Waiters<K, V>, key: impl Into<K>) -> Added<'_>
    where
        K: Clone + Debug + Eq + Hash + 'static,
        V: Arguments;
}

impl WaitersSteps for AsyncSteps {
    #[track_caller]
    fn wait_for<K, V>(&mut self, waiters: &Waiters<K, V>, key: impl Into<K>) -> Added<'_>
    where
        K: Clone + Debug + Eq + Hash + 'static,
        V: Arguments,
    {
        let (waiters, key) = (waiters.clone(), key.into());
        self.add(move |asi, ()| wait(asi, &waiters, key))
    }
}

/// Makes the running step wait. It owns its entry, but not the table: when the last handle of that is
/// gone, the step fails.
fn wait<K, V>(asi: &mut AsyncSteps, waiters: &Waiters<K, V>, key: K) -> StepResult
where
    K: Clone + Debug + Eq + Hash + 'static,
    V: 'static,
{
    let wait = Arc::new(KeyWait { name: waiters.0.name(), key: format!("{key:?}") });
    let step = asi.wait_external_for(Arc::clone(&wait) as Arc<dyn Awaitable>);
    match waiters.0.register(key, step) {
        Ok(registered) => {
            asi.stack(registered);
            Ok(())
        }
        Err(Refused::Full) => asi.error(codes::DEFENSE_REJECTED, "Waiters limit"),
        Err(Refused::Taken) => {
            // the key is for the log only
            let text = format!("another step waits for {}", wait.text());
            Err(Error::caused_by(codes::INTERNAL_ERROR, text).into())
        }
    }
}

/// What a step waits for.
struct KeyWait {
    name: &'static str,
    key: String,
}

impl KeyWait {
    fn text(&self) -> String {
        let Self { name, key } = self;
        if name.is_empty() { format!("key {key}") } else { format!("`{name}` key {key}") }
    }
}

impl Awaitable for KeyWait {
    fn describe(&self, _: Identity) -> String {
        self.text()
    }
}
