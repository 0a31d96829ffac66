//! Tries whether Redis can be used, and whether it still has what this replica wrote.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use redis::{Cmd, Value};

use super::super::epoch::{self, EpochWatch};
use super::super::local::LocalStore;
use super::{LONGEST_MS, keys, read};
use crate::store::StoreError;

/// Tries whether Redis can be used, and whether it still has what this replica wrote.
pub(super) struct Probe {
    pub(super) epoch: EpochWatch,
    local: Arc<LocalStore>,
    /// The key of the number of this replica's writes.
    writes_key: String,
    /// How many writes of this replica Redis has confirmed.
    confirmed: AtomicU64,
}

/// What a probe found.
pub(super) enum Probed {
    /// All is well.
    Whole,
    /// Redis has lost writes of this replica; this command ends its epoch.
    Lost(Cmd),
}

impl Probe {
    pub(super) fn new(replica: &str, local: Arc<LocalStore>) -> Self {
        let writes_key = keys::writes(replica);
        Probe { epoch: EpochWatch::default(), local, writes_key, confirmed: AtomicU64::new(0) }
    }

    /// Returns the key of the number of this replica's writes.
    pub(super) fn writes_key(&self) -> String {
        self.writes_key.clone()
    }

    /// Returns the number of writes that Redis has confirmed; it must know them all.
    pub(super) fn confirmed(&self) -> u64 {
        self.confirmed.load(SeqCst)
    }

    /// Returns a command that writes an epoch if there is none. It fails if Redis cannot be written.
    pub(super) fn write(&self) -> Cmd {
        let mut command = redis::cmd("SET");
        command.arg(keys::EPOCH).arg(epoch::draw()).arg("NX").arg("PX").arg(LONGEST_MS);
        command
    }

    /// Returns a command whose answer `judge` takes.
    pub(super) fn look(&self) -> Cmd {
        let mut command = redis::cmd("MGET");
        command.arg(keys::EPOCH).arg(&self.writes_key);
        command
    }

    /// Says what the answer to `look` means, if so many writes had been confirmed before it was asked.
    pub(super) fn judge(&self, answer: Value, confirmed: u64) -> Result<Probed, StoreError> {
        let (epoch, writes): (Option<String>, Option<u64>) = read(answer)?;
        let writes = writes.unwrap_or(0);
        self.note_epoch(&epoch.unwrap_or_default());
        // In a new epoch, writes are counted anew.
        if writes >= confirmed.min(self.confirmed()) {
            return Ok(Probed::Whole);
        }
        self.confirmed.store(writes, SeqCst);
        let mut end = redis::cmd("SET");
        end.arg(keys::EPOCH).arg(epoch::draw()).arg("PX").arg(LONGEST_MS);
        Ok(Probed::Lost(end))
    }

    /// Notes the epoch that Redis has now.
    pub(super) fn note_epoch(&self, epoch: &str) {
        if self.epoch.note(epoch, || self.local.remembered()) {
            self.confirmed.store(0, SeqCst);
        }
    }

    /// Notes the number of this replica's last write.
    pub(super) fn note_write(&self, number: u64) {
        self.confirmed.fetch_max(number, SeqCst);
    }
}
