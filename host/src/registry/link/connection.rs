//! A connection that stands, and the task that listens to it.

use std::sync::{Arc, Weak};

use tokio::sync::broadcast::error::RecvError;
use tracing::{Instrument, debug, warn};

use super::super::task::Task;
use super::Link;
use crate::session::{Kind, News, Session};

/// The place of a server's one connection, kept until nothing is left of it.
pub(super) type Place = tokio::sync::OwnedSemaphorePermit;

/// A connection that stands.
pub(super) struct Connection {
    pub(super) session: Arc<Session>,
    pub(super) place: Place,
    /// The attempt that made it.
    pub(super) number: u64,
    _listener: Task,
}

impl Connection {
    pub(super) fn new(session: Arc<Session>, place: Place, number: u64, link: Weak<Link>, span: tracing::Span) -> Self {
        let listener = Task::spawn(listen(Arc::clone(&session), number, link).instrument(span));
        Connection { session, place, number, _listener: listener }
    }
}

/// Hears what the server tells unasked, until the connection is over.
async fn listen(session: Arc<Session>, number: u64, link: Weak<Link>) {
    let mut news = session.news();
    let subscription = subscribe(&session);
    tokio::pin!(subscription);
    let mut subscribed = true;
    if let Some(level) = link.upgrade().and_then(|link| link.wanted_level()) {
        session.set_level(level).await;
    }
    // Whoever wants the tools finds them; and what was listed before the server was lost may no longer be so.
    if link.upgrade().is_some_and(|link| link.lists_at_once() || link.known_tools().is_some()) {
        relist(&session, &link).await;
    }
    // It may have ended before anyone listened.
    while session.over().is_none() {
        tokio::select! {
            heard = news.recv() => match heard {
                Ok(News::Closed) | Err(RecvError::Closed) => break,
                // What was missed may have been about the tools.
                Ok(News::ToolsChanged) | Err(RecvError::Lagged(_)) => relist(&session, &link).await,
                Ok(news) => {
                    if let News::Log { level, logger, data, .. } = &news {
                        debug!(level, logger, "the server logs: {}", data.get());
                    }
                    if let Some(link) = link.upgrade() {
                        link.pass_on(news);
                    }
                }
            },
            () = &mut subscription, if subscribed => subscribed = false,
        }
    }
    if let Some(link) = link.upgrade() {
        link.ended(number);
    }
}

/// Servers of 2026-07-28 tell their news to who asks for them.
async fn subscribe(session: &Session) {
    while let Err(failed) = session.listen().await {
        debug!("the server tells no news: {failed}");
        if session.over().is_some() {
            return;
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

async fn relist(session: &Arc<Session>, link: &Weak<Link>) {
    let Some(listing) = link.upgrade().map(|link| Arc::clone(&link.listing)) else { return };
    let _turn = listing.acquire().await.expect("nobody closes the semaphore");
    // The link owns this task, so it must not be kept by it: the list may never come.
    let listed = session.list(Kind::Tools).await;
    let Some(link) = link.upgrade() else { return };
    if let Err(why) = link.listed(session, listed) {
        warn!("the tools changed, and cannot be listed: {why}");
    }
}

const LISTEN_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);
