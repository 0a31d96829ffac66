//! What commands share that ask servers for more than tools.

use std::process::ExitCode;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate::failure::{Failed, Failure as Cause};
use toolgate::json::{self, Object};
use toolgate::registry::{Link, Unavailable};
use toolgate::session::{Patience, Request, Session};

use super::desk::{Desk, ServerArgs};
use super::failure::{Failure, SERVER_UNAVAILABLE};

/// A server that cannot be used.
#[derive(Serialize, Deserialize)]
pub struct FailedServer {
    /// Its id.
    pub server: String,
    /// Why.
    pub reason: String,
}

/// What the servers answered.
pub struct Gathered<T> {
    /// Those that did, in the order of the configuration.
    pub found: Vec<(Arc<Link>, T)>,
    /// Those that could not.
    pub failed: Vec<FailedServer>,
    /// How a command that needs any of them ends.
    pub code: ExitCode,
}

/// Connects all servers side by side and asks each; those that cannot be used are warned of.
pub async fn gather<T, W>(desk: &Desk, work: impl Fn(Arc<Session>) -> W) -> Gathered<T>
where
    W: Future<Output = Result<T, Failed>>,
{
    let ask = desk.links().into_iter().map(|link| {
        let work = &work;
        async move {
            let outcome = match link.session().await {
                Ok(session) => work(session).await.map_err(Unavailable::Failed),
                Err(why) => Err(why),
            };
            (link, outcome)
        }
    });
    let mut gathered = Gathered { found: Vec::new(), failed: Vec::new(), code: ExitCode::SUCCESS };
    for (link, outcome) in futures_util::future::join_all(ask).await {
        match outcome {
            Ok(found) => gathered.found.push((link, found)),
            Err(why) => {
                desk.warn(&link, &why);
                gathered.failed.push(FailedServer { server: link.id().to_owned(), reason: why.to_string() });
            }
        }
    }
    if gathered.found.is_empty() && !gathered.failed.is_empty() {
        gathered.code = ExitCode::from(SERVER_UNAVAILABLE);
    }
    gathered
}

/// What a server says, masked, with the id of the server before it.
pub fn owned(desk: &Desk, link: &Link, item: &RawValue) -> Result<Object, Failure> {
    let mut out = Object::default();
    out.set("server", link.id());
    out.extend(&Object::read(&desk.gate.mask(link.id(), item.get())?).unwrap_or_default());
    Ok(out)
}

/// A member that is text.
pub fn text(item: &Object, name: &str) -> Option<String> {
    json::text(item.get(name)?)
}

/// The end of a command for which the thing was looked for on all servers and not found: a server that could not be
/// asked may have it.
pub fn not_found(failed: &[FailedServer], text: String) -> Failure {
    let away: Vec<_> = failed.iter().map(|failed| failed.server.as_str()).collect();
    match away.as_slice() {
        [] => Failure::NoSuchThing(text),
        away => Failure::Unavailable(format!("{text} (not asked, since unavailable: {})", away.join(", "))),
    }
}

/// What a server has to say on one thing, masked and cut like the answer of a tool.
pub struct Said {
    /// The result, as the server wrote it.
    pub result: Object,
    /// The same as text.
    json: String,
}

impl Said {
    /// The result as a value of some type; what does not fit is the server's fault.
    pub fn read<T: DeserializeOwned>(&self, method: &str) -> Result<T, Failure> {
        let strange = |error| Failure::Refused(format!("the server answered {method} with what it is not: {error}"));
        serde_json::from_str(&self.json).map_err(strange)
    }
}

/// Asks a server for one thing.
pub async fn ask(
    desk: &Desk,
    link: &Link,
    session: &Session,
    method: &str,
    params: &Object,
    args: &ServerArgs,
) -> Result<Said, Failure> {
    let timeouts = link.server().timeouts;
    let quiet = args.timeout.unwrap_or(timeouts.call);
    let patience = Patience { quiet, total: timeouts.total.max(quiet) };
    let params = params.to_text();
    let asked = Request { method, params: &params, patience, progress: None };
    let answer = session.request(asked).await.map_err(|failed| failure(desk, link, &failed))?;
    let json = desk.gate.mask(link.id(), answer.json())?;
    let strange = || Failure::Refused(format!("server {:?} answered {method} with what is no object", link.id()));
    let result = Object::read(&json).ok_or_else(strange)?;
    Ok(Said { result, json })
}

/// A request that failed, as the end of a command.
pub fn failure(desk: &Desk, link: &Link, failed: &Failed) -> Failure {
    let text = desk.clean(&format!("server {:?}: {failed}", link.id()));
    match &failed.failure {
        Cause::Timeout { .. } => Failure::Timeout(text),
        Cause::Rpc(_) | Cause::Protocol(_) => Failure::Refused(text),
        Cause::Http(error) if error.wants_authorization() => Failure::NeedsAuth(text),
        Cause::NeedsAuth(_) => Failure::NeedsAuth(text),
        Cause::Cancelled => Failure::Interrupted,
        Cause::Http(_)
        | Cause::Connect(_)
        | Cause::NoProgram(_)
        | Cause::NotReady { .. }
        | Cause::Closed
        | Cause::Exited(_)
        | Cause::Abandoned(_)
        | Cause::QueueFull(_)
        | Cause::Restarting
        | Cause::RestartFailed(_) => Failure::Unavailable(text),
    }
}

/// A server that cannot be used, as the end of a command.
pub fn unavailable(desk: &Desk, link: &Link, why: &Unavailable) -> Failure {
    match why {
        Unavailable::Failed(failed) | Unavailable::NeedsAuth(failed) => failure(desk, link, failed),
        _ => Failure::Unavailable(desk.clean(&format!("server {:?}: {why}", link.id()))),
    }
}
