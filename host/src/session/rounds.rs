//! Requests with several rounds: a server of 2026-07-28 asks for input, and the request is repeated with it.
//!
//! A caller that handles input itself gets such a result unchanged, and nothing is kept here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::debug;

use super::handler::{Handler, ServerQuestion, Topic};
use super::{Caller, MissingCapability, Reply, RequestTimeouts, Session, SessionRequest, missing_capability, params};
use crate::failure::{Failure, RequestError, RpcError};
use crate::json::{JsonObject, RESULT_TYPE, has_escaped_ascii, to_raw};
use crate::rpc::code::{METHOD_NOT_FOUND, MISSING_CAPABILITY};

/// Sends a request until the result is complete.
pub(super) async fn run(
    session: &Session,
    request: &SessionRequest<'_>,
    caller: &Caller,
) -> Result<Reply, RequestError> {
    let started = Instant::now();
    let given = caller.input.members();
    let params = match given.as_slice() {
        [] => Cow::Borrowed(request.params),
        given => Cow::Owned(params::with_members(request.params, given)),
    };
    let reply = session.exchange(request, &params, caller).await?;
    match input_required(&reply, request.method)? {
        None => {}
        Some(wanted) if caller.handles_input => wanted.check(caller, request.method)?,
        // Boxed, so that requests of one round do not pay for its size.
        Some(_) => return Box::pin(run_rounds(session, request, caller, started, reply)).await,
    }
    Ok(reply)
}

/// Provides the input that a result asks for, and repeats the request.
async fn run_rounds(
    session: &Session,
    request: &SessionRequest<'_>,
    caller: &Caller,
    started: Instant,
    mut reply: Reply,
) -> Result<Reply, RequestError> {
    let left = || request.timeouts.total.saturating_sub(started.elapsed());
    for round in 0..MAX_ROUNDS {
        let Some(wanted) = input_required(&reply, request.method)? else { return Ok(reply) };
        debug!(method = request.method, round, "the server asks for input");
        let answered = tokio::time::timeout(left(), next_params(session, caller, request, &wanted)).await;
        let params = answered.map_err(|_| input_timeout(request))??;
        let timeouts = RequestTimeouts { total: left(), ..request.timeouts };
        reply = session.exchange(&SessionRequest { timeouts, ..request.clone() }, &params, caller).await?;
    }
    match input_required(&reply, request.method)? {
        None => Ok(reply),
        Some(_) => {
            let how = format!("{} asks for input for the {}th time", request.method, MAX_ROUNDS + 1);
            Err(RequestError::sent(Failure::Protocol(how)))
        }
    }
}

/// Builds the error for input that nobody provided in time; the server has not gone on without it.
fn input_timeout(request: &SessionRequest<'_>) -> RequestError {
    let message = format!("{} asks for input, but got none within {:?}", request.method, request.timeouts.total);
    RequestError::sent(Failure::Rpc(RpcError::new(METHOD_NOT_FOUND, message)))
}

/// A result that asks for input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    #[serde(borrow)]
    input_requests: Option<BTreeMap<String, InputRequest<'a>>>,
    /// Opaque: it goes back to the server byte for byte.
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InputRequest<'a> {
    method: String,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl InputRequired<'_> {
    /// Checks that the server asks a caller only for what its capabilities declare.
    fn check(&self, caller: &Caller, method: &str) -> Result<(), RequestError> {
        let can = caller.capabilities.as_deref().and_then(JsonObject::read).unwrap_or_default();
        for asked in self.input_requests.iter().flat_map(BTreeMap::values) {
            let topic = Topic::of(&asked.method);
            let lack = topic
                .map_or(Some(MissingCapability::Capability), |topic| missing_capability(&can, topic, asked.params));
            let Some(lack) = lack else { continue };
            let (mut part, mut way) = (JsonObject::default(), String::new());
            if let MissingCapability::Part(name) = lack {
                part.set(&name, &JsonObject::default());
                way = format!(" with {name:?}");
            }
            let wants = &asked.method;
            let message = format!("{method} needs {wants}{way}, which the client's capabilities do not declare");
            let mut required = JsonObject::default();
            required.set(topic.map_or(wants.as_str(), |topic| topic.capability()), &part);
            let mut data = JsonObject::default();
            data.set("requiredCapabilities", &required);
            let error = RpcError { data: Some(to_raw(&data)), ..RpcError::new(MISSING_CAPABILITY, message) };
            return Err(RequestError::sent(Failure::Rpc(error)));
        }
        Ok(())
    }
}

