//! Digests: SHA-256 in hexadecimal.

use serde::{Deserialize, Serialize};

use crate::sha256::{Sha256, sha256_hex};

/// The length of a content, and its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentDigest {
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal.
    pub sha256: String,
}

impl ContentDigest {
    /// Computes the length and digest of a text.
    pub fn of(text: &str) -> Self {
        ContentDigest { bytes: text.len() as u64, sha256: sha256_hex(text.as_bytes()) }
    }

    /// Computes the length and digest of several texts, each preceded by its length; `None` if all are empty.
    pub fn of_parts<'a>(parts: impl Iterator<Item = &'a String> + Clone) -> Option<Self> {
        let bytes = parts.clone().map(String::len).sum::<usize>() as u64;
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        (bytes > 0).then(|| ContentDigest { bytes, sha256: hash.hex() })
    }

    /// Returns the length and the first digits, for people.
    pub fn describe(&self) -> String {
        format!("{} bytes, {}", self.bytes, short(&self.sha256))
    }
}

/// Returns the digest of a value in JSON.
pub(super) fn json_sha256<T: Serialize + ?Sized>(value: &T) -> String {
    sha256_hex(&serde_json::to_vec(value).expect("keys are strings, so it is always JSON"))
}

/// Shortens a digest to its first digits, for people.
pub fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}
