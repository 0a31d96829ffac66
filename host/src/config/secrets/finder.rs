//! Finds secrets in a text.

use std::collections::BTreeSet;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use super::encodings;

/// Finds all forms of some values; without values it finds nothing.
#[derive(Debug, Default)]
pub(super) struct SecretFinder(Option<AhoCorasick>);

impl SecretFinder {
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>) -> Self {
        let forms: BTreeSet<String> = values.flat_map(encodings::encoded_forms).collect();
        let build = || AhoCorasick::new(&forms).expect("a configuration holds far fewer bytes than a finder can");
        SecretFinder((!forms.is_empty()).then(build))
    }

    /// Returns the ranges of secrets in order, without those that are only part of a word.
    pub(super) fn find(&self, text: &str, is_part: fn(&str, &Range<usize>) -> bool) -> Vec<Range<usize>> {
        // Most texts have none, and to see that is quicker than to look for all.
        let Some(finder) = self.0.as_ref().filter(|finder| finder.is_match(text)) else { return Vec::new() };
        let places = finder.find_overlapping_iter(text).map(|found| found.range());
        merge_ranges(places.filter(|place| !is_part(text, place)))
    }
}

/// Merges ranges that are sorted by their ends. Overlapping ones become one, so that no end of a secret is left over.
pub(super) fn merge_ranges(places: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for mut one in places {
        while let Some(before) = found.pop_if(|before| before.end > one.start) {
            one.start = one.start.min(before.start);
        }
        found.push(one);
    }
    found
}