/// Reads what a result asks for; `None` if it is complete.
fn input_required<'a>(reply: &'a Reply, method: &str) -> Result<Option<InputRequired<'a>>, RequestError> {
    // Almost every result is complete, and finding where it says so means parsing all of it.
    let marked = RESULT_TYPE.values(reply.json()).all(|value| value.starts_with(COMPLETE));
    // An escaped member name means the same to the client, so it must not bypass this check.
    if marked && !has_escaped_ascii(reply.json()) {
        return Ok(None);
    }
    #[derive(Deserialize)]
    struct ResultTypeField<'a> {
        #[serde(rename = "resultType", borrow)]
        result_type: Option<&'a RawValue>,
    }
    match reply.read::<ResultTypeField>(method)?.result_type.map(RawValue::get) {
        None | Some(COMPLETE) => Ok(None),
        Some(r#""input_required""#) => {
            let wanted = reply.read::<InputRequired>(method)?;
            let questions = wanted.input_requests.as_ref().map_or(0, BTreeMap::len);
            if questions > MAX_QUESTIONS {
                let how =
                    format!("{method} asks {questions} questions at once, but at most {MAX_QUESTIONS} may be asked");
                return Err(RequestError::sent(Failure::Protocol(how)));
            }
            // Repeating the request with nothing new would give the same result.
            if wanted.request_state.is_none() && wanted.input_requests.as_ref().is_none_or(BTreeMap::is_empty) {
                let how = format!("{method} asks for input, but has neither inputRequests nor a requestState");
                return Err(RequestError::sent(Failure::Protocol(how)));
            }
            Ok(Some(wanted))
        }
        Some(other) => {
            let how = format!("the result of {method} has an unknown resultType: {other}");
            Err(RequestError::sent(Failure::Protocol(how)))
        }
    }
}

/// Builds the params of the next round: the original ones, the answers, and the server's state.
async fn next_params(
    session: &Session,
    caller: &Caller,
    request: &SessionRequest<'_>,
    wanted: &InputRequired<'_>,
) -> Result<String, RequestError> {
    let handler = caller.handler.as_ref().unwrap_or_else(|| session.wire.handler());
    let mut answers = Vec::new();
    for (key, asked) in wanted.input_requests.iter().flatten() {
        let answer = answer(&**handler, request.method, asked).await?;
        answers.push(format!("{}:{answer}", crate::rpc::quote(key)));
    }
    let answers = RawValue::from_string(format!("{{{}}}", answers.join(","))).expect("answers are JSON");
    let mut more: Vec<(&str, &RawValue)> = Vec::new();
    if wanted.input_requests.is_some() {
        more.push(("inputResponses", &answers));
    }
    if let Some(state) = wanted.request_state {
        more.push(("requestState", state));
    }
    Ok(params::with_members(request.params, &more))
}

async fn answer(handler: &dyn Handler, method: &str, asked: &InputRequest<'_>) -> Result<Box<RawValue>, RequestError> {
    // The server has not gone on, so refusing is safe and final.
    let refused = |error: RpcError| {
        let message = format!("{method} needs {}, which failed: {}", asked.method, error.message);
        RequestError::sent(Failure::Rpc(RpcError { message, ..error }))
    };
    let unknown = || RpcError::new(METHOD_NOT_FOUND, "this client does not support it");
    let topic = Topic::of(&asked.method).ok_or_else(|| refused(unknown()))?;
    let params = asked.params.map_or_else(super::empty_object, ToOwned::to_owned);
    handler.answer(ServerQuestion::new(topic, params)).await.map_err(refused)
}

/// The `resultType` of a complete result.
const COMPLETE: &str = r#""complete""#;
/// How many questions a server may ask at once.
const MAX_QUESTIONS: usize = 64;
/// How often a server may ask for input in one request.
const MAX_ROUNDS: usize = 10;
