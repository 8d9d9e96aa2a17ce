//! The allocator of benches, and of tests that count memory: mimalloc, as in the demo and in the template. Its calls can
//! be counted.
//!
//! A crate that counts the system's allocator would do, were it not to count all the time: that took a fifth of the
//! instructions of some workloads.
#![expect(unsafe_code, reason = "an allocator is unsafe to implement")]

pub mod hostile;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use mimalloc::MiMalloc;

/// mimalloc. While [`measure`] runs it counts what the thread takes and gives back; otherwise counting costs a load
/// and a branch.
#[derive(Debug)]
pub struct Heap;

/// What a piece of work took from the allocator on its thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapUse {
    /// Allocations; one that grows counts again.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Allocations that were not given back; negative if older ones were.
    pub count_kept: i64,
    /// Their bytes.
    pub bytes_kept: i64,
    /// The most bytes that it had taken and not given back at one time.
    pub bytes_at_once: i64,
}

thread_local! {
    static USE: Cell<Option<HeapUse>> = const { Cell::new(None) };
}

/// Runs `work` and counts what it takes and gives back on this thread. Not one inside of another.
pub fn measure(work: impl FnOnce()) -> HeapUse {
    USE.set(Some(HeapUse::default()));
    work();
    USE.take().unwrap_or_default()
}

/// So many bytes are taken, and so many given back.
#[inline]
fn note(taken: usize, given_back: usize) {
    USE.with(|cell| {
        if let Some(so_far) = cell.get() {
            cell.set(Some(so_far.after(taken, given_back)));
        }
    });
}

impl HeapUse {
    #[cold]
    fn after(mut self, taken: usize, given_back: usize) -> Self {
        // no block is larger than `isize::MAX`
        let change = taken.cast_signed() as i64 - given_back.cast_signed() as i64;
        self.count += u64::from(taken > 0);
        self.count_kept += i64::from(taken > 0) - i64::from(given_back > 0);
        self.bytes += taken as u64;
        self.bytes_kept += change;
        self.bytes_at_once = self.bytes_at_once.max(self.bytes_kept);
        self
    }
}

// SAFETY: mimalloc does the work, with the same arguments
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promise
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller's promise
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller's promise
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: the caller's promise
        unsafe { MiMalloc.realloc(block, layout, size) }
    }
}
