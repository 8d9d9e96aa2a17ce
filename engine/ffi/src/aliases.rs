//! Memory with several equivalent addresses, so that an address identifies a generation.
//!
//! The memory behind our C handles is never freed: it is used for one handle after the other. Foreign
//! code may use a pointer after its handle has ended, and that must be found out. So the memory begins
//! with eight copies of what the specification wants behind a pointer, and each generation of its use
//! is known by the address of the next copy.
#![expect(unsafe_code, reason = "pointers from outside are followed here")]

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many generations have different addresses.
pub(crate) const ALIASES: usize = 8;

/// The beginning of such memory. `T` is what the specification wants behind a pointer.
#[repr(C, align(128))]
pub(crate) struct Aliases<T> {
    aliases: [T; ALIASES],
    /// The address of this structure. A copy of an alias elsewhere does not have it, so it is
    /// recognized.
    own: AtomicUsize,
}

impl<T> Aliases<T> {
    pub(crate) fn new(alias: impl Fn() -> T) -> Self {
        const { assert!(size_of::<[T; ALIASES]>() + size_of::<usize>() <= align_of::<Self>()) };
        Self { aliases: std::array::from_fn(|_| alias()), own: AtomicUsize::new(0) }
    }

    /// Makes the pointers valid. The memory must not move any more.
    pub(crate) fn pin(&self) {
        self.own.store(ptr::from_ref(self).addr(), Ordering::Relaxed);
    }

    /// The address of a generation.
    #[inline]
    pub(crate) fn pointer(&self, generation: u32) -> *mut T {
        let first = ptr::from_ref(self).cast::<T>();
        first.wrapping_add(generation as usize % ALIASES).cast_mut()
    }

    /// The memory that an alias belongs to; `None` for a copy of an alias. The caller compares
    /// `alias` with [`pointer`](Self::pointer) to check its generation.
    ///
    /// # Safety
    /// `alias` points to a `T`.
    #[inline]
    pub(crate) unsafe fn find(alias: *const T) -> Option<*const Self> {
        let found: *const Self = alias.wrapping_byte_sub(alias.addr() % align_of::<Self>()).cast();
        // SAFETY: if it is not such memory, it still lies on the same page as the alias, because
        // pages are aligned to more than this type, and so it can be read
        let own = unsafe { &raw const (*found).own };
        // SAFETY: as above
        let own = unsafe { (*own).load(Ordering::Relaxed) };
        (own == found.addr()).then_some(found)
    }
}
