//! What the host keeps for one instance: its memory account, and the last words it wrote to stderr.

use std::fmt;

use wasmtime::ResourceLimiter;

/// The data of a store; all that a component can reach.
#[derive(Debug)]
pub(super) struct State {
    memory_limit: usize,
    memory_used: usize,
    stderr: Vec<u8>,
}

impl State {
    pub(super) fn new(memory_limit: usize) -> Self {
        Self { memory_limit, memory_used: 0, stderr: Vec::new() }
    }

    /// Forgets what earlier calls wrote.
    pub(super) fn begin_call(&mut self) {
        self.stderr.clear();
    }

    /// The size of all linear memories.
    pub(super) fn memory_used(&self) -> usize {
        self.memory_used
    }

    /// Keeps the first 4 KiB of a call: a panic says what happened before it says where.
    pub(super) fn write_stderr(&mut self, bytes: &[u8]) {
        let room = STDERR_BYTES.saturating_sub(self.stderr.len());
        self.stderr.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// What the component said before it broke off, on one line.
    pub(super) fn last_words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stderr);
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("note: "));
        let words = lines.take(LAST_LINES).collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then_some(words)
    }
}

impl ResourceLimiter for State {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.memory_used.saturating_add(desired.saturating_sub(current));
        // An error and not `false`: the guest's allocator would only break off with a text of its own.
        if used > self.memory_limit || maximum.is_some_and(|maximum| desired > maximum) {
            return Err(OverMemory.into());
        }
        self.memory_used = used;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        // The system has no memory left; that is a better reason than the guest's.
        Err(error)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS)
    }
}

/// The memory limit was reached.
#[derive(Debug)]
pub(super) struct OverMemory;

impl fmt::Display for OverMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory limit reached")
    }
}

impl std::error::Error for OverMemory {}

/// The most elements of a table, in the pool too.
pub(super) const TABLE_ELEMENTS: usize = 20_000;

const STDERR_BYTES: usize = 4096;
const LAST_LINES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_panic_without_its_advice() {
        let mut state = State::new(0);
        state.write_stderr(
            b"\nthread '<unnamed>' panicked at src/a.rs:1:2:\nno way\nnote: run with `RUST_BACKTRACE=1`\n",
        );
        assert_eq!(state.last_words().as_deref(), Some("thread '<unnamed>' panicked at src/a.rs:1:2: no way"));
        state.begin_call();
        assert_eq!(state.last_words(), None);
    }

    #[test]
    fn stderr_keeps_its_first_bytes_and_no_more() {
        let mut state = State::new(0);
        state.write_stderr(b"first ");
        state.write_stderr(&[b'x'; 2 * STDERR_BYTES]);
        assert_eq!(state.stderr.len(), STDERR_BYTES);
        assert!(state.stderr.starts_with(b"first "));
    }

    #[test]
    fn memories_share_one_account() {
        let mut state = State::new(3 << 16);
        assert!(state.memory_growing(0, 1 << 16, None).unwrap());
        assert!(state.memory_growing(0, 2 << 16, None).unwrap());
        assert_eq!(state.memory_used(), 3 << 16);
        assert!(state.memory_growing(2 << 16, 3 << 16, None).unwrap_err().is::<OverMemory>());
    }
}
