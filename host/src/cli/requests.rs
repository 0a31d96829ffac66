//! Requests to servers that several commands share.

use std::process::ExitCode;
use std::sync::Arc;

use crate::failure::{Failure as Cause, RequestError};
use crate::json::{self, JsonObject};
use crate::registry::{Link, Unavailable};
use crate::session::{RequestTimeouts, Session, SessionRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::context::{CliContext, ServerArgs};
use super::error::{CliError, SERVER_UNAVAILABLE};

/// A server that cannot be used.
#[derive(Serialize, Deserialize)]
pub struct FailedServer {
    /// Its id.
    pub server: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// The answers of all servers.
pub struct ServerResults<T> {
    /// The servers that answered, in the order of the configuration.
    pub answered: Vec<(Arc<Link>, T)>,
    /// The servers that failed.
    pub failed: Vec<FailedServer>,
    /// The exit code of a command that needs at least one answer.
    pub code: ExitCode,
}

/// Connects to all servers concurrently and asks each; warns about servers that cannot be used.
pub async fn query_all<T, W>(context: &CliContext, work: impl Fn(Arc<Session>) -> W) -> ServerResults<T>
where
    W: Future<Output = Result<T, RequestError>>,
{
    let ask = context.enabled_links().into_iter().map(|link| {
        let work = &work;
        async move {
            let outcome = match link.session().await {
                Ok(session) => work(session).await.map_err(Unavailable::Failed),
                Err(why) => Err(why),
            };
            (link, outcome)
        }
    });
    let mut gathered = ServerResults { answered: Vec::new(), failed: Vec::new(), code: ExitCode::SUCCESS };
    for (link, outcome) in futures_util::future::join_all(ask).await {
        match outcome {
            Ok(found) => gathered.answered.push((link, found)),
            Err(why) => {
                context.warn(&link, &why);
                gathered.failed.push(FailedServer { server: link.id().to_owned(), reason: why.to_string() });
            }
        }
    }
    if gathered.answered.is_empty() && !gathered.failed.is_empty() {
        gathered.code = ExitCode::from(SERVER_UNAVAILABLE);
    }
    gathered
}

/// Masks an item of a server, and puts the server's id in front.
pub fn mask_item(context: &CliContext, link: &Link, item: &RawValue) -> Result<JsonObject, CliError> {
    let mut out = JsonObject::default();
    out.set("server", link.id());
    out.extend(&JsonObject::read(&context.gate.mask(link.id(), item.get())?).unwrap_or_default());
    Ok(out)
}

/// Returns a member that is a string.
pub fn member_text(item: &JsonObject, name: &str) -> Option<String> {
    json::string_value(item.get(name)?)
}

/// Returns the error for something that no server has; a server that could not be reached may have it.
pub fn not_found(failed: &[FailedServer], text: String) -> CliError {
    let away: Vec<_> = failed.iter().map(|failed| failed.server.as_str()).collect();
    match away.as_slice() {
        [] => CliError::NotFound(text),
        away => CliError::Unavailable(format!("{text} (these servers could not be reached: {})", away.join(", "))),
    }
}

/// A server's result, masked like the answer of a tool.
pub struct MaskedResult {
    /// The result as an object.
    pub result: JsonObject,
    /// The result as text.
    json: String,
}

impl MaskedResult {
    /// Parses the result into a type; a result that does not fit is the server's fault.
    pub fn read<T: DeserializeOwned>(&self, method: &str) -> Result<T, CliError> {
        let strange = |error| CliError::ServerError(format!("the server's answer to {method} cannot be read: {error}"));
        serde_json::from_str(&self.json).map_err(strange)
    }
}

/// Sends a request to a server and masks its result.
pub async fn request_masked(
    context: &CliContext,
    link: &Link,
    session: &Session,
    method: &str,
    params: &JsonObject,
    args: &ServerArgs,
) -> Result<MaskedResult, CliError> {
    let timeouts = link.server().timeouts;
    let idle = args.timeout.unwrap_or(timeouts.call);
    let patience = RequestTimeouts { idle, total: timeouts.total.max(idle) };
    let params = params.to_text();
    let asked = SessionRequest { method, params: &params, timeouts: patience, progress: None };
    let answer = session.request(asked).await.map_err(|failed| request_error(context, link, &failed))?;
    let json = context.gate.mask(link.id(), answer.json())?;
    let strange =
        || CliError::ServerError(format!("server {:?}: the answer to {method} is not a JSON object", link.id()));
    let result = JsonObject::read(&json).ok_or_else(strange)?;
    Ok(MaskedResult { result, json })
}

/// Converts a failed request to the error that ends a command.
pub fn request_error(context: &CliContext, link: &Link, failed: &RequestError) -> CliError {
    let text = context.clean(&format!("server {:?}: {failed}", link.id()));
    match &failed.failure {
        Cause::Timeout { .. } => CliError::Timeout(text),
        Cause::Rpc(_) | Cause::Protocol(_) => CliError::ServerError(text),
        Cause::Http(error) if error.wants_authorization() => CliError::NeedsAuth(text),
        Cause::NeedsAuth(_) => CliError::NeedsAuth(text),
        Cause::Cancelled => CliError::Interrupted,
        Cause::Http(_)
        | Cause::Connect(_)
        | Cause::NoProgram(_)
        | Cause::NotReady { .. }
        | Cause::Closed
        | Cause::Exited(_)
        | Cause::Abandoned(_)
        | Cause::QueueFull(_)
        | Cause::Restarting
        | Cause::RestartFailed(_) => CliError::Unavailable(text),
    }
}

/// Converts the reason why a server cannot be used to the error that ends a command.
pub fn unavailable_error(context: &CliContext, link: &Link, why: &Unavailable) -> CliError {
    match why {
        Unavailable::Failed(failed) | Unavailable::NeedsAuth(failed) => request_error(context, link, failed),
        _ => CliError::Unavailable(context.clean(&format!("server {:?}: {why}", link.id()))),
    }
}
