//! An answer that comes as a stream of events, taken up again where it broke off.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, StatusCode};
use tracing::{debug, warn};

use super::answer::{self, MessageKind};
use super::{ExtraHeaders, HttpShared, lock};
use crate::failure::{Failure, RequestError};
use crate::rpc::Message;
use crate::transport::RequestId;
use crate::transport::events::SseParser;
use crate::transport::web::body;

/// Hands on what the stream brings until the answer to this request has come; gives back what is left of the stream.
pub(super) async fn follow(
    link: &HttpShared,
    first: Response,
    id: RequestId,
    extra: ExtraHeaders,
) -> Result<StreamRest, RequestError> {
    let mut stream = Some(first);
    let mut last_id: Option<String> = None;
    let mut wait = RETRY;
    let mut tries = 0;
    // The last event that was no message: where no answer comes, it may say why.
    let mut noise = None;
    loop {
        let mut parser = SseParser::new(link.web.max_message_bytes());
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
                let message = Message::read(event.data);
                match (answer::classify(&message, id), message) {
                    (MessageKind::Noise, Message::Unreadable(unreadable)) => {
                        // An event without data only says where the stream goes on.
                        if !unreadable.text().trim().is_empty() {
                            noise = Some(skipped(link, unreadable.text(), noise.is_none()));
                        }
                    }
                    (kind, message) => {
                        answered = answered || kind == MessageKind::Response;
                        link.receiver.receive(message, Some(id));
                    }
                }
            });
            pushed.map_err(|_| body::too_large("an event", link.web.max_message_bytes()))?;
            if answered && let Some(response) = stream {
                return Ok(StreamRest { response, parser });
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
            return Err(RequestError::sent(noise.map_or(Failure::Closed, |noise| {
                Failure::Protocol(format!("its stream ended without an answer, and had what is no message: {noise}"))
            })));
        };
        debug!(request = id, "the stream ended before the answer; taking it up again");
        tokio::time::sleep(wait.max(SHORTEST)).await;
        stream = resume(link, &extra, after).await?;
    }
}

/// Warns of the first event that is no message, and gives its beginning.
fn skipped(link: &HttpShared, data: &str, first: bool) -> String {
    let shown = body::excerpt(&link.web.redact(data.to_owned()));
    match first {
        true => warn!("skipped an event that is no message: {shown}"),
        false => debug!("skipped one more event that is no message: {shown}"),
    }
    shown
}

/// A stream that goes on after this event; none where it is worth trying again.
///
/// The server took the request when it began to answer it: what it says to this question is no refusal of that one.
async fn resume(link: &HttpShared, extra: &ExtraHeaders, after: &str) -> Result<Option<Response>, RequestError> {
    let Ok(response) = link.get(extra, Some(after)).await else { return Ok(None) };
    let status = response.status();
    if status.is_success() && body::body_kind(&response) == body::BodyKind::Events {
        return Ok(Some(response));
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Ok(None);
    }
    debug!(status = status.as_u16(), "the rest of an answer is not to be had");
    Err(RequestError::sent(Failure::Closed))
}

/// What is left of a stream after the answer.
pub(super) struct StreamRest {
    response: Response,
    parser: SseParser,
}

impl StreamRest {
    /// Waits a little for the end, so that the connection can be used again; what still comes belongs to no exchange.
    pub(super) async fn drain(mut self, link: Arc<HttpShared>) {
        let all = async {
            while let Ok(Some(chunk)) = body::next(&mut self.response).await {
                let pushed = self.parser.push(&chunk, |event| {
                    if is_message(&event.name) {
                        link.receiver.receive(event.data.into(), None);
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
