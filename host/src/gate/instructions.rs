//! One text for the model: what servers want it to know, and which of them it cannot use.

use serde::Deserialize;

use super::{Gate, GateError};
use crate::decide::Decide;
use crate::logic::types::catalog::{ExposedTool, FailedServer, ServerNotes, ToolNote};
use crate::registry::{Link, Unavailable};
use crate::session::{Kind, Session};

impl Gate {
    /// One text for the model, of all servers that the gate may use; they are connected for it.
    pub async fn instructions(&self) -> Result<String, GateError> {
        let links = self.links();
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
        Ok(self.core().logic.instructions(&notes, &failed)?)
    }

    /// The block of text that tells a model which servers it cannot use; empty where it can use all.
    pub fn unavailable(&self, failed: &[(String, Unavailable)]) -> Result<String, GateError> {
        let links = self.registry().links();
        let known = |server: &str| links.iter().find(|link| link.id() == server);
        let failed: Vec<_> = failed.iter().filter_map(|(server, why)| Some(self.failed(known(server)?, why))).collect();
        Ok(self.core().logic.instructions(&[], &failed)?)
    }

    fn failed(&self, link: &Link, why: &Unavailable) -> FailedServer {
        let reason = self.registry().secrets().redact(&why.to_string()).into_owned();
        // What steers a terminal steers a model no better.
        let reason = reason.replace(|c: char| c.is_control() && c != '\n', " ");
        FailedServer { server: link.id().to_owned(), reason }
    }

    async fn notes(&self, link: &Link, session: &Session, tools: &[ExposedTool]) -> Result<ServerNotes, GateError> {
        let server = link.server();
        let prompts = match session.list(Kind::Prompts).await {
            _ if !self.admits(link.id()) => Vec::new(),
            Ok(listing) => listing.items.iter().filter_map(|item| description(item.get())).collect(),
            Err(why) => {
                tracing::warn!(server = link.id(), "its prompts cannot be listed: {why}");
                Vec::new()
            }
        };
        let prompts = prompts.iter().map(|text: &String| self.mask_text(link.id(), text));
        let noted = tools.iter().filter(|tool| tool.tool.server == link.id()).filter_map(|tool| {
            let rules = server.tools.iter().find(|rules| rules.tool == tool.tool.tool)?;
            Some(ToolNote { name: tool.name.clone(), text: rules.note.clone()? })
        });
        let own = session.peer().instructions.as_deref().map(|text| self.mask_text(link.id(), text)).transpose()?;
        Ok(ServerNotes {
            server: link.id().to_owned(),
            instructions: server.instructions.clone().or(own),
            prompts: prompts.collect::<Result<_, _>>()?,
            tools: noted.collect(),
        })
    }
}

/// What a prompt is for.
fn description(prompt: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Prompt {
        description: Option<String>,
    }
    serde_json::from_str::<Prompt>(prompt).ok()?.description
}
