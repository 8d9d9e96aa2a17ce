//! Foreign synchronisation objects for our flows, and ours for foreign steps (FTN12 §2.7.3).
#![expect(unsafe_code, reason = "objects from outside are called here")]

use std::rc::Rc;
use std::sync::Arc;

use asyncsteps_core::sync::{ISync, Section};
use asyncsteps_core::{AsyncSteps, Foreign, StepResult, codes};

use crate::abi::{FutoInAsyncSteps, FutoInSync, FutoInSyncAPI};
use crate::context::Context;
use crate::handle::{Handle, OpenHandle};
use crate::local::LocalPart;
use crate::own_sync::{self, OwnObject};
use crate::steps::{self, Addition, ForeignHandler, ForeignStep};

/// A foreign synchronisation object, for [`AsyncSteps::sync`].
#[derive(Clone, Copy, Debug)]
pub struct BinarySync(*mut FutoInSync);

impl BinarySync {
    /// The object behind a pointer.
    ///
    /// # Safety
    /// `sync` follows FTN12 §2.7.3 and outlives all flows that use it.
    #[must_use]
    pub const unsafe fn new(sync: *mut FutoInSync) -> Self {
        Self(sync)
    }

    /// The functions of the object; `None` if one is missing.
    fn functions(self) -> Option<(Function, Function)> {
        // SAFETY: the promise of `new`
        let api = unsafe { (*self.0).api };
        // SAFETY: a table of functions is one of functions or nulls
        let table = unsafe { api.cast::<[Option<Function>; 2]>().as_ref() }?;
        table[0].zip(table[1])
    }
}

/// `lock` or `unlock`.
type Function = unsafe extern "C" fn(*mut FutoInAsyncSteps, *mut FutoInSync);

const _: () = {
    assert!(size_of::<FutoInSyncAPI>() == size_of::<[Option<Function>; 2]>());
    assert!(std::mem::offset_of!(FutoInSyncAPI, unlock) == size_of::<Function>());
};

impl ISync for BinarySync {
    fn sync(&self, asi: &mut AsyncSteps, section: Section) -> StepResult {
        // SAFETY: the promise of `new`
        if let Some(ours) = unsafe { own_sync::for_ours(self.0) } {
            return ours.sync(asi, section);
        }
        let Some((lock, unlock)) = self.functions() else {
            let broken = "a synchronisation object without its functions";
            return asi.error(codes::INTERNAL_ERROR, broken);
        };
        let (context, sync) = (Context::of(asi), self.0);
        let unlock = UnlockGuard::new(*self, unlock, &context, asi);
        asi.hold(unlock);
        // SAFETY: FTN12 §2.7.3 wants it called in a step
        asi.add_inner(move |asi, ()| steps::call(&context, asi, |bsi| unsafe { lock(bsi, sync) }));
        section.add(asi);
        Ok(())
    }
}

/// A synchronisation object in Rust, such as a mutex of `asyncsteps-actors`, as a `FutoInSync*` for
/// foreign steps of our flows (FTN12 §2.7.3). The pointer is valid as long as this lives.
///
/// Steps on another implementation of AsyncSteps fail with it. For them there is
/// [`asyncsteps_mutex_new`](crate::exports::asyncsteps_mutex_new).
///
/// ```
/// use asyncsteps_core::sync::ISync;
/// use asyncsteps_ffi::SyncPointer;
///
/// fn for_c(lock: impl ISync + Send + Sync + 'static) -> SyncPointer {
///     SyncPointer::new(lock)
/// }
/// ```
#[derive(Debug)]
pub struct SyncPointer(*mut FutoInSync);

// SAFETY: the object that it points to is made for several threads
unsafe impl Send for SyncPointer {}
// SAFETY: as above
unsafe impl Sync for SyncPointer {}

impl SyncPointer {
    /// Makes a pointer for an object.
    #[must_use]
    pub fn new(object: impl ISync + Send + Sync + 'static) -> Self {
        Self(own_sync::open(OwnObject::ForOurs(Arc::new(object))))
    }

    /// The pointer for foreign steps. It is refused once `self` is dropped.
    #[must_use]
    pub fn as_ptr(&self) -> *mut FutoInSync {
        self.0
    }
}

impl Drop for SyncPointer {
    fn drop(&mut self) {
        // SAFETY: made by `open`; if foreign code closed it by mistake, this fails
        let _ = unsafe { own_sync::close(self.0) };
    }
}

/// Unlocks when it is dropped: on every way out of the step that keeps it.
struct UnlockGuard {
    sync: BinarySync,
    unlock: Function,
    attached: OpenHandle,
}

impl UnlockGuard {
    fn new(
        sync: BinarySync,
        unlock: Function,
        context: &Rc<Context>,
        asi: &mut AsyncSteps,
    ) -> Self {
        let handle = Handle::open();
        handle.set_id(steps::id(asi));
        let context = Some(Rc::clone(context));
        let unlock_local = LocalPart { context, attached: true, ..LocalPart::default() };
        handle.init(|local| *local = unlock_local);
        Self { sync, unlock, attached: OpenHandle(handle) }
    }
}

impl Drop for UnlockGuard {
    fn drop(&mut self) {
        let unlock = self.unlock;
        // SAFETY: FTN12 §2.7.3 wants it called once for each lock
        unsafe { unlock(self.attached.0.as_ptr(), self.sync.0) };
    }
}

/// A step that is synchronised against an object.
pub(crate) struct SyncStep {
    pub(crate) sync: BinarySync,
    pub(crate) step: ForeignStep,
}

impl Addition for SyncStep {
    fn add_to(self, asi: &mut AsyncSteps) {
        let Self { sync, step } = self;
        let handler = step.handler();
        let section = move |asi: &mut AsyncSteps, Foreign(values)| step.execute(asi, values);
        ForeignHandler::set(handler, &mut asi.sync(&sync, section));
    }
}
