//! The words of a catalog: each leads to its term, which is one for all forms of a word (`forecast`, `forecasts`).

use super::edits::{self, Letters};
use super::stem::stem;
use super::thesaurus::{STOP_WORDS, WEAK_WORDS};

/// The words of a catalog, in a table by their hashes.
pub(super) struct Dictionary {
    /// Each word with its term, in the order in which they came.
    words: Vec<(Key, u32)>,
    /// The letters of each word, or none of one that is only the stem of others: `citi` of `cities`.
    letters: Vec<Letters>,
    /// The number of words that the catalog has.
    own: usize,
    /// The places of the words in `words`; the number of slots is a power of two.
    slots: Vec<u32>,
    /// The number of terms.
    count: u32,
    /// Where the terms of words end that say nothing about a tool, then of those that say little.
    stop: u32,
    weak: u32,
}

/// Marks a slot without a word.
const FREE: u32 = u32::MAX;
/// How far from its slot a word may be. If many words have one slot, as an attacker may arrange, the table grows, and
/// they have others.
const MAX_DISTANCE: usize = 64;
/// The number of words that are compared at once.
const BLOCK: usize = 16;

impl Dictionary {
    /// Begins with the words that say nothing or little: they have the first terms.
    pub(super) fn new() -> Self {
        let slots = vec![FREE; 4096];
        let mut new = Dictionary { words: Vec::new(), letters: Vec::new(), own: 0, slots, count: 0, stop: 0, weak: 0 };
        for word in STOP_WORDS.split(' ') {
            new.add(word);
        }
        new.stop = new.count;
        for word in WEAK_WORDS.split(' ') {
            new.add(word);
        }
        new.weak = new.count;
        new
    }

    /// Returns the term of a word; a new word gets the term of its stem.
    pub(super) fn add(&mut self, word: &str) -> u32 {
        let key = Key::new(word);
        if let Some(at) = self.find(key) {
            if self.letters[at] == Letters::NONE {
                self.letters[at] = Letters::of(word.as_bytes());
            }
            return self.words[at].1;
        }
        let stemmed = Key::new(&stem(word));
        let term = match self.find(stemmed) {
            Some(at) => self.words[at].1,
            None => {
                self.count += 1;
                if stemmed != key {
                    self.insert(stemmed, self.count - 1, Letters::NONE);
                }
                self.count - 1
            }
        };
        self.insert(key, term, Letters::of(word.as_bytes()));
        term
    }

    fn find(&self, key: Key) -> Option<usize> {
        let start = key.hash(self.slots.len());
        for distance in 0..MAX_DISTANCE {
            match self.slots[(start + distance) & (self.slots.len() - 1)] {
                FREE => return None,
                at if self.words[at as usize].0 == key => return Some(at as usize),
                _ => {}
            }
        }
        None
    }

    fn insert(&mut self, key: Key, term: u32, letters: Letters) {
        self.words.push((key, term));
        self.letters.push(letters);
        let mut is_placed = 2 * self.words.len() <= self.slots.len() && self.place(self.words.len() - 1);
        while !is_placed {
            self.slots = vec![FREE; 2 * self.slots.len()];
            is_placed = (0..self.words.len()).all(|at| self.place(at));
        }
    }

    /// Puts a word into a slot, if one is free near its own.
    fn place(&mut self, at: usize) -> bool {
        let start = self.words[at].0.hash(self.slots.len());
        let mut near = (start..start + MAX_DISTANCE).map(|slot| slot & (self.slots.len() - 1));
        let free = near.find(|&slot| self.slots[slot] == FREE);
        if let Some(slot) = free {
            self.slots[slot] = at as u32;
        }
        free.is_some()
    }

    /// Ends the words of the catalog: those that are added later are not meant by a mistyped word.
    pub(super) fn end_catalog(&mut self) {
        self.own = self.words.len();
    }

    /// Returns the number of terms.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the term of a word or of its stem.
    pub(super) fn term(&self, word: &str) -> Option<u32> {
        let at = self.find(Key::new(word)).or_else(|| self.find(Key::new(&stem(word))))?;
        Some(self.words[at].1)
    }

    /// Reports whether a term is a word that says nothing about a tool.
    pub(super) fn is_stop_word(&self, term: u32) -> bool {
        term < self.stop
    }

    /// Reports whether a term is a word that says little about a tool.
    pub(super) fn is_weak_word(&self, term: u32) -> bool {
        (self.stop..self.weak).contains(&term)
    }

    /// Returns the words that differ from this one by the fewest typing mistakes, with their terms.
    pub(super) fn similar(&self, word: &str) -> Vec<(String, u32)> {
        let mut most = edits::forgiven(word);
        let mut similar = Vec::new();
        if most == 0 {
            return similar;
        }
        let letters = Letters::of(word.as_bytes());
        for (others, words) in self.letters[..self.own].chunks(BLOCK).zip(self.words.chunks(BLOCK)) {
            if !letters.any_may_be(others, most) {
                continue;
            }
            for (&others, (key, term)) in others.iter().zip(words) {
                if !letters.any_may_be(&[others], most) {
                    continue;
                }
                let bytes = key.bytes();
                let other = trimmed(&bytes);
                let Some(count) = edits::count(word.as_bytes(), other, most) else { continue };
                // A word with two mistakes is only meant if no word has one.
                if count < most {
                    similar.clear();
                    most = count;
                }
                similar.extend(std::str::from_utf8(other).ok().map(|other| (other.to_owned(), *term)));
            }
        }
        similar
    }
}

/// The first 24 bytes of a word, as numbers: they are compared faster than texts, and no English word is longer.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key([u64; 3]);

impl Key {
    const BYTES: usize = 24;

    fn new(word: &str) -> Self {
        let mut bytes = [[0; 8]; 3];
        let length = word.len().min(Key::BYTES);
        bytes.as_flattened_mut()[..length].copy_from_slice(&word.as_bytes()[..length]);
        Key(bytes.map(u64::from_le_bytes))
    }

    /// Returns the slot of the word among `count`; which words share one depends on their number.
    fn hash(self, count: usize) -> usize {
        let hash = self.0.iter().fold(count as u64, |hash, part| {
            let mixed = (hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ mixed >> 29
        });
        hash as usize & (count - 1)
    }

    /// Returns the bytes of the word, filled up with zeros.
    fn bytes(self) -> [u8; Key::BYTES] {
        let mut bytes = [0; Key::BYTES];
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(part, number)| *part = number.to_le_bytes());
        bytes
    }
}

/// Removes the zeros at the end of a key.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_share_a_slot_are_all_kept() {
        let mut dictionary = Dictionary::new();
        let count = dictionary.slots.len();
        let words = (0..800_000).map(|number| format!("w{number}")).filter(|word| Key::new(word).hash(count) == 1);
        let words: Vec<String> = words.take(2 * MAX_DISTANCE).collect();
        assert_eq!(words.len(), 2 * MAX_DISTANCE);
        let terms: Vec<u32> = words.iter().map(|word| dictionary.add(word)).collect();
        assert!(dictionary.slots.len() > count);
        for (word, term) in words.iter().zip(terms) {
            assert_eq!((dictionary.term(word), dictionary.add(word)), (Some(term), term), "{word}");
        }
    }
}
