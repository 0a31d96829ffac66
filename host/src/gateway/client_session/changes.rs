//! Collects what changed for one client: lists, resources and log messages.

use std::sync::Weak;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::ClientSession;
use super::logs::{log_line, passes_level};
use super::sources::sleep_until;
use super::updates::ResourceUpdate;
use crate::lock::lock;
use crate::registry::{LinkEvent, Registry};
use crate::session::{ActiveCallers, Era, ServerEvent};

/// Changes that the client has not been notified of.
#[derive(Default)]
pub(super) struct ChangeSet {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) updates: Vec<ResourceUpdate>,
    /// Whether events were missed; they may have been about any resource.
    pub(super) missed: bool,
    /// Log notifications, ready to be sent.
    pub(super) logs: Vec<String>,
}

/// Collects the changes for one client, and merges those that come shortly after each other.
pub(super) struct ClientChanges {
    tools: tokio::sync::watch::Receiver<u64>,
    news: tokio::sync::broadcast::Receiver<LinkEvent>,
    /// The changes collected so far; they are returned at `until`.
    pending: ChangeSet,
    until: Option<Instant>,
}

impl ClientChanges {
    pub(super) fn new(registry: &Registry) -> Self {
        let mut tools = registry.tools_changed();
        tools.mark_unchanged();
        ClientChanges { tools, news: registry.events(), pending: ChangeSet::default(), until: None }
    }

    /// Waits for the next changes that concern this client; returns `None` if there will be no more. This is
    /// cancel-safe.
    pub(super) async fn next(&mut self, client: &Weak<ClientSession>, era: Era) -> Option<ChangeSet> {
        loop {
            tokio::select! {
                () = sleep_until(self.until) => return Some(self.take()),
                changed = self.tools.changed() => {
                    changed.ok()?;
                    self.pending.tools = true;
                }
                news = self.news.recv() => match news {
                    Ok(told) => {
                        if !self.pending.take(&*client.upgrade()?, era, told) {
                            continue;
                        }
                        if !self.pending.logs.is_empty() && self.until.is_none() {
                            return Some(self.take());
                        }
                    }
                    Err(RecvError::Lagged(_)) => self.pending.mark_missed(),
                    Err(RecvError::Closed) => return None,
                },
            }
            self.until.get_or_insert_with(|| Instant::now() + COALESCE);
        }
    }

    fn take(&mut self) -> ChangeSet {
        self.until = None;
        std::mem::take(&mut self.pending)
    }
}

impl ChangeSet {
    /// Marks everything as changed, because missed events may have been about anything.
    fn mark_missed(&mut self) {
        (self.prompts, self.resources, self.missed) = (true, true, true);
    }

    /// Adds a server's event if it is for the client; reports whether it is.
    fn take(&mut self, client: &ClientSession, era: Era, LinkEvent { link, event }: LinkEvent) -> bool {
        let link = link.map(|link| link.upgrade().filter(|link| client.gate.receives_from(link)));
        if let Some(None) = link {
            return false;
        }
        match event {
            ServerEvent::PromptsChanged => self.prompts = true,
            ServerEvent::ResourcesChanged => self.resources = true,
            ServerEvent::ResourceUpdated { uri, params } => {
                let Some(link) = link.flatten() else { return false };
                let update = ResourceUpdate::new(&link, uri, params);
                self.updates.retain(|known| !known.is_of(&update));
                self.updates.push(update);
            }
            // Messages logged during a request go to its client, on its own stream. The later era has no others.
            ServerEvent::Log { level, logger, data, callers, number }
                if era == Era::Legacy && is_for(client, &callers) =>
            {
                let Some(link) = link.flatten() else { return false };
                let wanted = passes_level(&level, lock(&client.negotiated).log_level);
                if !wanted || !client.sent.logs.mark(number) {
                    return false;
                }
                let masked =
                    client.gate.mask(link.id(), data.get()).ok().and_then(|data| RawValue::from_string(data).ok());
                let Some(data) = masked else { return false };
                let logger = logger.and_then(|logger| client.gate.mask_text(link.id(), &logger).ok());
                let Some(line) = log_line(client, &level, logger.as_deref(), data) else { return false };
                self.logs.push(line);
            }
            ServerEvent::Log { .. } | ServerEvent::ToolsChanged | ServerEvent::Closed => return false,
        }
        true
    }
}

/// Reports whether a log message is for all clients of this principal: it belongs to no request, or to one that the
/// principal gave up.
fn is_for(client: &ClientSession, during: &ActiveCallers) -> bool {
    match during {
        ActiveCallers::Unknown => true,
        ActiveCallers::Abandoned(principal) => *principal == client.name,
        ActiveCallers::One(_) | ActiveCallers::Several => false,
    }
}

/// Changes within this time are merged into one notification.
const COALESCE: Duration = Duration::from_millis(100);
