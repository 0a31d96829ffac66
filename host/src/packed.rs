//! Files that the build packed with DEFLATE, so that the program is smaller.

/// Unpacks a file that the build packed.
pub(crate) fn unpack(packed: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec(packed).expect("the build packed it")
}
