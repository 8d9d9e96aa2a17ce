//! Our synchronisation objects as `FutoInSync*` pointers (FTN12 §2.7.3).
#![expect(unsafe_code, reason = "called from outside, with pointers")]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use asyncsteps_core::codes;
use asyncsteps_core::sync::ISync;
use parking_lot::Mutex;

use crate::abi::{FutoInAsyncSteps, FutoInSync, FutoInSyncAPI};
use crate::aliases::Aliases;
use crate::guard::{Misuse, contained, report};
use crate::sync_object::{GONE, StepWaiter, SyncObject};

/// The table of all objects here.
static API: FutoInSyncAPI = FutoInSyncAPI { lock, unlock };

/// The memory behind our `FutoInSync*` pointers. It is never freed, see `aliases.rs`.
#[repr(C)]
pub(crate) struct SyncSlot {
    aliases: Aliases<FutoInSync>,
    generation: AtomicU32,
    object: Mutex<Option<OwnObject>>,
}

/// The object behind a pointer.
#[derive(Clone)]
pub(crate) enum OwnObject {
    /// For steps of every implementation: it uses their tables.
    ForAll(Arc<SyncObject>),
    /// For steps of this library only.
    ForOurs(Arc<dyn ISync + Send + Sync>),
}

// SAFETY: `aliases` never change, everything else is made for several threads
unsafe impl Sync for SyncSlot {}

static FREE: Mutex<Vec<&'static SyncSlot>> = Mutex::new(Vec::new());

/// Makes a pointer for an object.
pub(crate) fn open(object: OwnObject) -> *mut FutoInSync {
    let free = FREE.lock().pop();
    let slot = free.unwrap_or_else(|| {
        let slot = Box::leak(Box::new(SyncSlot {
            aliases: Aliases::new(|| FutoInSync { api: &raw const API }),
            generation: AtomicU32::new(0),
            object: Mutex::default(),
        }));
        slot.aliases.pin();
        slot
    });
    *slot.object.lock() = Some(object);
    slot.pointer()
}

/// Frees an object; refused while flows use one that is [`OwnObject::ForAll`].
///
/// # Safety
/// `sync` is null or follows FTN12 §2.7.3.
pub(crate) unsafe fn close(sync: *mut FutoInSync) -> Result<(), Misuse> {
    // SAFETY: the caller's promise
    let slot = unsafe { find(sync) }?;
    let object = {
        let mut held = slot.object.lock();
        if sync != slot.pointer() {
            return Err(GONE);
        }
        if let Some(OwnObject::ForAll(object)) = &*held {
            object.retire()?;
        }
        let object = held.take().ok_or(GONE)?;
        slot.generation.fetch_add(1, Ordering::AcqRel);
        object
    };
    FREE.lock().push(slot);
    drop(object);
    Ok(())
}

impl SyncSlot {
    fn pointer(&'static self) -> *mut FutoInSync {
        self.aliases.pointer(self.generation.load(Ordering::Acquire))
    }
}

/// # Safety
/// `sync` is null or follows FTN12 §2.7.3.
unsafe fn find(sync: *mut FutoInSync) -> Result<&'static SyncSlot, Misuse> {
    // SAFETY: the caller's promise
    let Some(alias) = (unsafe { sync.as_ref() }) else { return Err(Misuse::Null("sync")) };
    if !ptr::eq(alias.api, &raw const API) {
        return Err(Misuse::Rule("the synchronisation object is of another library"));
    }
    // SAFETY: it points to one
    let slot = unsafe { Aliases::find(alias) }.ok_or(Misuse::Rule("sync is a copy"))?;
    // SAFETY: aliases with this table are at the beginning of slots, which are never freed
    Ok(unsafe { &*slot.cast() })
}

/// # Safety
/// As `find`.
unsafe fn held(sync: *mut FutoInSync) -> Result<OwnObject, Misuse> {
    // SAFETY: the caller's promise
    let slot = unsafe { find(sync) }?;
    let held = slot.object.lock().clone();
    held.filter(|_| sync == slot.pointer()).ok_or(GONE)
}

/// The object behind a pointer if it is for steps of this library only.
///
/// # Safety
/// As `find`.
pub(crate) unsafe fn for_ours(sync: *mut FutoInSync) -> Option<Arc<dyn ISync + Send + Sync>> {
    // SAFETY: the caller's promise
    match unsafe { held(sync) } {
        Ok(OwnObject::ForOurs(object)) => Some(object),
        Ok(OwnObject::ForAll(_)) | Err(_) => None,
    }
}

/// # Safety
/// As `find`.
unsafe fn object(sync: *mut FutoInSync) -> Result<Arc<SyncObject>, Misuse> {
    // SAFETY: the caller's promise
    match unsafe { held(sync) }? {
        OwnObject::ForAll(object) => Ok(object),
        OwnObject::ForOurs(_) => {
            Err(Misuse::Rule("the object only takes steps of its own library"))
        }
    }
}

/// # Safety
/// Both are null or follow FTN12 §2.7.2 and §2.7.3.
unsafe extern "C" fn lock(bsi: *mut FutoInAsyncSteps, sync: *mut FutoInSync) {
    contained("lock", || {
        if bsi.is_null() {
            report("lock: bsi is NULL");
            return;
        }
        // SAFETY: the caller's promise
        let waiter = unsafe { StepWaiter::new(bsi) };
        // SAFETY: the caller's promise
        if let Err(misuse) = unsafe { object(sync) }.and_then(|object| object.lock(waiter)) {
            report(&format!("lock: {misuse}"));
            // the step fails instead of entering
            waiter.fail(codes::INTERNAL_ERROR, &misuse.to_string());
        }
    });
}

/// # Safety
/// As `lock`.
unsafe extern "C" fn unlock(bsi: *mut FutoInAsyncSteps, sync: *mut FutoInSync) {
    contained("unlock", || {
        // SAFETY: the caller's promise
        match unsafe { object(sync) } {
            _ if bsi.is_null() => report("unlock: bsi is NULL"),
            Ok(object) => {
                // SAFETY: the caller's promise
                object.unlock(unsafe { StepWaiter::new(bsi) });
            }
            Err(misuse) => report(&format!("unlock: {misuse}")),
        }
    });
}
