//! Requests to servers that several commands share.

use std::process::ExitCode;
use std::sync::Arc;

use crate::failure::{Failure as Cause, RequestError};
use crate::json::{self, JsonObject};
use crate::registry::{Link, Unavailable};
use crate::session::{ListKind, Listing, RequestTimeouts, Session, SessionRequest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::context::{CliContext, ServerArgs};
use super::error::{CliError, SERVER_UNAVAILABLE, USAGE};

/// A server that cannot be used.
#[derive(Serialize, Deserialize)]
pub(super) struct UnansweredServer {
    /// Its id.
    pub server: String,
    /// Why it cannot be used.
    pub reason: String,
    /// Whether its configuration is wrong, and not the server.
    #[serde(skip)]
    pub is_misconfigured: bool,
}

/// Returns the exit code of a command that cannot do without these servers.
pub(super) fn unusable_code(failed: &[UnansweredServer]) -> ExitCode {
    if failed.iter().any(|failed| failed.is_misconfigured) {
        return ExitCode::from(USAGE);
    }
    ExitCode::from(SERVER_UNAVAILABLE)
}

/// The answers of all servers.
pub(super) struct ServerResults<T> {
    /// The servers that answered, in the order of the configuration.
    pub answered: Vec<(Arc<Link>, T)>,
    /// The servers that failed.
    pub failed: Vec<UnansweredServer>,
    /// The exit code of a command that needs at least one answer.
    pub code: ExitCode,
}

impl<T> ServerResults<T> {
    /// Sorts the outcomes, and warns about servers that cannot be used.
    pub(super) fn new(context: &CliContext, outcomes: Vec<(Arc<Link>, Result<T, Unavailable>)>) -> Self {
        let (mut answered, mut failed) = (Vec::new(), Vec::new());
        for (link, outcome) in outcomes {
            match outcome {
                Ok(found) => answered.push((link, found)),
                Err(why) => {
                    context.warn_unusable(&link, &why);
                    failed.push(UnansweredServer {
                        server: link.id().to_owned(),
                        reason: why.to_string(),
                        is_misconfigured: matches!(why, Unavailable::Problem(_)),
                    });
                }
            }
        }
        let unusable = answered.is_empty() && !failed.is_empty();
        let code = if unusable { unusable_code(&failed) } else { ExitCode::SUCCESS };
        ServerResults { answered, failed, code }
    }
}

/// The lists of one server, and the session that they came from.
pub(super) struct FoundLists {
    /// The session.
    pub session: Arc<Session>,
    /// The lists, in the order that was asked for.
    pub lists: Vec<Arc<Listing>>,
}

/// Connects to all servers concurrently and gets these lists from each; warns about servers that cannot be used.
pub(super) async fn list_all(context: &CliContext, kinds: &[ListKind]) -> ServerResults<FoundLists> {
    let ask = context.enabled_links().into_iter().map(|link| async move {
        let lists = async {
            let session = link.session().await?;
            let mut lists = Vec::new();
            for kind in kinds {
                lists.push(session.list(*kind).await.map_err(Unavailable::Failed)?);
            }
            Ok(FoundLists { session, lists })
        };
        let outcome = lists.await;
        (link, outcome)
    });
    ServerResults::new(context, futures_util::future::join_all(ask).await)
}

impl ServerResults<FoundLists> {
    /// Returns the masked items of the list at this place of all servers, each with its server's id in front.
    pub(super) fn masked_items(&self, context: &CliContext, place: usize) -> Result<Vec<JsonObject>, CliError> {
        let mut items = Vec::new();
        for (link, found) in &self.answered {
            for item in &found.lists[place].items {
                let mut out = JsonObject::default();
                out.set("server", link.id());
                out.extend(&JsonObject::read(&context.gate.mask(link.id(), item.get())?).unwrap_or_default());
                items.push(out);
            }
        }
        Ok(items)
    }
}

/// Returns a member that is a string.
pub(super) fn member_text(item: &JsonObject, name: &str) -> Option<String> {
    json::string_value(item.get(name)?)
}

/// Returns the error for something that no server has; a server that could not be reached may have it.
pub(super) fn not_found(failed: &[UnansweredServer], text: String) -> CliError {
    let away: Vec<_> = failed.iter().map(|failed| failed.server.as_str()).collect();
    if away.is_empty() {
        return CliError::NotFound(text);
    }
    let text = format!("{text} (these servers could not be reached: {})", away.join(", "));
    if failed.iter().any(|failed| failed.is_misconfigured) {
        return CliError::Usage(text);
    }
    CliError::Unavailable(text)
}

/// Parses a server's result into a type; a result that does not fit is the server's fault.
pub(super) fn read_result<T: DeserializeOwned>(result: &JsonObject, method: &str) -> Result<T, CliError> {
    let strange = |error| CliError::ServerError(format!("the server's answer to {method} cannot be read: {error}"));
    serde_json::from_str(&result.to_text()).map_err(strange)
}

/// Sends a request to a server, and masks its result like the answer of a tool.
pub(super) async fn request_masked(
    context: &CliContext,
    link: &Link,
    session: &Session,
    method: &str,
    params: &JsonObject,
    args: &ServerArgs,
) -> Result<JsonObject, CliError> {
    let timeouts = link.server().timeouts;
    let idle = args.timeout.unwrap_or(timeouts.call);
    let patience = RequestTimeouts { idle, total: timeouts.total.max(idle) };
    let params = params.to_text();
    let asked = SessionRequest { method, params: &params, timeouts: patience, progress: None };
    let answer = session.request(asked).await.map_err(|failed| request_error(context, link, &failed))?;
    let json = context.gate.mask(link.id(), answer.json())?;
    JsonObject::read(&json).ok_or_else(|| {
        CliError::ServerError(format!("server {:?}: the answer to {method} is not a JSON object", link.id()))
    })
}

/// Converts a failed request to the error that ends a command.
pub(super) fn request_error(context: &CliContext, link: &Link, failed: &RequestError) -> CliError {
    let text = context.clean(&format!("server {:?}: {failed}", link.id()));
    match &failed.failure {
        Cause::Timeout { .. } => CliError::Timeout(text),
        Cause::Rpc(_) | Cause::Protocol(_) => CliError::ServerError(text),
        Cause::Http(error) if error.wants_authorization() => CliError::NeedsAuth(text),
        Cause::NeedsAuth(_) => CliError::NeedsAuth(text),
        Cause::Cancelled => CliError::Interrupted,
        _ => CliError::Unavailable(text),
    }
}

/// Converts the reason why a server cannot be used to the error that ends a command.
pub(super) fn unavailable_error(context: &CliContext, link: &Link, why: &Unavailable) -> CliError {
    match why {
        Unavailable::Failed(failed) | Unavailable::NeedsAuth(failed) => request_error(context, link, failed),
        Unavailable::Problem(_) => CliError::Usage(context.clean(&format!("server {:?}: {why}", link.id()))),
        _ => CliError::Unavailable(context.clean(&format!("server {:?}: {why}", link.id()))),
    }
}
