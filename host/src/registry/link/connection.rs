//! A connection that stands, and the task that listens to it.

use std::sync::{Arc, Weak};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tracing::{Instrument, debug, warn};

use super::super::owned_task::OwnedTask;
use super::Link;
use super::watching::resubscribe;
use crate::failure::RequestError;
use crate::session::{ListKind, ServerEvent, Session};

/// The place of a server's one connection, kept until nothing is left of it.
pub(super) type ConnectionPermit = tokio::sync::OwnedSemaphorePermit;

/// A connection that stands.
pub(super) struct ActiveConnection {
    pub(super) session: Arc<Session>,
    pub(super) permit: ConnectionPermit,
    /// The attempt that made it.
    pub(super) number: u64,
    _listener: OwnedTask,
}

impl ActiveConnection {
    pub(super) fn new(
        session: Arc<Session>,
        permit: ConnectionPermit,
        number: u64,
        link: Weak<Link>,
        span: tracing::Span,
    ) -> Self {
        let listener = OwnedTask::spawn(listen(Arc::clone(&session), number, link).instrument(span));
        ActiveConnection { session, permit, number, _listener: listener }
    }
}

/// Hears what the server tells unasked, until the connection is over.
async fn listen(session: Arc<Session>, number: u64, link: Weak<Link>) {
    let mut event = session.events();
    let subscription = async { tokio::join!(subscribe(&session, &link), resubscribe(&session, &link)) };
    tokio::pin!(subscription);
    let mut subscribed = true;
    if let Some(level) = link.upgrade().and_then(|link| link.wanted_level()) {
        session.set_level(level).await;
    }
    // Whoever wants the tools finds them; and what was listed before the server was lost may no longer be so.
    if link.upgrade().is_some_and(|link| link.lists_on_connect() || link.known_tools().is_some())
        && let Err(why) = relist(&session, &link).await
    {
        warn!("its tools cannot be listed: {why}");
    }
    // It may have ended before anyone listened.
    while session.close_reason().is_none() {
        let heard = tokio::select! {
            heard = event.recv() => heard,
            _ = &mut subscription, if subscribed => {
                subscribed = false;
                continue;
            }
        };
        match handle_events(heard, &mut event, &link) {
            EventEffect::Closed => break,
            EventEffect::ToolsChanged => {
                if let Err(why) = relist(&session, &link).await {
                    warn!("the tools changed, and cannot be listed: {why}");
                }
            }
            EventEffect::Nothing => {}
        }
    }
    if let Some(link) = link.upgrade() {
        link.connection_ended(number);
    }
}

/// What the news come to.
enum EventEffect {
    Closed,
    ToolsChanged,
    Nothing,
}

/// Passes on what was heard and all that waits behind it, so that many changes of the tools cost one list.
fn handle_events(
    first: Result<ServerEvent, RecvError>,
    event: &mut broadcast::Receiver<ServerEvent>,
    link: &Weak<Link>,
) -> EventEffect {
    let mut next = Some(first);
    let mut heard = EventEffect::Nothing;
    // What comes meanwhile waits for the next time, or a server that talks without end would never be asked.
    for _ in 0..=event.len() {
        match next.take() {
            None => break,
            Some(Ok(ServerEvent::Closed) | Err(RecvError::Closed)) => return EventEffect::Closed,
            // What was missed may have been about the tools.
            Some(Ok(ServerEvent::ToolsChanged) | Err(RecvError::Lagged(_))) => heard = EventEffect::ToolsChanged,
            Some(Ok(event)) => {
                if let ServerEvent::Log { level, logger, data, .. } = &event {
                    debug!(level, logger, "the server logs: {}", data.get());
                }
                if let Some(link) = link.upgrade() {
                    link.broadcast(event);
                }
            }
        }
        next = match event.try_recv() {
            Ok(event) => Some(Ok(event)),
            Err(TryRecvError::Lagged(count)) => Some(Err(RecvError::Lagged(count))),
            Err(TryRecvError::Closed) => Some(Err(RecvError::Closed)),
            Err(TryRecvError::Empty) => None,
        };
    }
    heard
}

/// Servers of 2026-07-28 tell their news to who asks for them.
async fn subscribe(session: &Session, link: &Weak<Link>) {
    while let Err(failed) = session.listen().await {
        debug!("the server tells no news: {failed}");
        if session.close_reason().is_some() {
            return;
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
        if let Some(link) = link.upgrade() {
            link.announce_missed_updates();
        }
    }
}

/// Asks for the tools anew. That a server is gone is no fault of its list, and told elsewhere.
async fn relist(session: &Arc<Session>, link: &Weak<Link>) -> Result<(), RequestError> {
    let Some(listing) = link.upgrade().map(|link| Arc::clone(&link.listing)) else { return Ok(()) };
    let _turn = listing.acquire().await.expect("nobody closes the semaphore");
    // The link owns this task, so it must not be kept by it: the list may never come.
    let listed = session.list(ListKind::Tools).await;
    let Some(link) = link.upgrade() else { return Ok(()) };
    match link.note_list(session, listed) {
        Err(why) if session.close_reason().is_none() && !session.is_closing() => Err(why),
        _ => Ok(()),
    }
}

const LISTEN_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_changes_of_the_tools_are_one() {
        let (sender, mut event) = broadcast::channel(4);
        let mut told = |all: &[ServerEvent]| {
            all.iter().for_each(|event| drop(sender.send(event.clone())));
            let first = event.try_recv().map_err(|_| RecvError::Lagged(1));
            let heard = handle_events(first, &mut event, &Weak::new());
            assert!(matches!(heard, EventEffect::Closed) || event.is_empty());
            heard
        };
        assert!(matches!(
            told(&[ServerEvent::ToolsChanged, ServerEvent::PromptsChanged, ServerEvent::ToolsChanged]),
            EventEffect::ToolsChanged
        ));
        assert!(matches!(told(&[ServerEvent::PromptsChanged, ServerEvent::ToolsChanged]), EventEffect::ToolsChanged));
        assert!(matches!(told(&[ServerEvent::PromptsChanged]), EventEffect::Nothing));
        // More than are kept: what was missed may have been about the tools.
        assert!(matches!(told(&vec![ServerEvent::PromptsChanged; 9]), EventEffect::ToolsChanged));
        assert!(matches!(told(&[ServerEvent::ToolsChanged, ServerEvent::Closed]), EventEffect::Closed));
    }
}
