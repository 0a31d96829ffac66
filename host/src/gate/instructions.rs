//! Instructions for the model: what servers want it to know, and which servers it cannot use.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::{Gate, GateError, naming};
use crate::config::model::ToolConfig;
use crate::decide::{Decide, LogicResult};
use crate::json::LossyString;
use crate::logic::types::catalog::{ExposedTool, FailedServer, ServerNotes, ToolNote};
use crate::registry::{Link, Unavailable};
use crate::session::{ListKind, Listing, Session};

impl Gate {
    /// Builds the instructions of all servers that the gate may use, and connects them for it.
    pub async fn instructions(&self) -> Result<String, GateError> {
        let links = self.usable_links();
        let connected = links.iter().map(|link| async move { (link, self.connect(link).await) });
        let connected = futures_util::future::join_all(connected).await;
        let tools = self.tools(&self.style())?;
        let (mut notes, mut failed) = (Vec::new(), Vec::new());
        for (link, outcome) in connected {
            match outcome {
                Ok(lease) => notes.push(self.notes(link, lease.session(), &tools).await?),
                Err(why) => failed.push(self.failed(link, &why)),
            }
        }
        Ok(self.backend().pool.ask(0, |logic| logic.instructions(&notes, &failed))?)
    }

    /// Builds the instructions from what is known now, with tools named in this style, and with the servers that are
    /// known to have failed; servers without instructions are omitted.
    pub fn known_instructions(&self, style: &naming::NamingStyle) -> Result<String, GateError> {
        let links = self.usable_links();
        // Almost no configuration has notes on tools.
        let noted = links.iter().any(|link| link.server().tools.iter().any(|rules| rules.note.is_some()));
        let tools = if noted { self.tools(style)? } else { Vec::new() };
        let (mut notes, mut failed) = (Vec::new(), Vec::new());
        for link in links {
            if let Some(why) = link.known_failure() {
                failed.push(self.failed(&link, &why));
                continue;
            }
            let (mut own, mut prompts) = (None, Vec::new());
            if self.admits(link.id()) {
                own = self.instructions_of(&link)?;
                prompts =
                    link.known_others(ListKind::Prompts).map(|listing| descriptions(&listing)).unwrap_or_default();
            }
            let note = self.note(&link, own, &prompts, &tools)?;
            if note.instructions.is_some() || !note.prompts.is_empty() || !note.tools.is_empty() {
                notes.push(note);
            }
        }
        Ok(self.backend().pool.ask(0, |logic| logic.instructions(&notes, &failed))?)
    }

    /// Returns the servers of which the agent may use anything; it learns nothing about others.
    fn usable_links(&self) -> Vec<Arc<Link>> {
        let mut links = self.links();
        links.retain(|link| self.selects(link.id()));
        links
    }

    /// Starts the servers that nobody has used yet, and waits until their tools are known, they have failed, or the time
    /// is over.
    pub(crate) async fn meet_servers(&self, limit: Duration) {
        let links = self.usable_links();
        let is_new = |link: &&Arc<Link>| link.known_tools().is_none() && link.known_failure().is_none();
        let start = links.iter().filter(is_new).map(|link| async move {
            if let Ok(lease) = link.lease_if_it_starts().await {
                // A server that cannot list its tools has been logged.
                let _ = link.tools_of(&lease).await;
            }
        });
        let _ = tokio::time::timeout(limit, futures_util::future::join_all(start)).await;
        self.take_known();
    }

    /// Returns the instructions of a server: those of the configuration, else those that it gave last.
    pub(crate) fn instructions_of(&self, link: &Link) -> LogicResult<Option<String>> {
        let configured = link.server().instructions.clone();
        if configured.is_some() {
            return Ok(configured);
        }
        link.last_instructions().map(|text| self.mask_text(link.id(), &text)).transpose()
    }

    /// Builds the text that tells a model which servers it cannot use; empty if it can use all.
    pub fn unavailable(&self, failed: &[(String, Unavailable)]) -> Result<String, GateError> {
        let links = self.registry().links();
        let known = |server: &str| links.iter().find(|link| link.id() == server);
        let failed: Vec<_> = failed.iter().filter_map(|(server, why)| Some(self.failed(known(server)?, why))).collect();
        Ok(self.backend().pool.ask(0, |logic| logic.instructions(&[], &failed))?)
    }

    fn failed(&self, link: &Link, why: &Unavailable) -> FailedServer {
        let reason = self.registry().secrets().redact(&why.to_string()).into_owned();
        // Control characters are of no use to a model.
        let reason = reason.replace(|c: char| c.is_control() && c != '\n', " ");
        FailedServer { server: link.id().to_owned(), reason }
    }

    async fn notes(&self, link: &Link, session: &Session, tools: &[ExposedTool]) -> Result<ServerNotes, GateError> {
        let prompts = match session.list(ListKind::Prompts).await {
            _ if !self.admits(link.id()) => Vec::new(),
            Ok(listing) => descriptions(&listing),
            Err(why) => {
                tracing::warn!(server = link.id(), "cannot list its prompts: {why}");
                Vec::new()
            }
        };
        let own = session.peer().instructions.as_deref().map(|text| self.mask_text(link.id(), text)).transpose()?;
        let own = link.server().instructions.clone().or(own);
        self.note(link, own, &prompts, tools)
    }

    fn note(
        &self,
        link: &Link,
        instructions: Option<String>,
        prompts: &[String],
        tools: &[ExposedTool],
    ) -> Result<ServerNotes, GateError> {
        let prompts = prompts.iter().map(|text| self.mask_text(link.id(), text));
        let noted = tools.iter().filter(|tool| tool.tool.server == link.id()).filter_map(|tool| {
            Some(ToolNote { name: tool.name.clone(), text: rules_of(link, &tool.tool.tool)?.note.clone()? })
        });
        Ok(ServerNotes {
            server: link.id().to_owned(),
            instructions,
            prompts: prompts.collect::<Result<_, _>>()?,
            tools: noted.collect(),
        })
    }
}

/// Returns the rules for a tool; names match in any case, as in the component.
fn rules_of<'a>(link: &'a Link, tool: &str) -> Option<&'a ToolConfig> {
    let (rules, lower) = (&link.server().tools, tool.to_lowercase());
    let exact = rules.iter().find(|rules| rules.tool == tool);
    exact.or_else(|| rules.iter().find(|rules| rules.tool.trim().to_lowercase() == lower))
}

/// Returns the descriptions of all prompts in a list.
fn descriptions(prompts: &Listing) -> Vec<String> {
    prompts.items.iter().filter_map(|item| description(item.get())).collect()
}

/// Returns the description of a prompt.
fn description(prompt: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Prompt {
        description: Option<LossyString>,
    }
    serde_json::from_str::<Prompt>(prompt).ok()?.description.map(String::from)
}
