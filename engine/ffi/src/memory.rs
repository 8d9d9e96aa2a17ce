//! Memory that foreign code asks for with `stack` (FTN12 §2.7.2).
#![expect(unsafe_code, reason = "memory and destructors from outside")]

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::ptr::NonNull;

use crate::abi::CleanupMemory;

/// Blocks of memory, released newest first.
#[derive(Default)]
pub(crate) struct MemoryBlocks(Vec<Block>);

struct Block {
    at: NonNull<u8>,
    layout: Layout,
    cleanup: Option<CleanupMemory>,
}

impl MemoryBlocks {
    /// Makes a block of `size` bytes; null if there is no memory.
    pub(crate) fn add(&mut self, size: usize, cleanup: Option<CleanupMemory>) -> *mut c_void {
        let Ok(layout) = Layout::from_size_align(size.max(1), 16) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the size is not 0
        let at = unsafe { alloc::alloc_zeroed(layout) };
        if let Some(at) = NonNull::new(at) {
            self.0.push(Block { at, layout, cleanup });
        }
        at.cast()
    }
}

impl Drop for MemoryBlocks {
    fn drop(&mut self) {
        while let Some(block) = self.0.pop() {
            drop(block);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(cleanup) = self.cleanup {
            // SAFETY: FTN12 §2.7.2 wants it called with the block, once
            unsafe { cleanup(self.at.as_ptr().cast()) };
        }
        // SAFETY: allocated with this layout, and freed only here
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}
