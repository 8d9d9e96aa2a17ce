//! The inbox of a flow (FTN12 §1.3): messages of other threads to its waiting steps.
//!
//! All handles of a flow share it: it knows which waits are open, keeps the messages until the flow
//! runs next, and wakes the flow's host.

use std::mem;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use smallvec::SmallVec;

use crate::args::SendArgs;
use crate::error::Error;
use crate::slot::index;

/// Names one wait of a flow: its index in the table, and how often the index was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitKey {
    index: u32,
    generation: NonZeroU32,
}

/// The key of a wait until the handle that has it was used.
pub(crate) struct HandleKey {
    index: u32,
    /// 0 when the handle was used.
    generation: AtomicU32,
}

impl HandleKey {
    pub(crate) fn new(key: WaitKey) -> Self {
        Self { index: key.index, generation: AtomicU32::new(key.generation.get()) }
    }

    /// The key of a handle that was used.
    pub(crate) fn used() -> Self {
        Self { index: 0, generation: AtomicU32::new(0) }
    }

    pub(crate) fn get(&self) -> Option<WaitKey> {
        let generation = NonZeroU32::new(self.generation.load(Ordering::Relaxed))?;
        Some(WaitKey { index: self.index, generation })
    }

    /// The handle was used: its wait has ended.
    pub(crate) fn use_up(&self) {
        self.generation.store(0, Ordering::Relaxed);
    }
}

/// A message to a wait.
pub(crate) enum WaitMessage {
    Success(SendArgs),
    Error(Error),
    /// All handles were dropped.
    Abandoned,
    /// The step fails with this error, and everything inside of it is cancelled.
    Interrupt(Error),
    /// The future of the step wants to be polled; the wait goes on.
    Poll,
}

/// A message that came: for which wait, of a step in which strand.
pub(crate) type Arrival = (WaitKey, u32, WaitMessage);

/// Where completions, wake-ups and `cancel` arrive, from any thread.
#[derive(Default)]
pub(crate) struct FlowInbox {
    waits: Mutex<WaitTable>,
    /// Something came that was not received; set within the lock, read anywhere.
    has_news: AtomicBool,
    /// The flow is cancelled: completions are refused from now on. Set within the lock, read
    /// anywhere.
    cancelled: AtomicBool,
}

/// The waits of a flow.
#[derive(Default)]
pub(crate) struct WaitTable {
    /// Most flows have one wait at a time.
    table: SmallVec<[WaitEntry; 1]>,
    /// The free indices in `table`.
    free: IndexList,
    /// The indices in `table` for which a message came, in the order in which they came.
    news: IndexList,
    /// Wakes the host; set while the flow waits.
    waker: Option<Waker>,
}

/// An element of the table of waits.
pub(crate) struct WaitEntry {
    generation: NonZeroU32,
    strand: u32,
    /// How many handles can complete it.
    pub(crate) handles: u32,
    /// The index after this one in its list.
    next: u32,
    state: WaitState,
}

enum WaitState {
    Free,
    Open,
    /// A message came and was not received yet.
    Came(WaitMessage),
}

impl FlowInbox {
    pub(crate) fn lock(&self) -> MutexGuard<'_, WaitTable> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a wait for a step of this strand; `handles` of it are about to be made.
    pub(crate) fn open(&self, strand: u32, handles: u32) -> WaitKey {
        self.lock().open(strand, handles)
    }

    /// Whether this wait can be completed.
    pub(crate) fn is_open(&self, key: WaitKey) -> bool {
        let mut waits = self.lock();
        !self.is_cancelled() && waits.get_mut(key).is_some()
    }

