//! How far a server says that a request has come, told to its client under the client's own token.

use std::sync::{Arc, Weak};

use serde_json::value::RawValue;

use super::era::Context;
use super::{Asker, Front};
use crate::gateway::client::{Incoming, Outlet};
use crate::json::Object;
use crate::session::{OnProgress, Progress, message};

/// Tells the client of one request.
pub(super) struct Teller {
    front: Weak<Front>,
    asker: Arc<Asker>,
    outlet: Arc<dyn Outlet>,
    /// What the client calls the progress, as it wrote it.
    token: Box<RawValue>,
}

impl Teller {
    /// None where the client does not want to know.
    pub(super) fn new(front: &Front, context: &Context, asker: &Arc<Asker>, incoming: &Incoming) -> Option<Self> {
        let token = context.progress.clone()?;
        Some(Teller { front: front.me.clone(), asker: Arc::clone(asker), outlet: Arc::clone(&incoming.outlet), token })
    }

    /// Passes on what the server said, but for its token, masked, and no longer than a result may be.
    pub(super) fn tell(&self, progress: &Progress) {
        let Some(front) = self.front.upgrade() else { return };
        // What cannot be masked is not told.
        let masked = front.gate.mask(self.asker.server(), progress.params.get()).ok();
        let Some(mut params) = masked.as_deref().and_then(Object::read) else { return };
        match front.gate.fit_but_for(&mut params, "message") {
            Ok(true) => {}
            // What else a server says there is its own idea.
            Ok(false) => params.retain(|name| matches!(name, "progress" | "total" | "message")),
            Err(_) => return,
        }
        params.set("progressToken", &self.token);
        self.outlet.tell(message::notification("notifications/progress", Some(&params.to_text())));
    }

    /// The same as what a request takes.
    pub(super) fn into_listener(self) -> OnProgress {
        Arc::new(move |progress| self.tell(&progress))
    }
}
