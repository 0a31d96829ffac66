//! An answer that comes as a stream of events, taken up again where it broke off.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, StatusCode};
use tracing::{debug, warn};

use super::answer::{self, Found};
use super::{Extra, Link, lock};
use crate::failure::{Failed, Failure};
use crate::transport::RequestId;
use crate::transport::events::Parser;
use crate::transport::web::body;

/// Hands on what the stream brings until the answer to this request has come; gives back what is left of the stream.
pub(super) async fn follow(link: &Link, first: Response, id: RequestId, extra: Extra) -> Result<Left, Failed> {
    let mut stream = Some(first);
    let mut last_id: Option<String> = None;
    let mut wait = RETRY;
    let mut tries = 0;
    // The last event that was no message: where no answer comes, it may say why.
    let mut noise = None;
    loop {
        let mut parser = Parser::new(link.web.max_message_bytes());
        let mut answered = false;
        let mut progress = false;
        while let Some(response) = &mut stream {
            // However a stream ends before the answer, it is taken up again in the same way.
            let Ok(Some(chunk)) = body::next(response).await else { break };
            let pushed = parser.push(&chunk, |event| {
                progress = true;
                if !is_message(&event.name) {
                    return;
                }
                match answer::look(&event.data, id) {
                    // An event without data only says where to take the stream up again.
                    Found::Noise if event.data.trim().is_empty() => {}
                    Found::Noise => noise = Some(skipped(link, event.data, noise.is_none())),
                    found => {
                        answered = answered || found == Found::Answer;
                        link.ending.receive(event.data, Some(id));
                    }
                }
            });
            pushed.map_err(|_| body::too_large("an event", link.web.max_message_bytes()))?;
            if answered && let Some(response) = stream {
                return Ok(Left { response, parser });
            }
        }
        wait = parser.retry().unwrap_or(wait);
        // An id is enough: a server that wants to be polled gives a new one each time.
        if let Some(id) = parser.last_id().filter(|id| Some(*id) != last_id.as_deref()) {
            last_id = Some(id.to_owned());
            progress = true;
        }
        tries = if progress { 1 } else { tries + 1 };
        let resumable = lock(&link.state).resumable;
        let after = last_id.as_deref().filter(|id| resumable && !id.is_empty());
        let Some(after) = after.filter(|_| tries <= RESUMPTIONS) else {
            return Err(Failed::sent(noise.map_or(Failure::Closed, |noise| {
                Failure::Protocol(format!("its stream ended without an answer, and had what is no message: {noise}"))
            })));
        };
        debug!(request = id, "the stream ended before the answer; taking it up again");
        tokio::time::sleep(wait.max(SHORTEST)).await;
        stream = resume(link, &extra, after).await?;
    }
}

/// Warns of the first event that is no message, and gives its beginning.
fn skipped(link: &Link, data: String, first: bool) -> String {
    let shown = body::excerpt(&link.web.clean(data));
    match first {
        true => warn!("skipped an event that is no message: {shown}"),
        false => debug!("skipped one more event that is no message: {shown}"),
    }
    shown
}

/// A stream that goes on after this event; none where it is worth trying again.
///
/// The server took the request when it began to answer it: what it says to this question is no refusal of that one.
async fn resume(link: &Link, extra: &Extra, after: &str) -> Result<Option<Response>, Failed> {
    let Ok(response) = link.get(extra, Some(after)).await else { return Ok(None) };
    let status = response.status();
    if status.is_success() && body::content(&response) == body::Content::Events {
        return Ok(Some(response));
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Ok(None);
    }
    debug!(status = status.as_u16(), "the rest of an answer is not to be had");
    Err(Failed::sent(Failure::Closed))
}

/// What is left of a stream after the answer.
pub(super) struct Left {
    response: Response,
    parser: Parser,
}

impl Left {
    /// Waits a little for the end, so that the connection can be used again; what still comes belongs to no exchange.
    pub(super) async fn drain(mut self, link: Arc<Link>) {
        let all = async {
            while let Ok(Some(chunk)) = body::next(&mut self.response).await {
                let pushed = self.parser.push(&chunk, |event| {
                    if is_message(&event.name) {
                        link.ending.receive(event.data, None);
                    }
                });
                if pushed.is_err() {
                    break;
                }
            }
        };
        // A server that keeps it open loses the connection, and that is all.
        let _ = tokio::time::timeout(body::DRAIN_LIMIT, all).await;
    }
}

/// Whether events of this name are messages.
pub(super) fn is_message(name: &str) -> bool {
    name.is_empty() || name == "message"
}

/// How long to wait before coming back, where the server does not say.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// However soon the server wants us back, so long is waited: streams that end at once must not become a flood of requests.
pub(super) const SHORTEST: Duration = Duration::from_millis(250);
const RESUMPTIONS: u32 = 5;
