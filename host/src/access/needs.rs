//! Finds out which tools a server shows only to clients with certain capabilities.

use std::collections::BTreeMap;

use crate::logic::types::Tool;
use crate::registry::{Lease, Link, Unavailable};
use crate::session::Topics;

/// The client capabilities that tools need, by the name of the tool; tools that every client is shown are not in it.
pub type ToolNeeds = BTreeMap<String, Vec<&'static str>>;

/// Returns what the tools need that a server shows to a client with all capabilities.
///
/// The server is asked as a client without capabilities and, if that one is shown less, as clients that lack one. A
/// server of the initialize era loses its connection to this; it may have no other users.
pub async fn find_needs(link: &Link, lease: Lease, tools: &[Tool]) -> Result<ToolNeeds, Unavailable> {
    if tools.is_empty() {
        return Ok(ToolNeeds::new());
    }
    let clients = link.as_other_clients(lease).await?;
    let shown = clients.tools(Topics::default()).await?;
    let hidden = tools.iter().filter(|tool| !shown.contains(&tool.name));
    let mut needs: ToolNeeds = hidden.map(|tool| (tool.name.clone(), Vec::new())).collect();
    if needs.is_empty() {
        return Ok(needs);
    }
    for (capability, without) in CAPABILITIES {
        let shown = clients.tools(without).await?;
        for (_, needed) in needs.iter_mut().filter(|(tool, _)| !shown.contains(*tool)) {
            // A part of a capability says more than the whole.
            if !needed.iter().any(|part| part.starts_with(capability)) {
                needed.push(capability);
            }
        }
    }
    needs.values_mut().filter(|needed| needed.is_empty()).for_each(|needed| needed.push(ANY));
    Ok(needs)
}

/// The capabilities of a client, each with all topics but those of the capability; parts come before the whole.
const CAPABILITIES: [(&str, Topics); 5] = [
    ("roots", Topics { roots: false, roots_changed: false, ..Topics::ALL }),
    ("sampling", Topics { sampling: false, ..Topics::ALL }),
    ("elicitation.form", Topics { elicitation: false, ..Topics::ALL }),
    ("elicitation.url", Topics { url_elicitation: false, ..Topics::ALL }),
    ("elicitation", Topics { elicitation: false, url_elicitation: false, ..Topics::ALL }),
];
/// What a tool needs for which one of several capabilities is enough.
const ANY: &str = "any";
