//! Builds an index: collects the words of all tools, then weighs them.

use std::cmp::Ordering;

use super::dictionary::Dictionary;
use super::index::{Field, Posting, SearchIndex, SearchableTool, Term, Tool};
use super::logarithm::log2;
use super::text::{cut, each_word};
use super::thesaurus::Thesaurus;
use super::{names, weights};
use crate::json::{self, Value};

/// The maximum length of a description that is searched, in bytes, and of all that is said about parameters.
const MAX_DESCRIPTION: usize = 8 * 1024;
/// The maximum length of a name that is searched, in bytes.
const MAX_NAME: usize = 1024;
/// The maximum nesting of parameters that are searched.
const MAX_DEPTH: usize = 4;

/// The words of the tools so far.
struct Collected {
    dictionary: Dictionary,
    /// Each word of each tool.
    found: Vec<FoundWord>,
    /// Where the words of each tool end in `found`, and how many there are in each field.
    tools: Vec<(usize, [u32; Field::COUNT])>,
}

/// A word of a tool: its term and its field, in as little room as there can be, since there are many.
#[derive(Clone, Copy)]
struct FoundWord(u32);

impl FoundWord {
    fn new(term: u32, field: Field) -> Self {
        FoundWord(term << 3 | field as u32)
    }

    fn term(self) -> usize {
        (self.0 >> 3) as usize
    }

    fn field(self) -> Field {
        Field::ALL[(self.0 & 7) as usize]
    }
}

