//! What commands share that ask servers for more than tools.

use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;
use toolgate::failure::{Failed, Failure as Cause};
use toolgate::json::Object;
use toolgate::registry::{Link, Unavailable};
use toolgate::session::Session;

use super::desk::Desk;
use super::failure::{Failure, SERVER_UNAVAILABLE};

/// A server that cannot be used.
#[derive(Serialize)]
pub struct FailedServer {
    /// Its id.
    pub server: String,
    /// Why.
    pub reason: String,
}

/// What the servers answered.
pub struct Gathered<'a, T> {
    /// Those that did, in the order of the configuration.
    pub found: Vec<(&'a Arc<Link>, T)>,
    /// Those that could not.
    pub failed: Vec<FailedServer>,
    /// How a command that needs any of them ends.
    pub code: ExitCode,
}

/// Connects all servers side by side and asks each; those that cannot be used are warned of.
pub async fn gather<'a, T, W>(desk: &'a Desk, work: impl Fn(Arc<Session>) -> W) -> Gathered<'a, T>
where
    W: Future<Output = Result<T, Failed>>,
{
    let ask = desk.links().map(|link| {
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
                desk.warn(link, &why);
                gathered.failed.push(FailedServer { server: link.id().to_owned(), reason: why.to_string() });
            }
        }
    }
    if gathered.found.is_empty() && !gathered.failed.is_empty() {
        gathered.code = ExitCode::from(SERVER_UNAVAILABLE);
    }
    gathered
}

/// An item of a list with the id of its server before all that the server says.
pub fn owned(link: &Link, item: &RawValue) -> Object {
    let mut out = Object::default();
    out.set("server", link.id());
    out.extend(&Object::read(item.get()).unwrap_or_default());
    out
}

/// A member that is text.
pub fn text(item: &Object, name: &str) -> Option<String> {
    serde_json::from_str(item.get(name)?.get()).ok()
}

/// A request that failed, as the end of a command.
pub fn failure(desk: &Desk, link: &Link, failed: &Failed) -> Failure {
    let text = desk.clean(&format!("server {:?}: {failed}", link.id()));
    match &failed.failure {
        Cause::Timeout { .. } => Failure::Timeout(text),
        Cause::Rpc(_) | Cause::Protocol(_) => Failure::Refused(text),
        Cause::Http(error) if matches!(error.status, 401 | 403) => Failure::NeedsAuth(text),
        Cause::Cancelled => Failure::Interrupted,
        Cause::Http(_) | Cause::Connect(_) | Cause::Closed | Cause::Exited(_) => Failure::Unavailable(text),
    }
}

/// A server that cannot be used, as the end of a command.
pub fn unavailable(desk: &Desk, link: &Link, why: &Unavailable) -> Failure {
    match why {
        Unavailable::Failed(failed) => failure(desk, link, failed),
        Unavailable::Disabled | Unavailable::Problem(_) => {
            Failure::Usage(desk.clean(&format!("server {:?}: {why}", link.id())))
        }
    }
}
