//! Requests that take several rounds: a server of 2026-07-28 answers that it wants input, and is asked again with it.
//!
//! A caller that can give the input itself gets the answer as it is, and nothing is kept of it here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::debug;

use super::handler::{Handler, Question, Topic};
use super::wire::quote;
use super::{Caller, Lack, METHOD_NOT_FOUND, Patience, Reply, Request, Session, lack, params};
use crate::failure::{Failed, Failure, RpcError};
use crate::json::{Object, RESULT_TYPE, raw, spells_letters};

/// Asks until the answer is complete.
pub async fn run(session: &Session, request: &Request<'_>, caller: &Caller) -> Result<Reply, Failed> {
    let started = Instant::now();
    let given = caller.given.members();
    let params = match given.as_slice() {
        [] => Cow::Borrowed(request.params),
        given => Cow::Owned(params::with_members(request.params, given)),
    };
    let reply = session.exchange(request, &params, caller).await?;
    match read(&reply, request.method)? {
        Outcome::Complete => {}
        Outcome::Wants(wanted) if caller.asks_again => wanted.check(caller, request.method)?,
        // Apart, so that requests of one round have no room for it.
        Outcome::Wants(_) => return Box::pin(go_on(session, request, caller, started, reply)).await,
    }
    Ok(reply)
}

/// Gives what an answer wants, and asks again.
async fn go_on(
    session: &Session,
    request: &Request<'_>,
    caller: &Caller,
    started: Instant,
    mut reply: Reply,
) -> Result<Reply, Failed> {
    let left = || request.patience.total.saturating_sub(started.elapsed());
    for round in 0..MAX_ROUNDS {
        let Outcome::Wants(wanted) = read(&reply, request.method)? else { return Ok(reply) };
        debug!(method = request.method, round, "the server wants input");
        let answered = tokio::time::timeout(left(), next_params(session, caller, request, &wanted)).await;
        let params = answered.map_err(|_| unanswered(request))??;
        let patience = Patience { total: left(), ..request.patience };
        reply = session.exchange(&Request { patience, ..request.clone() }, &params, caller).await?;
    }
    match read(&reply, request.method)? {
        Outcome::Complete => Ok(reply),
        Outcome::Wants(_) => {
            let how = format!("{} wants input for the {}th time", request.method, MAX_ROUNDS + 1);
            Err(Failed::sent(Failure::Protocol(how)))
        }
    }
}

/// Nobody gave the input in time; the server waits for it and did not go on.
fn unanswered(request: &Request<'_>) -> Failed {
    let message = format!("{} wants input, and nobody gave it within {:?}", request.method, request.patience.total);
    Failed::sent(Failure::Rpc(RpcError::new(METHOD_NOT_FOUND, message)))
}

/// What an answer is.
enum Outcome<'a> {
    Complete,
    Wants(Wanted<'a>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted<'a> {
    #[serde(default, borrow)]
    input_requests: Option<BTreeMap<String, InputRequest<'a>>>,
    /// Belongs to the server: it goes back byte for byte, unread.
    #[serde(default, borrow)]
    request_state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct InputRequest<'a> {
    method: String,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
}

impl Wanted<'_> {
    /// A caller is asked only for what it said that it can give.
    fn check(&self, caller: &Caller, method: &str) -> Result<(), Failed> {
        let can = caller.capabilities.as_deref().and_then(Object::read).unwrap_or_default();
        for asked in self.input_requests.iter().flat_map(BTreeMap::values) {
            let topic = Topic::of(&asked.method);
            let lack = topic.map_or(Some(Lack::Capability), |topic| lack(&can, topic, asked.params));
            let Some(lack) = lack else { continue };
            let (mut part, mut way) = (Object::default(), String::new());
            if let Lack::Part(name) = lack {
                part.set(&name, &Object::default());
                way = format!(" with {name:?}");
            }
            let wants = &asked.method;
            let message = format!("{method} wants {wants}{way}, and the client did not say that it can give that");
            let mut required = Object::default();
            required.set(topic.map_or(wants.as_str(), |topic| topic.capability()), &part);
            let mut data = Object::default();
            data.set("requiredCapabilities", &required);
            let error = RpcError { data: Some(raw(&data)), ..RpcError::new(MISSING_CAPABILITY, message) };
            return Err(Failed::sent(Failure::Rpc(error)));
        }
        Ok(())
    }
}

fn read<'a>(reply: &'a Reply, method: &str) -> Result<Outcome<'a>, Failed> {
    // Nearly every answer is complete, and to find out where it says so is to read all of it.
    let marked = RESULT_TYPE.values(reply.json()).all(|value| value.starts_with(COMPLETE));
    // A name that is spelt with escapes means the same to the client, who must not be asked past us.
    if marked && !spells_letters(reply.json()) {
        return Ok(Outcome::Complete);
    }
    #[derive(Deserialize)]
    struct Marked<'a> {
        #[serde(rename = "resultType", default, borrow)]
        result_type: Option<&'a RawValue>,
    }
    match reply.read::<Marked>(method)?.result_type.map(RawValue::get) {
        None | Some(COMPLETE) => Ok(Outcome::Complete),
        Some(r#""input_required""#) => {
            let wanted = reply.read::<Wanted>(method)?;
            // To ask again with nothing new would bring the same answer.
            if wanted.request_state.is_none() && wanted.input_requests.as_ref().is_none_or(BTreeMap::is_empty) {
                let how = format!("{method} wants input, but neither says which nor has a requestState to go on with");
                return Err(Failed::sent(Failure::Protocol(how)));
            }
            Ok(Outcome::Wants(wanted))
        }
        Some(other) => {
            let how = format!("the result of {method} is of a type that nobody knows: {other}");
            Err(Failed::sent(Failure::Protocol(how)))
        }
    }
}

/// The parameters of the next round: what was asked at first, the answers, and the server's state.
async fn next_params(
    session: &Session,
    caller: &Caller,
    request: &Request<'_>,
    wanted: &Wanted<'_>,
) -> Result<String, Failed> {
    let handler = caller.handler.as_ref().unwrap_or_else(|| session.wire.handler());
    let mut answers = Vec::new();
    for (key, asked) in wanted.input_requests.iter().flatten() {
        let answer = answer(&**handler, request.method, asked).await?;
        answers.push(format!("{}:{answer}", quote(key)));
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

async fn answer(handler: &dyn Handler, method: &str, asked: &InputRequest<'_>) -> Result<Box<RawValue>, Failed> {
    // The server has said that it did not go on: to refuse is safe, and final.
    let refused = |error: RpcError| {
        let message = format!("{method} wants {}, and got none: {}", asked.method, error.message);
        Failed::sent(Failure::Rpc(RpcError { message, ..error }))
    };
    let unknown = || RpcError::new(METHOD_NOT_FOUND, "nobody here can give that");
    let topic = Topic::of(&asked.method).ok_or_else(|| refused(unknown()))?;
    let params = asked.params.map_or_else(super::empty_object, ToOwned::to_owned);
    handler.answer(Question { server: String::new(), connection: 0, topic, params }).await.map_err(refused)
}

/// The code for what a client would have to be able to do.
const MISSING_CAPABILITY: i64 = -32021;
/// The type of a result that wants nothing more.
const COMPLETE: &str = r#""complete""#;
/// How often a server may want input before it is given up.
const MAX_ROUNDS: usize = 10;
