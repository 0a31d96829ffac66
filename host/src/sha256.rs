//! SHA-256 by `ring`, which TLS has anyway: it uses what the processor offers.

use ring::digest::{Context, SHA256, digest};

/// A digest in progress.
pub(crate) struct Sha256(Context);

impl Sha256 {
    /// Starts with nothing.
    pub(crate) fn new() -> Self {
        Sha256(Context::new(&SHA256))
    }

    /// Adds some bytes.
    pub(crate) fn update(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes.as_ref());
    }

    /// Returns the digest in hexadecimal.
    pub(crate) fn hex(self) -> String {
        hex(self.0.finish().as_ref())
    }

    /// Returns the digest.
    pub(crate) fn finish(self) -> [u8; 32] {
        bytes(self.0.finish().as_ref())
    }
}

/// Returns the digest of some bytes.
pub(crate) fn sha256(content: &[u8]) -> [u8; 32] {
    bytes(digest(&SHA256, content).as_ref())
}

/// Returns the digest of some bytes in hexadecimal.
pub(crate) fn sha256_hex(content: &[u8]) -> String {
    hex(&sha256(content))
}

fn bytes(digest: &[u8]) -> [u8; 32] {
    digest.try_into().expect("the digest has 32 bytes")
}

/// Writes bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_sha_256_in_one_piece_or_several() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), expected);
        let mut pieces = Sha256::new();
        pieces.update("a");
        pieces.update(b"bc");
        assert_eq!(hex(&pieces.finish()), expected);
    }
}
