//! The host's data for one instance: its memory use, and the beginning of its stderr.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::ResourceLimiter;

/// The data of a store, which is all that a component can reach.
#[derive(Debug)]
pub(super) struct StoreState {
    memory_limit: usize,
    memory_used: usize,
    budget: Option<Arc<MemoryBudget>>,
    stderr: Vec<u8>,
}

impl StoreState {
    pub(super) fn new(memory_limit: usize, budget: Option<Arc<MemoryBudget>>) -> Self {
        Self { memory_limit, memory_used: 0, budget, stderr: Vec::new() }
    }

    /// Clears what earlier calls wrote.
    pub(super) fn begin_call(&mut self) {
        self.stderr.clear();
    }

    /// Returns the size of all linear memories.
    pub(super) fn memory_used(&self) -> usize {
        self.memory_used
    }

    /// Keeps the first 4 KiB of a call, because a panic says first what happened and then where.
    pub(super) fn write_stderr(&mut self, bytes: &[u8]) {
        let room = STDERR_BYTES.saturating_sub(self.stderr.len());
        self.stderr.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the component's output before it crashed, as one line.
    pub(super) fn last_words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stderr);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("note: "));
        let words = lines.take(LAST_LINES).collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then_some(words)
    }
}

impl ResourceLimiter for StoreState {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.memory_used.saturating_add(desired.saturating_sub(current));
        // An error instead of `false`, on which the guest's allocator would only crash with its own message.
        if used > self.memory_limit || maximum.is_some_and(|maximum| desired > maximum) {
            return Err(MemoryExceeded { limit: self.memory_limit }.into());
        }
        if let Some(budget) = &self.budget {
            budget.take(used - self.memory_used)?;
        }
        self.memory_used = used;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        // The system is out of memory, which is a better reason than the guest's.
        Err(error)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS)
    }
}

impl Drop for StoreState {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give_back(self.memory_used);
        }
    }
}

/// A limit for the memory of several instances together.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
    /// The budget that this one is part of.
    parent: Option<Arc<MemoryBudget>>,
}

impl MemoryBudget {
    /// Creates a budget of this many bytes, as part of another one if given.
    pub(super) fn new(limit: usize, parent: Option<Arc<MemoryBudget>>) -> Arc<Self> {
        Arc::new(MemoryBudget { limit, used: AtomicUsize::new(0), parent })
    }

    fn take(&self, bytes: usize) -> Result<(), MemoryExceeded> {
        let more = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.limit);
        let taken = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        taken.map_err(|_| MemoryExceeded { limit: self.limit })?;
        let of_whole = self.parent.as_ref().map_or(Ok(()), |whole| whole.take(bytes));
        of_whole.inspect_err(|_| {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
        })
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        if let Some(whole) = &self.parent {
            whole.give_back(bytes);
        }
    }
}

/// The error for exceeding the memory limit.
#[derive(Debug)]
pub(super) struct MemoryExceeded {
    /// The limit in bytes.
    pub limit: usize,
}

impl fmt::Display for MemoryExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory limit reached")
    }
}

impl std::error::Error for MemoryExceeded {}

/// The maximum number of elements of a table, also in the pool.
pub(super) const TABLE_ELEMENTS: usize = 20_000;

const STDERR_BYTES: usize = 4096;
const LAST_LINES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_panic_without_its_advice() {
        let mut state = StoreState::new(0, None);
        state.write_stderr(
            b"\nthread '<unnamed>' panicked at src/a.rs:1:2:\nno way\nnote: run with `RUST_BACKTRACE=1`\n",
        );
        assert_eq!(state.last_words().as_deref(), Some("thread '<unnamed>' panicked at src/a.rs:1:2: no way"));
        state.begin_call();
        assert_eq!(state.last_words(), None);
    }

    #[test]
    fn stderr_keeps_its_first_bytes_and_no_more() {
        let mut state = StoreState::new(0, None);
        state.write_stderr(b"first ");
        state.write_stderr(&[b'x'; 2 * STDERR_BYTES]);
        assert_eq!(state.stderr.len(), STDERR_BYTES);
        assert!(state.stderr.starts_with(b"first "));
    }

    #[test]
    fn memories_share_one_account() {
        let mut state = StoreState::new(3 << 16, None);
        assert!(state.memory_growing(0, 1 << 16, None).unwrap());
        assert!(state.memory_growing(0, 2 << 16, None).unwrap());
        assert_eq!(state.memory_used(), 3 << 16);
        assert!(state.memory_growing(2 << 16, 3 << 16, None).unwrap_err().is::<MemoryExceeded>());
    }

    #[test]
    fn instances_share_a_budget_and_give_back_what_they_had() {
        let all = MemoryBudget::new(5, None);
        let [mut one, mut other] =
            [4, 3].map(|most| StoreState::new(100, Some(MemoryBudget::new(most, Some(Arc::clone(&all))))));
        assert!(one.memory_growing(0, 5, None).is_err(), "its own part has four");
        assert!(one.memory_growing(0, 3, None).unwrap());
        assert!(other.memory_growing(0, 3, None).is_err(), "two are left of all");
        assert!(other.memory_growing(0, 2, None).unwrap());
        drop(one);
        assert!(other.memory_growing(2, 3, None).unwrap(), "it has taken nothing where it failed");
        assert_eq!(all.used.load(Ordering::SeqCst), 3);
    }
}
