//! Counts the allocations of a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocations that a future makes on this thread.
pub async fn during(work: impl Future<Output = ()>) -> u64 {
    let before = COUNT.get();
    work.await;
    COUNT.get() - before
}

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

#[allow(unsafe_code, reason = "an allocator is unsafe to write; this one only counts and passes on")]
// SAFETY: the system's allocator does the work, and a cell without a destructor can be used at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
