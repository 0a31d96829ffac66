//! The tools of one server, read once and shared by all gates.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::logic::types::Tool;
use crate::session::Listing;

use super::definition::ToolDefinition;

/// The tools that a server listed.
pub struct ToolList {
    listing: Arc<Listing>,
    /// The number of this list, different for each new list of the server.
    pub number: u64,
    /// The tools as their server wrote them, in its order.
    pub definitions: Vec<ToolDefinition>,
    /// The tools in the component's form, in the same order.
    pub offered: Arc<[Tool]>,
    /// The places of the definitions, sorted by their names.
    by_name: Box<[u32]>,
    /// Whether the log says what changed with this list.
    is_told: AtomicBool,
}

impl ToolList {
    /// Reads a list.
    pub(super) fn read(listing: Arc<Listing>, number: u64) -> Self {
        let (definitions, offered): (Vec<_>, Vec<_>) = listing.items.iter().filter_map(ToolDefinition::read).unzip();
        let mut by_name: Box<[u32]> = (0u32..).zip(&definitions).map(|(place, _)| place).collect();
        // Stable, so that the first of several tools of one name comes first.
        by_name.sort_by_key(|place| &definitions[*place as usize].name);
        ToolList { listing, number, definitions, offered: offered.into(), by_name, is_told: AtomicBool::new(false) }
    }

    /// Returns true for the first caller, who says in the log what changed with this list: all gates see the same.
    pub(super) fn begin_telling(&self) -> bool {
        !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Returns the list that these tools were read from.
    pub(crate) fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Reports whether these tools were read from that list.
    pub(super) fn is_of(&self, listing: &Arc<Listing>) -> bool {
        Arc::ptr_eq(&self.listing, listing)
    }

    /// Reports whether that list has the same content.
    pub(super) fn says_the_same(&self, listing: &Listing) -> bool {
        let (ours, theirs) = (&self.listing.items, &listing.items);
        self.listing.cut == listing.cut && ours.iter().map(|tool| tool.get()).eq(theirs.iter().map(|tool| tool.get()))
    }

    /// Returns the definition of a tool by name; the first one if the server lists it twice.
    pub fn definition(&self, name: &str) -> Option<&ToolDefinition> {
        let definition = |place: &u32| &self.definitions[*place as usize];
        let first = self.by_name.partition_point(|place| *definition(place).name < *name);
        self.by_name.get(first).map(definition).filter(|definition| definition.name == name)
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list {} of {} tools", self.number, self.definitions.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::to_raw;

    #[test]
    fn a_tool_is_found_by_its_name_and_the_first_of_several_counts() {
        let item = |(name, title): (&str, u32)| to_raw(&serde_json::json!({"name": name, "title": title})).into();
        let items = [("c", 1), ("a", 2), ("c", 3), ("b", 4), ("a", 5)].map(item).into();
        let tools = ToolList::read(Arc::new(Listing { items, ..Listing::default() }), 1);
        let check = |name: &str, expected: Option<&str>| {
            let found = tools.definition(name).map(|definition| definition.raw.get());
            assert_eq!(found, expected, "{name}");
        };
        check("a", Some(r#"{"name":"a","title":2}"#));
        check("b", Some(r#"{"name":"b","title":4}"#));
        check("c", Some(r#"{"name":"c","title":1}"#));
        ["", "aa", "d"].iter().for_each(|name| check(name, None));
    }
}
