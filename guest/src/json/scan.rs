//! How many bytes can be copied into a JSON string, or out of one, unchanged.

/// Counts the bytes at the start that need no escape: no quote, backslash or control character.
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return n * 8 + marks.trailing_zeros() as usize / 8;
        }
    }
    let in_rest = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0x00..=0x1f));
    words.len() * 8 + in_rest.unwrap_or(rest.len())
}

/// Sets the high bit of the lowest byte that is a quote, a backslash or a control character.
///
/// A borrow can wrongly mark bytes above that one, so only the lowest mark counts.
fn marks(word: u64) -> u64 {
    let below = |word: u64, limit: u8| word.wrapping_sub(repeated(limit)) & !word;
    let equal = |byte: u8| below(word ^ repeated(byte), 1);
    (below(word, 0x20) | equal(b'"') | equal(b'\\')) & repeated(0x80)
}

/// Repeats a byte eight times.
const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::plain_run;
    use proptest::prelude::*;

    fn one_by_one(bytes: &[u8]) -> usize {
        bytes.iter().take_while(|byte| **byte >= 0x20 && !b"\"\\".contains(byte)).count()
    }

    #[test]
    fn every_byte_is_judged_alike_at_every_place() {
        for byte in 0..=255 {
            for length in 0..20 {
                for at in 0..length {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = byte;
                    assert_eq!(plain_run(&bytes), one_by_one(&bytes), "{byte:#x} at {at} of {length}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_run_ends_where_the_first_byte_needs_an_escape(bytes in proptest::collection::vec(
            prop_oneof![8 => any::<u8>(), 8 => 0x80..=0xff_u8, 1 => Just(b'"'), 1 => Just(b'\\'), 1 => 0..0x23_u8],
            0..64,
        )) {
            for start in 0..=bytes.len() {
                prop_assert_eq!(plain_run(&bytes[start..]), one_by_one(&bytes[start..]));
            }
        }
    }
}
