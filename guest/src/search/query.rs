//! Takes a query apart: into sentences, and these into words with all terms that may be meant.

use std::borrow::Cow;

use super::index::SearchIndex;
use super::text::each_word;
use super::weights;

/// The maximum number of different words in a query: more are no question.
const MAX_WORDS: usize = 128;
/// The maximum number of sentences; the last one has the rest.
const MAX_SENTENCES: usize = 16;
/// The maximum number of words of a query that are compared with all words of the catalog.
const MAX_MISTYPED: usize = 4;
/// The maximum number of words that one word of a query may be a mistyped form of.
const MAX_GUESSES: usize = 8;
/// The maximum length of a value between quotes, in bytes; without it, each of many quotes would look for its end.
const MAX_VALUE: usize = 256;

/// A word of a query.
pub(super) struct Asked {
    /// The sentence that it is in.
    pub(super) sentence: usize,
    /// The word in lower case.
    pub(super) word: String,
    /// How much it counts.
    pub(super) weight: f32,
    /// Whether it says little about a tool, unless it is in its name.
    pub(super) is_weak: bool,
    /// The term of the word itself, if the catalog knows it.
    term: Option<u32>,
    /// The terms that it may mean, the most probable first.
    pub(super) meanings: Vec<Meaning>,
}

/// A term that a word may mean.
pub(super) struct Meaning {
    pub(super) term: u32,
    /// How much it counts.
    pub(super) weight: f32,
    /// A text that begins with the word of the catalog, or nothing if it is the one of the query.
    pub(super) word: Cow<'static, str>,
}

/// Returns the words of a query in order, each once in a sentence.
pub(super) fn words(index: &SearchIndex, query: &str) -> Vec<Asked> {
    let mut asked = collect(index, query, false);
    if asked.is_empty() {
        // A question of stop words only may still be a name: `who am i`.
        asked = collect(index, query, true);
    }
    // What is between quotes is mostly a value, and the catalog need not know it.
    let is_unknown = |asked: &&mut Asked| asked.meanings.is_empty() && asked.weight == 1.0 && !asked.is_weak;
    for asked in asked.iter_mut().filter(is_unknown).take(MAX_MISTYPED) {
        for (similar, term) in index.dictionary.similar(&asked.word) {
            if asked.meanings.len() < MAX_GUESSES {
                push(index, &mut asked.meanings, term, weights::OTHER, similar.into());
            }
        }
    }
    asked
}

fn collect(index: &SearchIndex, query: &str, with_stop_words: bool) -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    each_part(query, &mut |sentence, is_quoted, text| {
        each_word(text, &mut |word, is_whole| {
            let term = index.dictionary.term(word);
            let is_stop_word = term.is_some_and(|term| index.dictionary.is_stop_word(term));
            let is_known = |asked: &Asked| match term {
                Some(_) => asked.term == term,
                None => asked.word == word,
            };
            let is_new = |all: &[Asked]| !all.iter().rev().take_while(|asked| asked.sentence == sentence).any(is_known);
            if is_stop_word && !with_stop_words || all.len() >= MAX_WORDS || !is_new(&all) {
                return;
            }
            let mut meanings = Vec::new();
            if let Some(term) = term {
                push(index, &mut meanings, term, 1.0, "".into());
                index.thesaurus.each_synonym(term, &mut |other, word| {
                    if other != term {
                        push(index, &mut meanings, other, weights::OTHER, word.into());
                    }
                });
            }
            // Several words as one are only an additional chance.
            if is_whole && meanings.is_empty() {
                return;
            }
            let weight = if is_quoted { weights::QUOTED } else { 1.0 };
            let is_weak = term.is_some_and(|term| index.dictionary.is_weak_word(term));
            all.push(Asked { sentence, word: word.to_owned(), weight, is_weak, term, meanings });
        });
    });
    all
}

/// Adds a term that a word may mean, if a tool has it.
fn push(index: &SearchIndex, meanings: &mut Vec<Meaning>, term: u32, weight: f32, word: Cow<'static, str>) {
    if !index.postings(term).is_empty() && meanings.iter().all(|meaning| meaning.term != term) {
        meanings.push(Meaning { term, weight, word });
    }
}

/// Calls a function with each part of a query: the number of its sentence, and whether it is between quotes.
fn each_part(query: &str, visit: &mut dyn FnMut(usize, bool, &str)) {
    let (mut rest, mut sentence) = (query, 0);
    while !rest.is_empty() {
        let (mut text, behind) = rest.split_at(sentence_end(rest, sentence + 1 == MAX_SENTENCES));
        while let Some((start, end)) = quoted(text.as_bytes()) {
            visit(sentence, false, &text[..start]);
            visit(sentence, true, &text[start + 1..end]);
            text = &text[end + 1..];
        }
        visit(sentence, false, text);
        (rest, sentence) = (behind, sentence + 1);
    }
}

/// Returns where the first sentence of a text ends.
fn sentence_end(text: &str, is_last: bool) -> usize {
    let is_end = |&(at, sign): &(usize, char)| match sign {
        '.' | '!' | '?' => text[at + 1..].starts_with(char::is_whitespace),
        ';' | '\n' | '。' | '！' | '？' | '；' => true,
        _ => false,
    };
    let end = text.char_indices().find(is_end).filter(|_| !is_last);
    end.map_or(text.len(), |(at, sign)| at + sign.len_utf8())
}

/// Returns the places of the first two quotes that have a value between them. An apostrophe is within a word.
fn quoted(text: &[u8]) -> Option<(usize, usize)> {
    let is_letter = |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    let is_quote = |at: usize| matches!(text[at], b'"' | b'\'' | b'`');
    (0..text.len()).filter(|&at| is_quote(at) && !is_letter(at.wrapping_sub(1))).find_map(|start| {
        let longest = text.len().min(start + MAX_VALUE);
        let end = (start + 2..longest).find(|&at| text[at] == text[start] && !is_letter(at + 1))?;
        Some((start, end))
    })
}
