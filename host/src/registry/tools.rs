//! The tools of one server, read once and shared by all gates.

use std::fmt;
use std::sync::Arc;

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
    /// The tools in the component's form.
    pub offered: Arc<[Tool]>,
}

impl ToolList {
    /// Reads a list.
    pub(super) fn read(listing: Arc<Listing>, number: u64) -> Self {
        let definitions: Vec<_> = listing.items.iter().filter_map(|item| ToolDefinition::read(item)).collect();
        let offered = definitions.iter().map(ToolDefinition::tool).collect();
        ToolList { listing, number, definitions, offered }
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
        self.definitions.iter().find(|definition| definition.name == name)
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "list {} of {} tools", self.number, self.definitions.len())
    }
}
