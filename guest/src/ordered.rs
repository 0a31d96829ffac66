//! Ordered sets and maps, filled one by one: to collect them would bring a sort for each type into the component, of
//! seven kilobytes each.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the set of these items.
pub(crate) fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

/// Returns the map of these pairs; of two with the same key, the last one counts.
pub(crate) fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}
