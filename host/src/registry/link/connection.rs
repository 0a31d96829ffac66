//! An open connection, and the task that receives its events.

use std::sync::{Arc, Weak};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;
use tracing::{Instrument, debug, warn};

use super::super::owned_task::OwnedTask;
use super::Link;
use super::watching::resubscribe;
use crate::failure::RequestError;
use crate::session::{ListKind, ServerEvent, Session, UNANNOUNCED_LIST_AGE};

/// The permit for a server's one connection, held until nothing is left of that connection.
pub(super) type ConnectionPermit = tokio::sync::OwnedSemaphorePermit;

/// An open connection.
pub(super) struct ActiveConnection {
    pub(super) session: Arc<Session>,
    pub(super) permit: ConnectionPermit,
    /// The number of the attempt that opened it.
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

/// Handles the events of a session until the connection ends.
async fn listen(session: Arc<Session>, number: u64, link: Weak<Link>) {
    let mut event = session.events();
    let subscription = async { tokio::join!(subscribe(&session, &link), resubscribe(&session, &link)) };
    tokio::pin!(subscription);
    let mut subscribed = true;
    if let Some(level) = link.upgrade().and_then(|link| link.wanted_level()) {
        session.set_level(level).await;
    }
    // List the tools before somebody asks; those listed before a lost connection may be out of date.
    if link.upgrade().is_some_and(|link| link.lists_on_connect() || link.known_tools().is_some())
        && let Err(why) = relist(&session, &link).await
    {
        warn!("cannot list the tools: {why}");
    }
    let announces = session.peer().features.list_changed;
    let mut listed = Instant::now();
    // The session may have ended before this task started.
    while session.close_reason().is_none() {
        let heard = tokio::select! {
            heard = event.recv() => heard,
            () = tokio::time::sleep_until(listed + UNANNOUNCED_LIST_AGE), if !announces => {
                if link.upgrade().is_some_and(|link| link.known_tools().is_some())
                    && let Err(why) = relist(&session, &link).await
                {
                    debug!("cannot list the tools again: {why}");
                }
                listed = Instant::now();
                continue;
            }
            _ = &mut subscription, if subscribed => {
                subscribed = false;
                continue;
            }
        };
        match handle_events(heard, &mut event, &link) {
            EventEffect::Closed => break,
            EventEffect::ToolsChanged => {
                if let Err(why) = relist(&session, &link).await {
                    warn!("the tools changed, but listing them failed: {why}");
                }
            }
            EventEffect::Nothing => {}
        }
    }
    if let Some(link) = link.upgrade() {
        link.connection_ended(number);
    }
}

/// The effect of a group of events on the listener.
enum EventEffect {
    Closed,
    ToolsChanged,
    Nothing,
}

/// Handles an event and all that are queued behind it, so that many changes of the tools cost one list.
fn handle_events(
    first: Result<ServerEvent, RecvError>,
    event: &mut broadcast::Receiver<ServerEvent>,
    link: &Weak<Link>,
) -> EventEffect {
    let mut next = Some(first);
    let mut heard = EventEffect::Nothing;
    // Later events wait for the next turn: a server that never stops sending must not prevent listing.
    for _ in 0..=event.len() {
        match next.take() {
            None => break,
            Some(Ok(ServerEvent::Closed) | Err(RecvError::Closed)) => return EventEffect::Closed,
            // A missed event may have been about the tools.
            Some(Ok(ServerEvent::ToolsChanged) | Err(RecvError::Lagged(_))) => heard = EventEffect::ToolsChanged,
            Some(Ok(event)) => {
                if let ServerEvent::Log { level, logger, data, .. } = &event {
                    debug!(level, logger, "server log: {}", data.get());
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

/// Subscribes to events, which servers of 2026-07-28 send only on request, and repeats that if it fails.
async fn subscribe(session: &Session, link: &Weak<Link>) {
    while let Err(failed) = session.listen().await {
        debug!("cannot subscribe to events: {failed}");
        if session.close_reason().is_some() {
            return;
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
        if let Some(link) = link.upgrade() {
            link.announce_missed_updates();
        }
    }
}

/// Lists the tools again; a closed session is no error here, because it is reported elsewhere.
async fn relist(session: &Arc<Session>, link: &Weak<Link>) -> Result<(), RequestError> {
    let Some(listing) = link.upgrade().map(|link| Arc::clone(&link.lists.permit)) else { return Ok(()) };
    let _turn = listing.acquire().await.expect("nobody closes the semaphore");
    // The link owns this task, so the task must not keep the link: the list may never come.
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
        let mut effect = |all: &[ServerEvent]| {
            all.iter().for_each(|event| drop(sender.send(event.clone())));
            let first = event.try_recv().map_err(|_| RecvError::Lagged(1));
            let heard = handle_events(first, &mut event, &Weak::new());
            assert!(matches!(heard, EventEffect::Closed) || event.is_empty());
            heard
        };
        assert!(matches!(
            effect(&[ServerEvent::ToolsChanged, ServerEvent::PromptsChanged, ServerEvent::ToolsChanged]),
            EventEffect::ToolsChanged
        ));
        assert!(matches!(effect(&[ServerEvent::PromptsChanged, ServerEvent::ToolsChanged]), EventEffect::ToolsChanged));
        assert!(matches!(effect(&[ServerEvent::PromptsChanged]), EventEffect::Nothing));
        // More events than the channel keeps: a missed one may have been about the tools.
        assert!(matches!(effect(&vec![ServerEvent::PromptsChanged; 9]), EventEffect::ToolsChanged));
        assert!(matches!(effect(&[ServerEvent::ToolsChanged, ServerEvent::Closed]), EventEffect::Closed));
    }
}
