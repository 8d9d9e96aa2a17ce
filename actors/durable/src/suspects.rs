//! How many requests that may be what kills processes a node runs at once.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use asyncsteps_actors::clock;
use asyncsteps_core::Time;
use asyncsteps_executor::recorder::Blocks;
use asyncsteps_journal::POLL;
use asyncsteps_journal::request::Claimed;
use tokio::sync::Notify;

use crate::activity::FlowActivity;
use crate::on_drop::on_drop;

/// How long a body blocks its arbiter at least if that is noted.
const BLOCKED: Duration = POLL;

/// The suspects of a node. One runs at first, and one more at once for each that gets through: because it has ended or
/// was put aside, or because it only waits, so that it cannot kill the process.
#[derive(Debug)]
pub(crate) struct Suspects {
    count: Cell<usize>,
    /// How many may run at once.
    at_once: Cell<usize>,
    /// How many only wait: these are in the way of no other.
    waiting: Cell<usize>,
    most: usize,
    /// Whether the node has asked for flows.
    has_begun: Cell<bool>,
    /// Present while one runs without any other flow, and until when.
    alone: RefCell<(Weak<()>, Time)>,
}

impl Suspects {
    /// How many run at once at the most.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            count: Cell::new(0),
            at_once: Cell::new(1),
            waiting: Cell::new(0),
            most,
            has_begun: Cell::new(false),
            alone: RefCell::new((Weak::new(), Time::ZERO)),
        }
    }

    /// One runs at first, as after a death.
    pub(crate) fn begin_anew(&self) {
        self.at_once.set(1);
        self.has_begun.set(false);
        self.alone.replace((Weak::new(), Time::ZERO));
    }

    /// Whether the node has any.
    pub(crate) fn are_there(&self) -> bool {
        self.count.get() > 0
    }

    /// Whether the node has not asked for its first flow yet.
    pub(crate) fn begins(&self) -> bool {
        !self.has_begun.get()
    }

    /// The node has asked for its first flow.
    pub(crate) fn first_asked(&self) {
        self.has_begun.set(true);
    }

    /// One runs without any other flow until this is dropped, and for so long at the most.
    pub(crate) fn alone(&self, long: Duration) -> Rc<()> {
        let alone = Rc::new(());
        self.alone.replace((Rc::downgrade(&alone), clock::now() + long));
        alone
    }

    /// Whether no other flow may begin.
    pub(crate) fn is_alone(&self) -> bool {
        let (alone, until) = &*self.alone.borrow();
        alone.strong_count() > 0 && clock::now() < *until
    }

    /// How many the node may have, with those that wait.
    pub(crate) fn limit(&self) -> usize {
        self.at_once.get() + self.waiting.get()
    }
}

/// How the bodies of a flow begin, as one of them may kill the process or block the arbiter.
#[derive(Debug)]
pub(crate) struct FlowBodies {
    /// Owners died with the flow.
    has_died: bool,
    /// Those of the node.
    suspects: Rc<Suspects>,
    /// How often one has blocked the arbiter.
    pub(crate) blocks: Rc<Blocks>,
}

impl FlowBodies {
    pub(crate) fn new(has_died: bool, suspects: Rc<Suspects>) -> Self {
        Self { has_died, suspects, blocks: Rc::new(Blocks { least: BLOCKED, count: Cell::new(0) }) }
    }

    /// Whether each body that begins is recorded: if the process dies then, this or a suspect may have killed it.
    pub(crate) fn are_recorded(&self) -> bool {
        self.has_died || self.suspects.are_there()
    }

    /// One begins. If two have blocked the arbiter before, it runs without any other flow at first, until this is
    /// dropped.
    pub(crate) fn alone(&self) -> Option<Rc<()>> {
        let blocked = self.blocks.count.get();
        (blocked >= 2).then(|| self.suspects.alone(BLOCKED * blocked))
    }
}

/// A flow of a node, which may be a suspect.
pub(crate) struct Suspect<'a> {
    all: &'a Suspects,
    claimed: Claimed,
    is_through: Cell<bool>,
}

impl<'a> Suspect<'a> {
    pub(crate) fn new(all: &'a Suspects, claimed: Claimed) -> Self {
        all.count.set(all.count.get() + usize::from(claimed.is_suspect));
        Self { all, claimed, is_through: Cell::new(false) }
    }

    /// The flow got through: if it is a suspect, one more may run at once.
    pub(crate) fn gets_through(&self) {
        if self.claimed.is_suspect && !self.is_through.replace(true) {
            self.all.at_once.set((self.all.at_once.get() + 1).min(self.all.most));
        }
    }

    /// Lets others run whenever the flow only waits, such as for a lock, and notifies `changed` then. It waits a second
    /// alone for each death in a row: so one that kills the process behind a lock is alone in the end when it does.
    /// Does not complete.
    pub(crate) async fn makes_way(&self, activity: &FlowActivity, changed: &Notify) {
        if !self.claimed.is_suspect {
            return std::future::pending().await;
        }
        loop {
            activity.at_rest(self.claimed.deaths.max(1)).await;
            self.gets_through();
            let waiting = &self.all.waiting;
            waiting.set(waiting.get() + 1);
            let _waiting = on_drop(|| waiting.set(waiting.get() - 1));
            changed.notify_waiters();
            activity.changed().await;
        }
    }
}

impl Drop for Suspect<'_> {
    fn drop(&mut self) {
        self.all.count.set(self.all.count.get() - usize::from(self.claimed.is_suspect));
    }
}