/// Builds the index of some tools.
pub(super) fn index(tools: &[SearchableTool<'_>]) -> SearchIndex {
    // Everything is counted and added in this order, so the order in which tools are given changes no score.
    let order = sorted(tools.len(), &|one, other| compare(&tools[one], &tools[other]));
    let mut collected = Collected { dictionary: Dictionary::new(), found: Vec::new(), tools: Vec::new() };
    for &at in &order {
        collected.tool(&tools[at]);
    }
    collected.dictionary.end_catalog();
    let thesaurus = Thesaurus::new(&mut collected.dictionary);
    let (terms, postings, name_weights) = collected.weigh();
    let mut names = String::new();
    let mut entries = Vec::with_capacity(order.len());
    for (&at, name_weight) in order.iter().zip(name_weights) {
        let [server, name] = [tools[at].server, tools[at].name].map(|name| cut(name, MAX_NAME));
        names.push_str(server);
        let middle = names.len() as u32;
        names.push_str(name);
        let (end, letters) = (names.len() as u32, names::letters(server, name));
        entries.push(Tool { position: at as u32, name_weight, middle, end, letters });
    }
    SearchIndex { dictionary: collected.dictionary, terms, postings, tools: entries, names, thesaurus }
}

/// Returns the numbers below `count` in order. It merges runs that are in order already, each time twice as long: the
/// sort of the standard library would add eight kilobytes to the component.
fn sorted(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut length = 1;
    while length < count {
        let mut merged = Vec::with_capacity(count);
        for both in order.chunks(2 * length) {
            let (mut left, mut right) = both.split_at(length.min(both.len()));
            while let (Some(&one), Some(&other)) = (left.first(), right.first()) {
                let is_right = compare(one, other).is_gt();
                merged.push(if is_right { other } else { one });
                if is_right { right = &right[1..] } else { left = &left[1..] }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        order = merged;
        length *= 2;
    }
    order
}

fn compare(one: &SearchableTool<'_>, other: &SearchableTool<'_>) -> Ordering {
    fn key<'a>(tool: &SearchableTool<'a>) -> (&'a str, &'a str, Option<&'a str>, Option<&'a str>) {
        (tool.name, tool.server, tool.description, tool.input_schema)
    }
    key(one).cmp(&key(other))
}

impl Collected {
    fn tool(&mut self, tool: &SearchableTool<'_>) {
        let mut lengths = [0; Field::COUNT];
        self.text(cut(tool.name, MAX_NAME), Field::Name, &mut lengths);
        self.text(cut(tool.server, MAX_NAME), Field::Server, &mut lengths);
        self.text(cut(tool.description.unwrap_or_default(), MAX_DESCRIPTION), Field::Description, &mut lengths);
        // Parsed only for as long as it is read: all together would take more room than the index.
        if let Some(schema) = tool.input_schema.and_then(|schema| json::parse(schema).ok()) {
            self.parameters(&schema, MAX_DEPTH, &mut { MAX_DESCRIPTION }, &mut lengths);
        }
        self.tools.push((self.found.len(), lengths));
    }

    fn text(&mut self, text: &str, field: Field, lengths: &mut [u32; Field::COUNT]) {
        let is_prose = matches!(field, Field::Description | Field::Parameter);
        each_word(text, &mut |word, is_whole| {
            let term = self.dictionary.add(word);
            if is_prose && self.dictionary.is_stop_word(term) {
                return;
            }
            let field = if field == Field::Name && is_whole { Field::Whole } else { field };
            self.found.push(FoundWord::new(term, field));
            lengths[field as usize] += u32::from(!is_whole);
        });
    }

    /// Collects the names and the descriptions of parameters, also of those within others.
    fn parameters(&mut self, schema: &Value<'_>, depth: usize, left: &mut usize, lengths: &mut [u32; Field::COUNT]) {
        let Some(depth) = depth.checked_sub(1) else { return };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            let properties: Vec<(&str, &Value<'_>)> = properties.iter().collect();
            // The first ones by name count if there are too many, whatever their order is.
            for at in sorted(properties.len(), &|one, other| properties[one].0.cmp(properties[other].0)) {
                let (name, parameter) = properties[at];
                let description = parameter.get("description").and_then(Value::as_str).unwrap_or_default();
                for text in [name, description] {
                    let text = cut(text, *left);
                    *left -= text.len();
                    self.text(text, Field::Parameter, lengths);
                }
                self.parameters(parameter, depth, left, lengths);
            }
        }
        schema.get("items").into_iter().for_each(|items| self.parameters(items, depth, left, lengths));
        for key in ["anyOf", "oneOf", "allOf"] {
            let parts = schema.get(key).and_then(Value::as_array).unwrap_or_default();
            parts.iter().for_each(|part| self.parameters(part, depth, left, lengths));
        }
    }

    /// Returns the terms with the tools that have them, and how much all the words in the name of each tool weigh.
    fn weigh(&self) -> (Vec<Term>, Vec<Posting>, Vec<f32>) {
        let mut terms = self.terms();
        let mut postings = vec![Posting::default(); terms.last().map_or(0, |term| term.end as usize)];
        // Until the end, `end` is where the next posting of a term goes.
        for at in (1..terms.len()).rev() {
            terms[at].end = terms[at - 1].end;
        }
        terms[0].end = 0;
        let means = self.mean_lengths();
        let mut weights_of = vec![(0.0, 0u8); terms.len()];
        let mut start = 0;
        let weigh = |(tool, &(end, lengths)): (usize, &(usize, [u32; Field::COUNT]))| {
            let found = &self.found[std::mem::replace(&mut start, end)..end];
            for word in found {
                let (term, field) = (word.term(), word.field());
                let (weight, fields) = &mut weights_of[term];
                let length = lengths[field as usize] as f32 / means[field as usize];
                *weight += field.weight() / (1.0 - weights::LENGTH + weights::LENGTH * length);
                *fields |= field.bit();
            }
            let mut name_weight = 0.0;
            for word in found {
                let (term, field) = (word.term(), word.field());
                let (weight, fields) = std::mem::take(&mut weights_of[term]);
                // The word was there before.
                if fields == 0 {
                    continue;
                }
                let Term { end, idf } = &mut terms[term];
                if field == Field::Name {
                    name_weight += *idf;
                }
                let weight = weight * (1.0 + weights::REPETITION) / (weight + weights::REPETITION);
                postings[*end as usize] = Posting::new(tool, fields, weight);
                *end += 1;
            }
            name_weight
        };
        let name_weights = self.tools.iter().enumerate().map(weigh).collect();
        (terms, postings, name_weights)
    }

    /// Returns the terms, with the end of their postings, and how rare they are.
    fn terms(&self) -> Vec<Term> {
        // The last tool that has a term, and how many have it.
        let mut seen = vec![(usize::MAX, 0u32); self.dictionary.count()];
        let mut start = 0;
        for (tool, (end, _)) in self.tools.iter().enumerate() {
            for word in &self.found[start..*end] {
                let (last, count) = &mut seen[word.term()];
                *count += u32::from(*last != tool);
                *last = tool;
            }
            start = *end;
        }
        let all = self.tools.len() as f64;
        let mut end = 0;
        let term = |(_, count): (usize, u32)| {
            end += count;
            let count = f64::from(count);
            Term { end, idf: log2(1.0 + (all - count + 0.5) / (count + 0.5)) as f32 }
        };
        seen.into_iter().map(term).collect()
    }

    fn mean_lengths(&self) -> [f32; Field::COUNT] {
        let mut sums = [0u64; Field::COUNT];
        for (_, lengths) in &self.tools {
            sums.iter_mut().zip(lengths).for_each(|(sum, &length)| *sum += u64::from(length));
        }
        // A field that no tool has gets any length but zero.
        sums.map(|sum| (sum as f64 / self.tools.len().max(1) as f64).max(1.0) as f32)
    }
}