    /// Whether the flow is to be cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether a message may have come. A message that comes after a `false` wakes the host.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.has_news.load(Ordering::Relaxed)
    }

    /// Receives the message that came first, if there is one.
    ///
    /// A poll leaves its wait open; the flow polls at once, so a later wake-up counts again.
    pub(crate) fn receive(&self) -> Option<Arrival> {
        let mut waits = self.lock();
        let received = waits.receive();
        self.has_news.store(waits.has_news() || self.is_cancelled(), Ordering::Relaxed);
        received
    }

    /// Refuses everything that is sent from now on.
    pub(crate) fn close(&self) {
        let waits = self.lock();
        self.refuse();
        drop(waits);
    }

    /// Has `waker` woken when something comes; `false` if something has come already.
    pub(crate) fn wake_on_news(&self, waker: &Waker) -> bool {
        let mut waits = self.lock();
        if self.has_news() {
            return false;
        }
        match &mut waits.waker {
            Some(old) => old.clone_from(waker),
            None => waits.waker = Some(waker.clone()),
        }
        true
    }

    /// Asks the flow to cancel, and wakes the host.
    pub(crate) fn cancel(&self) {
        let waker = {
            let mut waits = self.lock();
            self.refuse();
            self.has_news.store(true, Ordering::Relaxed);
            waits.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sends a message to a wait and wakes the host; returns the message if the wait has ended. A
    /// completion ends the wait.
    pub(crate) fn send(&self, key: WaitKey, message: WaitMessage) -> Result<(), WaitMessage> {
        let waker = {
            let mut waits = self.lock();
            if self.is_cancelled() {
                return Err(message);
            }
            let Some(wait) = waits.get_mut(key) else { return Err(message) };
            let is_poll = matches!(message, WaitMessage::Poll);
            if is_poll && matches!(wait.state, WaitState::Came(WaitMessage::Poll)) {
                return Ok(());
            }
            if let WaitState::Open = mem::replace(&mut wait.state, WaitState::Came(message)) {
                let WaitTable { table, news, .. } = &mut *waits;
                news.push(key.index, table);
            }
            self.has_news.store(true, Ordering::Relaxed);
            waits.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Refuses messages from now on; to be called within the lock.
    fn refuse(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl WaitTable {
    fn open(&mut self, strand: u32, handles: u32) -> WaitKey {
        let state = WaitState::Open;
        if let Some((index, wait)) = self.free.pop(&mut self.table) {
            let generation = wait.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
            (wait.generation, wait.strand, wait.handles) = (generation, strand, handles);
            wait.state = state;
            return WaitKey { index, generation };
        }
        let generation = NonZeroU32::MIN;
        self.table.push(WaitEntry { generation, strand, handles, next: NONE, state });
        WaitKey { index: index(self.table.len() - 1), generation }
    }

    /// Closes a wait, because its step has ended: later messages to it are stale. Returns the
    /// message that arrived for it and was not received.
    pub(crate) fn close(&mut self, key: WaitKey) -> Option<WaitMessage> {
        let wait = self.table.get_mut(key.index as usize)?;
        if wait.generation != key.generation {
            return None;
        }
        // a wait for which something came is in the list of news until that is received
        match mem::replace(&mut wait.state, WaitState::Free) {
            WaitState::Came(message) => return Some(message),
            WaitState::Open => self.free.push(key.index, &mut self.table),
            WaitState::Free => {}
        }
        None
    }

    /// The wait of this key, unless it has ended or was completed.
    pub(crate) fn get_mut(&mut self, key: WaitKey) -> Option<&mut WaitEntry> {
        let wait = self.table.get_mut(key.index as usize)?;
        let is_open = match &wait.state {
            WaitState::Open | WaitState::Came(WaitMessage::Poll) => true,
            WaitState::Free | WaitState::Came(_) => false,
        };
        (is_open && wait.generation == key.generation).then_some(wait)
    }

    fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    fn receive(&mut self) -> Option<Arrival> {
        while let Some((index, wait)) = self.news.pop(&mut self.table) {
            let (key, strand) = (WaitKey { index, generation: wait.generation }, wait.strand);
            match mem::replace(&mut wait.state, WaitState::Free) {
                WaitState::Came(WaitMessage::Poll) => {
                    wait.state = WaitState::Open;
                    return Some((key, strand, WaitMessage::Poll));
                }
                WaitState::Came(message) => {
                    self.free.push(index, &mut self.table);
                    return Some((key, strand, message));
                }
                // its step ended before the message was received
                WaitState::Free | WaitState::Open => self.free.push(index, &mut self.table),
            }
        }
        None
    }
}

/// A queue of waits, linked by their indices in the table: the last one is followed by the first. Each
/// wait is in one list at most.
struct IndexList {
    last: u32,
}

/// The last one of an empty list.
const NONE: u32 = u32::MAX;

impl Default for IndexList {
    fn default() -> Self {
        Self { last: NONE }
    }
}

impl IndexList {
    fn is_empty(&self) -> bool {
        self.last == NONE
    }

    fn push(&mut self, index: u32, table: &mut [WaitEntry]) {
        let first = match table.get_mut(self.last as usize) {
            Some(last) => mem::replace(&mut last.next, index),
            None => index,
        };
        if let Some(wait) = table.get_mut(index as usize) {
            wait.next = first;
        }
        self.last = index;
    }

    fn pop<'a>(&mut self, table: &'a mut [WaitEntry]) -> Option<(u32, &'a mut WaitEntry)> {
        let index = table.get(self.last as usize)?.next;
        if index == self.last {
            self.last = NONE;
        } else {
            table[self.last as usize].next = table[index as usize].next;
        }
        Some((index, &mut table[index as usize]))
    }
}

/// Wakes the flow for one awaited future (FTN12 §1.13).
pub(crate) struct FutureWaker {
    inbox: Arc<FlowInbox>,
    key: WaitKey,
}

impl FutureWaker {
    /// The waker of the future for which the step waits under this key.
    pub(crate) fn waker(inbox: &Arc<FlowInbox>, key: WaitKey) -> Waker {
        Waker::from(Arc::new(Self { inbox: Arc::clone(inbox), key }))
    }
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // a wake-up after the end of the step means nothing
        let _ = self.inbox.send(self.key, WaitMessage::Poll);
    }
}
