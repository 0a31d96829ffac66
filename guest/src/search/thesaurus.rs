//! Words with the same meaning, as authors of tools use them, and words that say nothing about a tool.

mod words;

pub(super) use words::{STOP_WORDS, WEAK_WORDS};

use super::dictionary::Dictionary;
use words::GROUPS;

/// The groups of words with the same meaning, as terms of a catalog.
pub(super) struct Thesaurus {
    /// The words of all groups, one group after the other.
    entries: Vec<Entry>,
    /// The first entry of each term.
    first: Vec<u16>,
}

/// A word in a group.
struct Entry {
    term: u32,
    /// Where the word is in the text of all groups.
    at: u16,
    /// The first entry of the group.
    group: u16,
    /// The next entry of the same term.
    next: u16,
}

/// Marks that there is no other entry.
const NONE: u16 = u16::MAX;

impl Thesaurus {
    /// Adds the words of the thesaurus to those of a catalog.
    pub(super) fn new(dictionary: &mut Dictionary) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut at = 0;
        for line in GROUPS.split('\n') {
            let group = entries.len() as u16;
            for word in line.split(' ') {
                entries.push(Entry { term: dictionary.add(word), at: at as u16, group, next: NONE });
                at += word.len() + 1;
            }
        }
        let mut first = vec![NONE; dictionary.count()];
        for (place, entry) in entries.iter_mut().enumerate().rev() {
            entry.next = std::mem::replace(&mut first[entry.term as usize], place as u16);
        }
        Thesaurus { entries, first }
    }

    /// Calls a function with each term that means the same as this one, and a text that begins with its word.
    pub(super) fn each_synonym(&self, term: u32, visit: &mut dyn FnMut(u32, &'static str)) {
        let mut place = self.first[term as usize];
        while let Some(entry) = self.entries.get(usize::from(place)) {
            let others = &self.entries[usize::from(entry.group)..];
            for other in others.iter().take_while(|other| other.group == entry.group) {
                visit(other.term, &GROUPS[usize::from(other.at)..]);
            }
            place = entry.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_plain_and_nowhere_twice() {
        assert!(GROUPS.len() < usize::from(NONE), "a place in it has 16 bits");
        let often_asked = format!("{STOP_WORDS} {WEAK_WORDS}");
        for line in GROUPS.lines().chain([&*often_asked]) {
            let words: Vec<&str> = line.split(' ').collect();
            for (at, word) in words.iter().enumerate() {
                let is_plain = !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_lowercase());
                assert!(is_plain && words.len() > 1 && !words[..at].contains(word), "{word} in {line}");
            }
        }
    }
}
