//! What the build script compiles: the expressions of the built-in rules, and the words with which their matches begin.

use std::ops::Range;
use std::sync::OnceLock;

use regex_automata::dfa::{Automaton as _, dense};
use regex_automata::util::wire::AlignAs;
use regex_automata::{Anchored, Input};

/// The bytes of an automaton, aligned as it needs them.
macro_rules! aligned {
    ($name:literal) => {{
        const BYTES: &AlignAs<[u8], u32> =
            &AlignAs { _align: [], bytes: *include_bytes!(concat!(env!("OUT_DIR"), "/", $name)) };
        &BYTES.bytes
    }};
}

// The bytes of the expressions of each rule, in the order of the table, and a table that finds words.
include!(concat!(env!("OUT_DIR"), "/automata.rs"));

/// A word that calls for a closer look.
#[derive(Debug)]
pub(super) struct Word {
    /// Its length in bytes.
    length: usize,
    /// The rules that it concerns, by their numbers in the table.
    pub rules: &'static [usize],
    /// Whether names of secrets contain it.
    pub in_names: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Expression(Automaton);

type Automaton = dense::DFA<&'static [u32]>;

impl Expression {
    /// Returns the end of the match that begins here, if there is one.
    pub(super) fn end(&self, text: &str, at: usize) -> Option<usize> {
        let input = Input::new(text).range(at..).anchored(Anchored::Yes);
        let found = self.0.try_search_fwd(&input).expect("no byte stops the automaton");
        found.map(|found| found.offset())
    }
}

/// Returns the expressions of a rule, by its number in the table.
pub(super) fn expressions(rule: usize) -> &'static [Expression] {
    // An instance checks an automaton when it first needs it.
    static LOADED: [OnceLock<Vec<Expression>>; EXPRESSIONS.len()] = [const { OnceLock::new() }; EXPRESSIONS.len()];
    LOADED[rule].get_or_init(|| EXPRESSIONS[rule].iter().map(|bytes| Expression(load(bytes))).collect())
}

fn load(bytes: &'static [u8]) -> Automaton {
    dense::DFA::from_bytes(bytes).expect("the build script made it for this target").0
}

/// Calls a function with the beginning of each word in a part of a text, in any case, in the order of their ends.
pub(super) fn each_word(text: &str, part: Range<usize>, mut found: impl FnMut(usize, &'static Word)) {
    let mut state = 0;
    for (at, byte) in part.clone().zip(text[part].bytes()) {
        state = usize::from(NEXT[state + usize::from(CLASSES[usize::from(byte)])]);
        if state >= FIRST_FOUND {
            for word in FOUND[(state - FIRST_FOUND) / WIDTH].iter().map(|word| &WORDS[*word]) {
                found(at + 1 - word.length, word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case_and_inside_one_another() {
        fn found(text: &str) -> Vec<&str> {
            let mut found = Vec::new();
            each_word(text, 0..text.len(), |at, word| found.push(&text[at..at + word.length]));
            found
        }
        assert!(found("nothing").is_empty());
        assert_eq!(found("a ToKen"), ["ToKe", "ToKen"]);
        assert_eq!(found("PRIVATE_KEY2"), ["PRIV", "KEY"]);
        assert_eq!(found("_password éapi_key"), ["_pas", "pass", "api_", "key"]);
    }
}
