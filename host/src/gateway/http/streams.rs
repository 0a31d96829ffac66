//! GET and DELETE to `/mcp`, which only sessions have: the stream of unasked messages, what is left of a stream that
//! was cut, and the end of a session.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};

use super::body::{Body, Events, Source};
use super::channel::parse_id;
use super::desk::Visit;
use super::media;
use super::message::Claim;
use super::pace::Busy;
use super::refusal::Refusal;
use super::tokens::Pass;
use crate::gateway::client::Principal;

/// Opens the stream of unasked messages, in place of one that is open, or goes on with a stream after an event.
pub(super) fn open(
    visit: &Visit,
    principal: &Arc<Principal>,
    head: &Parts,
    busy: Busy,
) -> Result<Response<Body>, Refusal> {
    media::check_get(&head.headers)?;
    let desk = &*visit.desk;
    let session = desk.sessions.find(&head.headers, principal)?;
    let (number, after) = match head.headers.get("last-event-id").map(|id| id.to_str().ok().and_then(parse_id)) {
        None => (0, None),
        Some(Some((number, event))) => (number, Some(event)),
        Some(None) => return Err(nothing_kept()),
    };
    let channel = session.session().find(number).ok_or_else(nothing_kept)?;
    if after.is_some_and(|after| channel.has_forgotten(after)) {
        return Err(nothing_kept());
    }
    let telling = visit.tell_news()?;
    let reader = channel.attach(after);
    visit.pace.work();
    let opening = channel.opening(Claim::of(&head.headers) == Claim::Legacy { primed: true });
    let events = Events::new(Source::Stream(reader), desk.rules().limits.keep_alive, busy).opening(opening);
    let over = desk.over_for(Pass::of(&head.headers), Some(principal));
    Ok(events.using(session).telling(telling).until(over).into_response())
}

/// Ends a session.
pub(super) fn delete(visit: &Visit, principal: &Arc<Principal>, head: &Parts) -> Result<Response<Body>, Refusal> {
    let session = visit.desk.sessions.find(&head.headers, principal)?;
    visit.desk.sessions.end(session.session());
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

fn nothing_kept() -> Refusal {
    let message = "nothing is kept of the stream of this event: leave out Last-Event-ID, or send the request again";
    Refusal::new(StatusCode::BAD_REQUEST, message)
}
