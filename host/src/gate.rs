//! One agent's view of the servers: the tools that it may use, and its calls, as the component decides them.

mod call;
mod definition;
mod failures;
mod forwarded;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tracing::warn;

pub use call::{Approve, CallOptions, Called};
pub use settings::{View, find_problems};

use crate::decide::{Answer, Decide, GateId};
use crate::logic::types::{ToolRef, catalog, execution, naming};
use crate::logic::{LogicError, Supervisor};
use crate::registry::{Link, Registry, Unavailable};
use crate::session::{Kind, Session};
use crate::words::Say;
use definition::Definition;

/// One agent's view of the servers.
pub struct Gate {
    registry: Arc<Registry>,
    logic: Mutex<Supervisor>,
    id: GateId,
    /// What servers listed, as they wrote it; the component keeps only what it decides on.
    offers: Mutex<Offers>,
}

/// The definitions of tools, by server and by name.
type Offers = BTreeMap<String, HashMap<String, Box<RawValue>>>;

/// Why a gate cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The component gave no answer.
    #[error(transparent)]
    Logic(#[from] LogicError),
}

impl Gate {
    /// Opens a gate; no server is connected yet.
    pub fn open(mut logic: Supervisor, registry: Arc<Registry>, view: &View) -> Result<Self, GateError> {
        let settings = settings::settings(&mut logic, registry.config(), view)?;
        let id = logic.open_gate(&settings)?.map_err(|error| GateError::Settings(error.say()))?;
        Ok(Gate { registry, logic: Mutex::new(logic), id, offers: Mutex::default() })
    }

    /// The servers behind the gate.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Connects a server and takes what it offers.
    pub async fn connect(&self, link: &Link) -> Result<Arc<Session>, Unavailable> {
        let session = link.session().await?;
        self.offer(link, &session).await?;
        Ok(session)
    }

    /// Asks a connected server for its tools and shows them to the component.
    pub async fn offer(&self, link: &Link, session: &Session) -> Result<(), Unavailable> {
        let listing = session.list(Kind::Tools).await.map_err(Unavailable::Failed)?;
        let definitions: Vec<Definition> = listing.items.iter().filter_map(|item| Definition::read(item)).collect();
        let tools: Vec<_> = definitions.iter().map(Definition::tool).collect();
        let raw = definitions.into_iter().rev().map(|definition| (definition.name, definition.raw)).collect();
        self.offers().insert(link.id().to_owned(), raw);
        let notes = self.logic().offer(self.id, link.id(), &tools);
        for note in notes.map_err(|error| Unavailable::Failed(failures::internal(&error)))? {
            warn!(server = link.id(), "{}", failures::note(&note));
        }
        Ok(())
    }

    /// The tools that may be used, of the servers that have offered any.
    pub fn tools(&self, style: &naming::NamingStyle) -> Answer<Vec<catalog::ExposedTool>> {
        self.logic().tools(self.id, style)
    }

    /// How its server describes a tool, whole.
    pub fn definition(&self, tool: &ToolRef) -> Option<Box<RawValue>> {
        let offers = self.offers();
        offers.get(&tool.server)?.get(&tool.tool).cloned()
    }

    /// How the names of tools are shown where nothing else is asked for.
    pub fn style(&self) -> naming::NamingStyle {
        settings::style(self.registry.config().settings.names)
    }

    /// Reads a person's or a model's text as arguments, without a schema: a JSON object.
    pub fn arguments(&self, text: &str) -> Result<String, GateError> {
        let parsed = self.logic().parse_arguments(text, None)?;
        parsed.map(|parsed| parsed.arguments).map_err(|refusal| GateError::Settings(refusal.say()))
    }

    /// What a server wrote, with all masked that its tools' answers would have masked; JSON stays JSON.
    pub fn mask(&self, server: &str, json: &str) -> Result<String, GateError> {
        let masks = settings::masks_of(self.registry.config(), server);
        if masks.groups.is_empty() && masks.patterns.is_empty() && masks.custom.is_empty() {
            return Ok(json.to_owned());
        }
        self.logic().mask(&masks, json)?.map_err(|error| GateError::Settings(error.say()))
    }

    /// A text cut to the size that the answer of a tool may have.
    pub fn cut(&self, text: &str) -> Answer<String> {
        let limit = self.registry.config().settings.max_result_bytes;
        self.logic().truncate(text, limit, "the answer is larger than the limit")
    }

    /// One text for the model on these servers.
    pub fn instructions(&self, servers: &[catalog::ServerNotes], failed: &[catalog::FailedServer]) -> Answer<String> {
        self.logic().instructions(servers, failed)
    }

    fn logic(&self) -> MutexGuard<'_, Supervisor> {
        // A panic while the component was asked leaves the supervisor as whole as a trap does.
        self.logic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offers(&self) -> MutexGuard<'_, Offers> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, call: execution::ToolCall) -> Answer<(crate::decide::ExecutionId, execution::Directive)> {
        self.logic().begin(self.id, call)
    }
}
