//! Whether a flow does anything but wait, so that it can be put aside meanwhile.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use asyncsteps_actors::{clock, timer};
use asyncsteps_core::Time;
use asyncsteps_journal::Path;
use tokio::sync::Notify;

use crate::on_drop::on_drop;
use crate::until::until;

/// How long a flow has to do nothing but wait before it is put aside.
const IDLE: Duration = Duration::from_secs(1);

/// How long nothing has to happen in a flow without a running effect until a node that stops returns it.
const MOMENT: Duration = Duration::from_millis(100);

/// The current activity of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowActivity {
    /// How many bodies run.
    running: Cell<usize>,
    /// How many of them may have an effect, or are undos.
    effects: Cell<usize>,
    /// The steps that wait, and until when.
    waits: RefCell<BTreeMap<Path, Option<Time>>>,
    /// It only waited when something happened last.
    only_waited: Cell<bool>,
    /// Something happens while it only waits, or it begins to: steps that follow each other wake nothing.
    at_wait: Notify,
    changed: Notify,
}

impl FlowActivity {
    /// A body begins, and ends when this is dropped. One without an effect is lost for nothing when it is cut.
    pub(crate) fn body(self: &Rc<Self>, has_effect: bool) -> impl Sized + use<> {
        self.running.set(self.running.get() + 1);
        self.effects.set(self.effects.get() + usize::from(has_effect));
        self.happens();
        let activity = Rc::clone(self);
        on_drop(move || {
            activity.running.set(activity.running.get().saturating_sub(1));
            activity.effects.set(activity.effects.get().saturating_sub(usize::from(has_effect)));
            activity.happens();
        })
    }

    /// The step at this path waits from now on.
    pub(crate) fn wait(&self, path: &Path, until: Option<Time>) {
        self.waits.borrow_mut().insert(path.clone(), until);
        self.happens();
    }

    /// The step at this path does not wait any more.
    pub(crate) fn end_wait(&self, path: &Path) {
        if self.waits.borrow_mut().remove(path).is_some() {
            self.happens();
        }
    }

    /// Something happens in the flow.
    pub(crate) fn happens(&self) {
        let only_waits = self.only_waits();
        if self.only_waited.replace(only_waits) || only_waits {
            self.at_wait.notify_waiters();
        }
        self.changed.notify_waiters();
    }

    fn only_waits(&self) -> bool {
        self.running.get() == 0 && !self.waits.borrow().is_empty()
    }

    /// When the first of the waits with an end expires.
    pub(crate) fn first_end(&self) -> Option<Time> {
        self.waits.borrow().values().flatten().min().copied()
    }

    /// Completes when something happens.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Looks, and again whenever something happens, until it is so.
    pub(crate) async fn until(&self, is_so: impl Fn() -> bool) {
        until(&self.changed, || is_so().then_some(())).await;
    }

    /// Completes when the flow has done nothing but wait for a while.
    pub(crate) async fn idle(&self) {
        self.quiet(&self.at_wait, IDLE, || self.only_waits()).await;
    }

    /// Completes when no body has run for this multiple of the idle time, and nothing else has happened.
    pub(crate) async fn at_rest(&self, times: u32) {
        self.quiet(&self.changed, IDLE * times, || self.running.get() == 0).await;
    }

    /// Completes when no body runs that may have an effect, and the flow waits: for a time or a signal, or for
    /// something else, such as a lock, for a moment already.
    pub(crate) async fn without_effect(&self) {
        let has_no_effect = || self.effects.get() == 0;
        tokio::select! {
            biased;
            () = self.until(|| has_no_effect() && !self.waits.borrow().is_empty()) => {}
            () = self.quiet(&self.changed, MOMENT, has_no_effect) => {}
        }
    }

    /// Completes when nothing has happened for so long, and it is so; `changes` notifies of both.
    async fn quiet(&self, changes: &Notify, long: Duration, is_so: impl Fn() -> bool) {
        loop {
            let changed = changes.notified();
            if !is_so() {
                changed.await;
                continue;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = timer::sleep_until(clock::now() + long) => return,
            }
        }
    }
}
