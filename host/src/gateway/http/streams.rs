//! Handles GET and DELETE to `/mcp`, for sessions only: opens the standalone stream, resumes a broken stream, and ends
//! a session.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};

use super::body::{EventSource, EventStream, ResponseBody};
use super::channel::parse_id;
use super::mcp_headers::VersionClaim;
use super::media;
use super::refusal::HttpRefusal;
use super::routing::ConnectionContext;
use super::timer::BusyGuard;
use super::tokens::TokenDigest;
use crate::gateway::client::Principal;

/// Opens the standalone stream, replacing an open one, or resumes a stream after an event.
pub(super) fn open(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    head: &Parts,
    busy: BusyGuard,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    media::check_get(&head.headers)?;
    let state = &*connection.state;
    let session = state.sessions.find(&head.headers, principal)?;
    let (number, after) = match head.headers.get("last-event-id").map(|id| id.to_str().ok().and_then(parse_id)) {
        None => (0, None),
        Some(Some((number, event))) => (number, Some(event)),
        Some(None) => return Err(nothing_kept()),
    };
    let channel = session.session().find(number).ok_or_else(nothing_kept)?;
    if after.is_some_and(|after| channel.has_forgotten(after)) {
        return Err(nothing_kept());
    }
    let telling = connection.mark_streaming()?;
    let reader = channel.attach(after);
    connection.timer.mark_body_read();
    let opening = channel.opening(VersionClaim::of(&head.headers) == VersionClaim::Legacy { primed: true });
    let events =
        EventStream::new(EventSource::Stream(reader), state.rules().limits.keep_alive, busy).with_opening(opening);
    let over = state.until_revoked(TokenDigest::of(&head.headers), Some(principal));
    Ok(events.with_session(session).with_streaming(telling).until(over).into_response())
}

/// Ends a session.
pub(super) fn delete(
    connection: &ConnectionContext,
    principal: &Arc<Principal>,
    head: &Parts,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let session = connection.state.sessions.find(&head.headers, principal)?;
    connection.state.sessions.end(session.session());
    let mut response = Response::new(ResponseBody::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

fn nothing_kept() -> HttpRefusal {
    let message = "the events after this Last-Event-ID are gone: leave the header out, or send the request again";
    HttpRefusal::new(StatusCode::BAD_REQUEST, message)
}
