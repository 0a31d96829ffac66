//! A call's turn in the queues of its server and its tool.

use std::sync::Arc;

use crate::failure::{Failure, RequestError};
use crate::queue::{Queue, QueuePermit, enter_all};
use crate::registry::Link;
use crate::session::RequestTimeouts;

/// Waits for a call's turn without holding a slot meanwhile; `tell` receives the queues it waits in.
pub(crate) async fn enter_queues(
    link: &Arc<Link>,
    tool: &str,
    timeouts: RequestTimeouts,
    tell: impl Fn(&Queue),
) -> Result<Option<QueuePermit>, RequestError> {
    if !link.has_queues() {
        return Ok(None);
    }
    // Boxed, so that calls without queues do not pay for its size.
    Box::pin(wait_in_queues(link, tool, timeouts, tell)).await
}

async fn wait_in_queues(
    link: &Arc<Link>,
    tool: &str,
    timeouts: RequestTimeouts,
    tell: impl Fn(&Queue),
) -> Result<Option<QueuePermit>, RequestError> {
    let queues: Vec<_> = link.queues(tool).cloned().collect();
    queues.iter().for_each(|queue| tell(queue));
    let entered = tokio::time::timeout(timeouts.idle.min(timeouts.total), enter_all(&queues)).await;
    let refused = |why: String| RequestError::unsent(Failure::QueueFull(why));
    match entered {
        Ok(entered) => entered.map(Some).map_err(|refusal| refused(refusal.to_string())),
        Err(_) => {
            let names: Vec<_> = queues.iter().map(|queue| format!("{:?}", queue.name())).collect();
            Err(refused(format!("no turn in queue {} in time", names.join(" and "))))
        }
    }
}
