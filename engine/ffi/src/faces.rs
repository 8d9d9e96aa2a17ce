//! What pointers of ours lead to: memory that is never given back, with several places that look the
//! same from outside, so that the pointer itself tells which use of the memory it means.
#![expect(unsafe_code, reason = "pointers from outside are followed here")]

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many uses are told apart.
pub(crate) const FACES: usize = 8;

/// The beginning of such memory. `T` is what the specification wants behind a pointer.
#[repr(C, align(128))]
pub(crate) struct Faces<T> {
    faces: [T; FACES],
    /// The address of this: a copy of a face somewhere else does not have it there.
    own: AtomicUsize,
}

impl<T> Faces<T> {
    pub(crate) fn new(face: impl Fn() -> T) -> Self {
        const { assert!(size_of::<[T; FACES]>() + size_of::<usize>() <= align_of::<Self>()) };
        Self { faces: std::array::from_fn(|_| face()), own: AtomicUsize::new(0) }
    }

    /// From here on it stays where it is.
    pub(crate) fn settle(&self) {
        self.own.store(ptr::from_ref(self).addr(), Ordering::Relaxed);
    }

    /// What this use is known by outside.
    #[inline]
    pub(crate) fn pointer(&self, generation: u32) -> *mut T {
        let first = ptr::from_ref(self).cast::<T>();
        first.wrapping_add(generation as usize % FACES).cast_mut()
    }

    /// The faces that a pointer means, if they are settled there. Which use it means shows
    /// whether their [`pointer`](Self::pointer) is the same.
    ///
    /// # Safety
    /// `face` points to a `T`.
    #[inline]
    pub(crate) unsafe fn find(face: *const T) -> Option<*const Self> {
        let found: *const Self = face.wrapping_byte_sub(face.addr() % align_of::<Self>()).cast();
        // SAFETY: if it is none of ours, it still lies on the same page as the face, because pages
        // are aligned to more than this type, and so it can be read
        let own = unsafe { &raw const (*found).own };
        // SAFETY: as above
        let own = unsafe { (*own).load(Ordering::Relaxed) };
        (own == found.addr()).then_some(found)
    }
}
