//! The heap of the component: lists of small blocks, ready to be taken again, before the allocator of the system.
//!
//! A call takes and frees some two dozen small blocks, and the general allocator of WASI needs a hundred instructions and
//! more for each of them: that was two fifths of all that a call did here.

#![allow(unsafe_code, reason = "an allocator hands out raw memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;

#[global_allocator]
static HEAP: Heap = Heap;

static SHELVES: Shelves = Shelves(UnsafeCell::new([Shelf { first: ptr::null_mut(), blocks: 0 }; COUNT]));

/// Blocks are multiples of this, so that what is freed as one size may be taken as another of the same shelf.
const GRAIN: usize = 16;
/// The largest block on a shelf has this many grains.
const COUNT: usize = 32;
/// What is freed beyond this many goes back to the system, where neighbours grow together again.
const BLOCKS: u32 = 64;

/// It is nothing itself: so the thousand places that allocate need not name it.
struct Heap;

struct Shelves(UnsafeCell<[Shelf; COUNT]>);

/// Free blocks of one size, each with the address of the next in its first bytes.
#[derive(Clone, Copy)]
struct Shelf {
    first: *mut u8,
    blocks: u32,
}

// SAFETY: the component has one thread.
unsafe impl Sync for Shelves {}

impl Heap {
    /// The shelf for blocks of this layout, and their whole size; large and oddly aligned ones are none of ours.
    fn shelf(layout: Layout) -> Option<(usize, Layout)> {
        let index = layout.size().wrapping_sub(1) / GRAIN;
        (index < COUNT && layout.align() <= ALIGN)
            // SAFETY: a power of two, and a size that is small.
            .then(|| (index, unsafe { Layout::from_size_align_unchecked((index + 1) * GRAIN, ALIGN) }))
    }
}

/// What the system aligns every block to.
const ALIGN: usize = 8;

// SAFETY: a block on a shelf came from the system with the shelf's size, and nobody else has it.
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

/// Makes room for what the host hands in; it must be of this heap, since it is freed as what Rust owns.
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
            // Without a word: not every host has somewhere to write.
            core::arch::wasm32::unreachable();
        }
        block
    }
}
