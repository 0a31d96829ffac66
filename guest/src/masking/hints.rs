//! Words that a text must contain for a rule to find anything, searched for all rules in one pass.
//!
//! Most texts contain none of them, which saves one pass per rule.

/// The words of all rules.
#[derive(Debug)]
pub(super) struct Hints {
    /// Each word, in lower case, and its rule, in the order of the words.
    words: Vec<(&'static str, usize)>,
    /// One bit for each pair of bytes that a word can begin with, by their lowest five bits.
    pairs: [u64; 16],
    /// The rules without words, which read every text.
    always: Vec<bool>,
}

impl Hints {
    /// Builds the hints from the words of each rule, in order; a rule without words may match any text.
    pub(super) fn new(rules: impl IntoIterator<Item = &'static [&'static str]>) -> Hints {
        let mut hints = Hints { words: Vec::new(), pairs: [0; 16], always: Vec::new() };
        for (rule, words) in rules.into_iter().enumerate() {
            hints.always.push(words.is_empty());
            for word in words {
                let &[first, second, ..] = word.as_bytes() else { panic!("a hint has two bytes at least") };
                let (place, bit) = place(first, second);
                hints.pairs[place] |= bit;
                let at = hints.words.partition_point(|(other, _)| other < word);
                hints.words.insert(at, (word, rule));
            }
        }
        hints
    }

    /// Reports which rules may find something in a text.
    pub(super) fn in_text(&self, text: &str) -> Vec<bool> {
        let mut wanted = self.always.clone();
        let bytes = text.as_bytes();
        for (at, pair) in bytes.windows(2).enumerate() {
            let (place, bit) = place(pair[0], pair[1]);
            if self.pairs[place] & bit == 0 {
                continue;
            }
            let pair = [pair[0].to_ascii_lowercase(), pair[1].to_ascii_lowercase()];
            let first = self.words.partition_point(|(word, _)| word.as_bytes() < pair.as_slice());
            for (word, rule) in self.words[first..].iter().take_while(|(word, _)| word.as_bytes().starts_with(&pair)) {
                let here = bytes[at..].get(..word.len());
                wanted[*rule] = wanted[*rule] || here.is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()));
            }
        }
        wanted
    }
}

/// Returns the position of a pair's bit, which both cases of a letter share.
fn place(first: u8, second: u8) -> (usize, u64) {
    let pair = usize::from(first & 31) << 5 | usize::from(second & 31);
    (pair >> 6, 1 << (pair & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_calls_for_the_rules_that_it_hints_at() {
        let hints = Hints::new([&["token"] as &[_], &[], &["ken", "://"], &["to"]]);
        for (text, wanted) in [
            ("nothing", [false, true, false, false]),
            ("a ToKen", [true, true, true, true]),
            ("TOKE", [false, true, false, true]),
            ("http://", [false, true, true, false]),
            ("http:/", [false, true, false, false]),
            // Other bytes with the same last bits, and two words that begin alike.
            ("zoo z//", [false, true, false, false]),
            ("Tokyo", [false, true, false, true]),
            ("", [false, true, false, false]),
            ("é", [false, true, false, false]),
        ] {
            assert_eq!(hints.in_text(text), wanted, "{text}");
        }
    }
}
