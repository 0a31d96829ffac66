//! Response bodies: read whole up to a limit, or drained so that the connection can be reused.

use std::time::Duration;

use http::header;
use reqwest::Response;

use super::address::display_url;
use super::errors::{self, protocol_error};
use crate::failure::RequestError;

/// The kind of a body, by its content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// JSON.
    Json,
    /// Server-Sent Events.
    Events,
    /// No content type.
    Unspecified,
    /// Another content type.
    Other(String),
}

/// Returns the kind of a response's body.
pub(crate) fn body_kind(response: &Response) -> BodyKind {
    let value = response.headers().get(header::CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let kind = String::from_utf8_lossy(kind);
    match kind.to_ascii_lowercase().as_str() {
        "application/json" => BodyKind::Json,
        "text/event-stream" => BodyKind::Events,
        "" => BodyKind::Unspecified,
        lower if lower.len() > 5 && lower.ends_with("+json") => BodyKind::Json,
        _ => BodyKind::Other(kind.into_owned()),
    }
}

/// Returns the content encoding of a body; `None` if it is not encoded, which is all that we ask for.
pub(crate) fn encoding(response: &Response) -> Option<String> {
    let value = response.headers().get(header::CONTENT_ENCODING)?.as_bytes().trim_ascii();
    let plain = value.is_empty() || value.eq_ignore_ascii_case(b"identity");
    (!plain).then(|| excerpt(&String::from_utf8_lossy(value)))
}

/// Returns an error if the body is encoded, because nothing here could decode it.
pub(crate) fn check_encoding(response: &Response) -> Result<(), RequestError> {
    match encoding(response) {
        None => Ok(()),
        Some(encoding) => Err(protocol_error(format!("its answer is encoded as {encoding}, which was not asked for"))),
    }
}

/// Reads the whole body as text.
pub(crate) async fn text(mut response: Response, max: usize) -> Result<String, RequestError> {
    let body = bytes(&mut response, max).await.map_err(|error| read_error(&response, &error))?;
    body.map(as_text).ok_or_else(|| too_large("an answer", max))
}

/// Reads the whole body; returns `None` if it has more than `max` bytes.
pub(crate) async fn bytes(response: &mut Response, max: usize) -> reqwest::Result<Option<Vec<u8>>> {
    let announced = response.content_length().unwrap_or(0);
    if announced > max as u64 {
        return Ok(None);
    }
    let mut body = Vec::with_capacity((announced as usize).min(TRUSTED));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > max {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}

/// Reads the beginning of a body, as much of it as comes.
pub(crate) async fn beginning(response: &mut Response, max: usize) -> String {
    let mut body = Vec::new();
    while body.len() < max {
        // Text that came before the connection broke is still worth showing.
        let Ok(Some(chunk)) = response.chunk().await else { break };
        body.extend_from_slice(&chunk[..chunk.len().min(max - body.len())]);
    }
    as_text(body)
}

/// Returns the next chunk of a body; `None` at its end.
pub(crate) async fn next(response: &mut Response) -> Result<Option<bytes::Bytes>, RequestError> {
    response.chunk().await.map_err(|error| read_error(response, &error))
}

fn read_error(response: &Response, error: &reqwest::Error) -> RequestError {
    RequestError::sent(errors::read_error(error, &display_url(response.url())))
}

/// Reads the small rest of an unneeded body, because a connection with unread bytes cannot be reused.
pub(crate) async fn drain(mut response: Response) {
    let all = async {
        let mut left = DRAINED;
        while let Ok(Some(chunk)) = response.chunk().await {
            match left.checked_sub(chunk.len()) {
                Some(less) => left = less,
                None => break,
            }
        }
    };
    // If the server does not end its response, the connection is closed.
    let _ = tokio::time::timeout(DRAIN_LIMIT, all).await;
}

/// Builds the error for a message that exceeds the configured limit.
pub(crate) fn too_large(what: &str, max: usize) -> RequestError {
    protocol_error(format!("{what} of more than {max} bytes; raise max_message_bytes"))
}

/// Returns the first characters of a text as one line that is safe to print.
pub(crate) fn excerpt(text: &str) -> String {
    let line: String = text.trim().chars().take(EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.is_empty() { "an empty body".to_owned() } else { line }
}

fn as_text(body: Vec<u8>) -> String {
    let mut text =
        String::from_utf8(body).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

/// How long an unneeded body is read.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(1);
const DRAINED: usize = 64 * 1024;
/// Announced sizes up to this are allocated at once; beyond it, the buffer grows as bytes come.
const TRUSTED: usize = 1 << 20;
const EXCERPT: usize = 200;
