//! Typing mistakes: how many a word may have, and whether two words differ by more.

/// Returns how many mistakes are forgiven in a word. Short words have too many neighbours, and a word with digits is
/// mostly an identifier.
pub(super) fn forgiven(word: &str) -> usize {
    match word.len() {
        _ if !word.bytes().all(|letter| letter.is_ascii_lowercase()) => 0,
        4..8 => 1,
        8..=LONGEST => 2,
        _ => 0,
    }
}

/// The length of the longest word in which mistakes are forgiven.
const LONGEST: usize = 24;
/// More mistakes than are ever forgiven.
const FAR: u8 = 100;

/// The letters that a word has, in any order, and its length: most words differ from another in these already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Letters(u32);

impl Letters {
    /// The bits of all letters; those above them are the length.
    const BITS: u32 = (1 << 27) - 1;
    /// The letters of no word.
    pub(super) const NONE: Letters = Letters(0);

    /// Returns the letters of a word.
    pub(super) fn of(word: &[u8]) -> Self {
        let bit = |letter: u8| match letter {
            b'a'..=b'z' => 1 << (letter - b'a'),
            _ => 1 << 26,
        };
        let length = word.len().min(31) as u32;
        Letters(word.iter().fold(length << 27, |letters, &letter| letters | bit(letter)))
    }

    /// Reports whether one of some words may be within this many mistakes, which are 1 or 2. All words of a catalog are
    /// looked at, so there are no branches: a compiler makes it compare several words at once.
    #[inline(never)]
    pub(super) fn any_may_be(self, others: &[Letters], most: usize) -> bool {
        let most = most as u32;
        let without_one = |letters: u32| letters & letters.wrapping_sub(1);
        others.iter().fold(false, |any, other| {
            let is_near = (self.0 >> 27).wrapping_sub(other.0 >> 27).wrapping_add(most) <= 2 * most;
            // A mistake takes at most one letter away, and brings at most one.
            let gone = without_one(self.0 & !other.0 & Letters::BITS);
            let come = without_one(other.0 & !self.0 & Letters::BITS);
            let left = if most == 1 { gone | come } else { without_one(gone) | without_one(come) };
            any | (is_near & (left == 0))
        })
    }
}

/// Returns by how many inserted, missing, wrong or swapped letters one word becomes the other, if by at most `most`.
pub(super) fn count(one: &[u8], other: &[u8], most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most || one.len().max(other.len()) > LONGEST {
        return None;
    }
    // Each row has the mistakes between the first letters of one word and the starts of the other that are about as long.
    let mut rows = [[FAR; LONGEST + 1]; 3];
    for (column, cell) in rows[0].iter_mut().enumerate().take(most + 1) {
        *cell = column as u8;
    }
    for (row, &letter) in one.iter().enumerate() {
        let [before, last, this] = [(row + 2) % 3, row % 3, (row + 1) % 3];
        let first = row.saturating_sub(most);
        rows[this][first] = if first == 0 { row as u8 + 1 } else { FAR };
        for column in first..other.len().min(row + most + 1) {
            let against = other[column];
            let wrong = rows[last][column] + u8::from(letter != against);
            let mut cell = wrong.min(rows[last][column + 1] + 1).min(rows[this][column] + 1);
            if row > 0 && column > 0 && letter == other[column - 1] && one[row - 1] == against {
                cell = cell.min(rows[before][column - 1] + 1);
            }
            rows[this][column + 1] = cell;
        }
    }
    let count = usize::from(rows[one.len() % 3][other.len()]);
    (count <= most).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted_up_to_a_number() {
        for (one, other, expected) in [
            ("weather", "weather", Some(0)),
            ("weather", "wether", Some(1)),
            ("weather", "weatther", Some(1)),
            ("weather", "weathar", Some(1)),
            ("weather", "ewather", Some(1)),
            ("weather", "waether", Some(1)),
            ("weather", "whether", Some(2)),
            ("weather", "wetaehr", Some(2)),
            ("weather", "father", Some(2)),
            ("weather", "water", Some(2)),
            ("weather", "wheel", None),
            ("abcdef", "badcfe", None),
            ("ab", "abcde", None),
            ("", "ab", Some(2)),
        ] {
            let [a, b] = [one, other].map(str::as_bytes);
            assert_eq!(count(a, b, 2), expected, "{one} {other}");
            assert_eq!(count(b, a, 2), expected, "{other} {one}");
            assert_eq!(count(a, b, 1), expected.filter(|&count| count < 2), "{one} {other}");
            if let Some(count) = expected {
                assert!(Letters::of(a).any_may_be(&[Letters::of(b)], count.max(1)), "{one} {other}");
            }
        }
    }

    #[test]
    fn short_words_and_identifiers_are_meant_as_written() {
        let rows = [("abc", 0), ("abcd", 1), ("abcdefg", 1), ("abcdefgh", 2), ("abcd1", 0), ("abcé", 0)];
        for (word, expected) in rows {
            assert_eq!(forgiven(word), expected, "{word}");
        }
        assert_eq!(forgiven(&"a".repeat(100)), 0);
    }
}
