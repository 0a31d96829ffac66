//! Resources whose server was replaced or removed: they are watched anew, at whoever has them now.

use std::sync::{Arc, Weak};

use super::Front;
use super::news::watch;
use crate::registry::Watcher;
use crate::transport::BoxFuture;

/// What is being watched anew for one client, at most once at a time.
#[derive(Default)]
pub(super) struct Renewal {
    work: Option<BoxFuture<'static, Renewed>>,
    /// What to try when that is done.
    next: Option<(Weak<Front>, Vec<String>)>,
}

/// The resources that are watched again.
pub(super) type Renewed = Vec<(String, Watcher)>;

impl Renewal {
    /// Watches these anew.
    pub(super) fn begin(&mut self, front: &Arc<Front>, uris: Vec<String>) {
        if uris.is_empty() {
            return;
        }
        match &self.work {
            None => self.work = Some(Box::pin(renew(Arc::downgrade(front), uris))),
            Some(_) => self.next = Some((Arc::downgrade(front), uris)),
        }
    }

    /// Waits until what is under way is done; whoever waits no longer may do so again.
    pub(super) async fn done(&mut self) -> Renewed {
        let Some(work) = &mut self.work else { return std::future::pending().await };
        let renewed = work.await;
        self.work = None;
        if let Some((Some(front), mut uris)) = self.next.take().map(|(front, uris)| (front.upgrade(), uris)) {
            uris.retain(|uri| !renewed.iter().any(|(known, _)| known == uri));
            self.begin(&front, uris);
        }
        renewed
    }
}

async fn renew(front: Weak<Front>, uris: Vec<String>) -> Renewed {
    let mut renewed = Vec::new();
    for uri in uris {
        let Some(front) = front.upgrade() else { break };
        // What nobody has now somebody may have later.
        if let Ok(Some(watcher)) = watch(&front, &uri).await {
            renewed.push((uri, watcher));
        }
    }
    renewed
}
