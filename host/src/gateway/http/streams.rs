//! Handles GET to `/mcp`, for sessions only: opens the standalone stream, or resumes a broken stream.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};

use super::body::{EventSource, EventStream, ResponseBody};
use super::channel::parse_id;
use super::context::ConnectionContext;
use super::mcp_headers::VersionClaim;
use super::media;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use crate::gateway::client::Principal;
use crate::gateway::refusal::RequestRefusal;

/// Opens the standalone stream, replacing an open one, or resumes a stream after an event.
pub(super) fn open(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    head: &Parts,
    busy: BusyGuard,
) -> Result<Response<ResponseBody>, RequestRefusal> {
    media::check_get(&head.headers)?;
    let state = &*connection.state;
    let session = state.parts.sessions.find(&head.headers, principal)?;
    let (number, after) = match head.headers.get("last-event-id").map(|id| id.to_str().ok().and_then(parse_id)) {
        None => (0, None),
        Some(Some((number, event))) => (number, Some(event)),
        Some(None) => return Err(nothing_kept()),
    };
    let channel = session.0.find(number).ok_or_else(nothing_kept)?;
    if after.is_some_and(|after| channel.has_forgotten(after)) {
        return Err(nothing_kept());
    }
    let streaming = connection.mark_streaming()?;
    let reader = channel.attach(after);
    connection.timer.mark_body_read();
    let held = (session, streaming, busy);
    let mut events = EventStream::new(EventSource::Stream(reader), state.rules().limits.streams.keep_alive, held);
    let primed = VersionClaim::of(&head.headers) == VersionClaim::Legacy { primed: true };
    events.opening = Some(channel.opening(primed));
    events.stopped = Some(state.until_revoked(TokenDigest::of(&head.headers), Some(principal)));
    Ok(events.into_response())
}

fn nothing_kept() -> RequestRefusal {
    let message = "the events after this Last-Event-ID are gone: leave the header out, or send the request again";
    RequestRefusal::new(StatusCode::BAD_REQUEST, message)
}
