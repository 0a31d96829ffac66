//! The component's allocator: free lists of small blocks in front of the system allocator.
//!
//! A call allocates and frees about two dozen small blocks, and WASI's general allocator takes over a hundred
//! instructions for each: two fifths of all the work of a call.

#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;

#[global_allocator]
static HEAP: Heap = Heap;

static SHELVES: Shelves = Shelves(UnsafeCell::new([Shelf { first: ptr::null_mut(), blocks: 0 }; COUNT]));

/// Blocks are multiples of this size, so that a free list serves every size that rounds up to its own.
const GRAIN: usize = 16;
/// The number of free lists; the largest block has this many grains.
const COUNT: usize = 32;
/// The maximum length of a free list; further blocks go back to the system, which can join neighbours.
const BLOCKS: u32 = 64;

/// A zero-sized type, so that allocation sites need no pointer to it.
struct Heap;

struct Shelves(UnsafeCell<[Shelf; COUNT]>);

/// The free blocks of one size, each with the address of the next in its first bytes.
#[derive(Clone, Copy)]
struct Shelf {
    first: *mut u8,
    blocks: u32,
}

// SAFETY: the component has one thread.
unsafe impl Sync for Shelves {}

impl Heap {
    /// Returns the free list for this layout and its block size; large or unusually aligned layouts have none.
    fn shelf(layout: Layout) -> Option<(usize, Layout)> {
        let index = layout.size().wrapping_sub(1) / GRAIN;
        (index < COUNT && layout.align() <= ALIGN)
            // SAFETY: the alignment is a power of two, and the size is small.
            .then(|| (index, unsafe { Layout::from_size_align_unchecked((index + 1) * GRAIN, ALIGN) }))
    }
}

/// The alignment of every block from the system.
const ALIGN: usize = 8;

// SAFETY: a block on a free list came from the system with the list's block size, and nobody else uses it.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            let Some((index, whole)) = Self::shelf(layout) else { return System.alloc(layout) };
            let shelf = &mut (*SHELVES.0.get())[index];
            if shelf.first.is_null() {
                return System.alloc(whole);
            }
            let block = shelf.first;
            shelf.first = block.cast::<*mut u8>().read();
            shelf.blocks -= 1;
            block
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe {
            let Some((index, whole)) = Self::shelf(layout) else { return System.dealloc(block, layout) };
            let shelf = &mut (*SHELVES.0.get())[index];
            if shelf.blocks == BLOCKS {
                return System.dealloc(block, whole);
            }
            block.cast::<*mut u8>().write(shelf.first);
            shelf.first = block;
            shelf.blocks += 1;
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            match (Self::shelf(layout), Self::shelf(wanted)) {
                (None, None) => return System.realloc(block, layout, size),
                (Some((now, _)), Some((then, _))) if now == then => return block,
                _ => {}
            }
            let moved = self.alloc(wanted);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Allocates memory for values from the host; it must come from this allocator, because Rust frees it.
#[unsafe(no_mangle)]
unsafe extern "C" fn cabi_realloc(block: *mut u8, size: usize, align: usize, wanted: usize) -> *mut u8 {
    unsafe {
        let layout = |size| Layout::from_size_align_unchecked(size, align);
        let block = match (size, wanted) {
            (0, 0) => return ptr::without_provenance_mut(align),
            (0, _) => HEAP.alloc(layout(wanted)),
            _ => HEAP.realloc(block, layout(size), wanted),
        };
        if block.is_null() {
            // Trap without a message: not every host has an output to write to.
            core::arch::wasm32::unreachable();
        }
        block
    }
}
