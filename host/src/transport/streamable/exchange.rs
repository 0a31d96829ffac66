//! Reads an answer that comes as an event stream, and resumes the stream if it breaks.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Response, StatusCode};
use tracing::{debug, warn};

use super::answer::{self, MessageKind};
use super::{ExtraHeaders, HttpShared};
use crate::failure::{Failure, RequestError};
use crate::lock::lock;
use crate::rpc::Message;
use crate::transport::connection::RequestId;
use crate::transport::events::SseParser;
use crate::web::body;

/// Passes on the messages of a stream until this request is answered; returns the rest of the stream.
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
    // The last event that was not a message; if no answer comes, it may say why.
    let mut noise = None;
    loop {
        let mut parser = SseParser::new(link.web.max_message_bytes());
        let mut answered = false;
        let mut progress = false;
        while let Some(response) = &mut stream {
            // However a stream ends before the answer, it is resumed in the same way.
            let Ok(Some(chunk)) = body::next(response).await else { break };
            let pushed = parser.push(&chunk, |event| {
                progress = true;
                if !event.is_message() {
                    return;
                }
                let message = Message::read(event.data);
                match (answer::classify(&message, id), message) {
                    (MessageKind::Noise, Message::Unreadable(unreadable)) => {
                        // An event without data only sets the id to resume from.
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
        wait = parser.retry.unwrap_or(wait);
        // A new id counts as progress: a server that wants to be polled sends a new one each time.
        if let Some(id) = parser.last_id.as_deref().filter(|id| Some(*id) != last_id.as_deref()) {
            last_id = Some(id.to_owned());
            progress = true;
        }
        tries = if progress { 1 } else { tries + 1 };
        let resumable = lock(&link.state).resumable;
        let after = last_id.as_deref().filter(|id| resumable && !id.is_empty());
        let Some(after) = after.filter(|_| tries <= RESUMPTIONS) else {
            return Err(RequestError::sent(noise.map_or(Failure::Closed, |noise| {
                Failure::Protocol(format!(
                    "its stream ended without an answer and had an event that is not a message: {noise}"
                ))
            })));
        };
        debug!(request = id, "the stream ended before the answer; resuming it");
        tokio::time::sleep(wait.max(SHORTEST)).await;
        stream = resume(link, &extra, after).await?;
    }
}

/// Logs an event that is not a message, the first one as a warning; returns its start.
fn skipped(link: &HttpShared, data: &str, first: bool) -> String {
    let shown = body::excerpt(&link.web.redact(data));
    match first {
        true => warn!("skipped an event that is not a message: {shown}"),
        false => debug!("skipped another event that is not a message: {shown}"),
    }
    shown
}

/// Resumes a stream after this event; returns `None` if it is worth trying again.
///
/// The server already accepted the request when it began to answer, so an error here does not mean that it refused it.
async fn resume(link: &HttpShared, extra: &ExtraHeaders, after: &str) -> Result<Option<Response>, RequestError> {
    let Ok(response) = link.get(extra, Some(after)).await else { return Ok(None) };
    let status = response.status();
    if status.is_success() && body::body_kind(&response) == body::BodyKind::Events {
        return Ok(Some(response));
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Ok(None);
    }
    debug!(status = status.as_u16(), "the server does not resume the stream");
    Err(RequestError::sent(Failure::Closed))
}

/// The rest of a stream after the answer.
pub(super) struct StreamRest {
    response: Response,
    parser: SseParser,
}

impl StreamRest {
    /// Waits briefly for the end, so that the connection can be reused; later messages belong to no exchange.
    pub(super) async fn drain(mut self, link: Arc<HttpShared>) {
        let all = async {
            while let Ok(Some(chunk)) = body::next(&mut self.response).await {
                let pushed = self.parser.push(&chunk, |event| {
                    if event.is_message() {
                        link.receiver.receive(event.data.into(), None);
                    }
                });
                if pushed.is_err() {
                    break;
                }
            }
        };
        // If the server keeps the stream open, the connection is dropped.
        let _ = tokio::time::timeout(body::DRAIN_LIMIT, all).await;
    }
}

/// The default wait before a stream is resumed.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The minimum wait: streams that end at once must not cause a flood of requests.
pub(super) const SHORTEST: Duration = Duration::from_millis(250);
const RESUMPTIONS: u32 = 5;
