//! Ranks the tools for a query.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::{Field, SearchIndex};
use super::names::{Match, Name};
use super::query::{self, Asked};
use super::text::cut;
use super::weights;

/// The maximum length of a query, in bytes; the rest is ignored.
const MAX_QUERY: usize = 4 * 1024;
/// The maximum number of words that are told of one tool.
const MAX_TOLD: usize = 16;
/// The sum of a typical tool that suits a query well; as a score it is a half.
const TYPICAL: f64 = 20.0;
/// The fields as they are told, but [`Field::Whole`], which is the first one, too.
const FIELDS: [(&str, Field); 4] = [
    ("name: ", Field::Name),
    ("server: ", Field::Server),
    ("description: ", Field::Description),
    ("parameters: ", Field::Parameter),
];

/// A tool that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexHit {
    /// Its position in the tools that the index was made from.
    pub tool: usize,
    /// How well it suits the query: below 1, or above if the query is its name.
    pub score: f64,
    /// Why it was found: the words of the query that it has, and where.
    pub why: String,
}

/// What a tool has of a query.
#[derive(Clone, Copy, Default)]
struct Tally {
    /// The last word of the query that it has, as a number from 1.
    last: u32,
    /// The score for that word, and what it covers of the tool's name.
    word: f32,
    named: f32,
    /// The same for the words before it in the sentence.
    sentence: f32,
    covered: f32,
    /// The best score for a sentence, as a share of the highest one of all tools.
    best: f32,
    /// The scores for all sentences together.
    total: f32,
}

impl Tally {
    fn end_word(&mut self) {
        self.sentence += std::mem::take(&mut self.word);
        self.covered += std::mem::take(&mut self.named);
    }
}

impl SearchIndex {
    /// Returns the best tools for a query, best first; each by its position in the tools that the index was made from.
    pub fn find(&self, query: &str, limit: usize) -> Vec<IndexHit> {
        self.find_if(query, limit, &mut |_| true)
    }

    /// Returns the best tools for a query among those that are admitted, by their position. It asks for no more tools
    /// than needed, the best first.
    pub fn find_if(&self, query: &str, limit: usize, admits: &mut dyn FnMut(usize) -> bool) -> Vec<IndexHit> {
        let query = cut(query, MAX_QUERY);
        let asked = query::words(self, query);
        let name = Name::new(query);
        let mut found = Vec::new();
        for (at, (tool, sum)) in self.tools.iter().zip(self.sums(&asked)).enumerate() {
            let mut named = Match::None;
            if name.may_be(tool.letters) {
                let (server, own) = self.names(at);
                named = name.compare(server, own);
            }
            let score = f64::from(named as u8) + f64::from(sum) / (f64::from(sum) + TYPICAL);
            if score > 0.0 {
                // Scores are positive, so their bits sort as they do. Of equal ones, the first by name is better.
                found.push((score.to_bits(), Reverse(at)));
            }
        }
        let mut found = BinaryHeap::from(found);
        let mut hits = Vec::new();
        while hits.len() < limit
            && let Some((bits, Reverse(at))) = found.pop()
        {
            let tool = self.tools[at].position as usize;
            if admits(tool) {
                hits.push(IndexHit { tool, score: f64::from_bits(bits), why: self.why(at, &asked) });
            }
        }
        hits
    }

    /// Returns how much each tool has of a query. The best tools for each sentence count the same, since each asks for a
    /// tool of its own.
    fn sums(&self, asked: &[Asked]) -> Vec<f32> {
        let mut tallies = vec![Tally::default(); self.tools.len()];
        let mut highest_of_all = 0.0;
        let mut number = 0;
        for sentence in asked.chunk_by(|one, other| one.sentence == other.sentence) {
            for asked in sentence {
                number += 1;
                self.add(asked, number, &mut tallies);
            }
            let mut highest = 0.0;
            for (tally, tool) in tallies.iter_mut().zip(&self.tools) {
                tally.end_word();
                let covered = std::mem::take(&mut tally.covered) / tool.name_weight.max(1.0);
                // The minimum of the standard library is a call in WebAssembly.
                tally.sentence *= 1.0 + weights::NAME_COVERAGE * if covered < 1.0 { covered } else { 1.0 };
                if tally.sentence > highest {
                    highest = tally.sentence;
                }
            }
            if highest == 0.0 {
                continue;
            }
            for tally in &mut tallies {
                let score = std::mem::take(&mut tally.sentence);
                tally.total += score;
                if score / highest > tally.best {
                    tally.best = score / highest;
                }
            }
            if highest > highest_of_all {
                highest_of_all = highest;
            }
        }
        tallies.iter().map(|tally| highest_of_all * tally.best + weights::WHOLE * tally.total).collect()
    }

    /// Adds what a word of the query says about all tools: of its meanings, the best one counts.
    fn add(&self, asked: &Asked, number: u32, tallies: &mut [Tally]) {
        let own = asked.meanings.first().filter(|meaning| meaning.word.is_empty());
        let rarity = own.map_or(f32::MAX, |own| self.terms[own.term as usize].idf);
        let outside = if asked.is_weak { weights::WEAK } else { 1.0 };
        for meaning in &asked.meanings {
            // A rare synonym of a common word is no better than the word.
            let idf = self.terms[meaning.term as usize].idf;
            let weight = asked.weight * meaning.weight * if idf < rarity { idf } else { rarity };
            for posting in self.postings(meaning.term) {
                let tally = &mut tallies[posting.tool()];
                if tally.last != number {
                    tally.last = number;
                    tally.end_word();
                }
                let is_named = posting.is_in(Field::Name);
                let score = weight * posting.weight() * if is_named { 1.0 } else { outside };
                if score > tally.word {
                    tally.word = score;
                }
                if is_named && weight > tally.named {
                    tally.named = weight;
                }
            }
        }
    }

    /// Returns which words of the query a tool has, by field.
    fn why(&self, tool: usize, asked: &[Asked]) -> String {
        let mut fields = [const { String::new() }; FIELDS.len()];
        let mut told = Vec::new();
        for asked in asked {
            let mut found = asked.meanings.iter().filter_map(|meaning| {
                let postings = self.postings(meaning.term);
                let at = postings.binary_search_by(|posting| posting.tool().cmp(&tool)).ok()?;
                Some((meaning, postings[at]))
            });
            let Some((meaning, posting)) = found.next() else { continue };
            if told.len() == MAX_TOLD || told.contains(&meaning.term) {
                continue;
            }
            told.push(meaning.term);
            let first = FIELDS.iter().position(|&(_, field)| posting.is_in(field)).unwrap_or(0);
            let text = &mut fields[first];
            text.push_str(if text.is_empty() { FIELDS[first].0 } else { ", " });
            let other = meaning.word.split([' ', '\n']).next().unwrap_or_default();
            if other.is_empty() || other == asked.word {
                text.push_str(&asked.word);
            } else {
                [other, " (for ", &asked.word, ")"].iter().for_each(|part| text.push_str(part));
            }
        }
        let mut why = String::new();
        for field in fields.iter().filter(|field| !field.is_empty()) {
            why.push_str(if why.is_empty() { "" } else { "; " });
            why.push_str(field);
        }
        if why.is_empty() { "name".to_owned() } else { why }
    }
}
