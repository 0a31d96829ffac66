//! The import `toolgate:client/transport`: sends the requests of a component over the connections of a registry.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wasmtime::component::Accessor;

use super::bindings::toolgate::client::transport::{Failed as Said, Host, HostWithStore};
use super::context::{FailedRequest, GrantedServers};
use super::{Toolgate, ToolgateCtx};
use crate::failure::{Failure, RequestError};
use crate::gate::enter_queues;
use crate::json;
use crate::logic::types::Json;
use crate::registry::{Lease, Link};
use crate::session::{RequestTimeouts, SessionRequest};
use crate::stats::StatsOutcome;

impl Host for ToolgateCtx {}

impl<T: Send + 'static> HostWithStore<T> for Toolgate {
    async fn request(store: &Accessor<T, Self>, server: String, method: String, params: Json) -> Result<Json, Said> {
        let servers = store.with(|mut store| store.get().granted_servers(&server)).map_err(say)?;
        request(&servers, &server, &method, &params).await.map_err(say)
    }

    async fn reconnect(store: &Accessor<T, Self>, server: String) -> Result<(), Said> {
        let servers = store.with(|mut store| store.get().granted_servers(&server)).map_err(say)?;
        reconnect(&servers, &server).await.map_err(say)
    }

    async fn wait(_store: &Accessor<T, Self>, min_ms: u64, max_ms: u64) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(min_ms..=max_ms.max(min_ms)))).await;
    }
}

async fn request(servers: &GrantedServers, server: &str, method: &str, params: &str) -> Result<String, RequestError> {
    let link = servers.link(server)?;
    let timeouts = link.server().timeouts;
    let patience = RequestTimeouts { idle: timeouts.call, total: timeouts.total.max(timeouts.call) };
    let call = method == "tools/call";
    let _turn = match call {
        true => enter_queues(&link, &tool_in(params), patience, |_| ()).await?,
        false => None,
    };
    let lease = link.lease().await.map_err(|unavailable| unavailable.to_failed())?;
    if method == "tools/list" && !params.contains("\"cursor\"") {
        return list(&link, &lease).await;
    }
    let counted = call.then(|| link.stats().begin());
    let begun = Instant::now();
    let session = lease.session();
    let outcome = session.request(SessionRequest::new(method, params, patience)).await;
    if let Some(counted) = counted {
        counted.finish(begun.elapsed(), if outcome.is_ok() { StatsOutcome::Ok } else { StatsOutcome::Failed });
    }
    match outcome {
        Ok(reply) => Ok(reply.into_json()),
        Err(failed) => {
            if matches!(failed.failure, Failure::Timeout { .. }) {
                link.report_timeout(session);
            }
            servers.note_failure(server, session, &failed);
            Err(failed)
        }
    }
}

/// Returns all tools of a server as one page, from the registry, which keeps what later calls need.
async fn list(link: &Link, lease: &Lease) -> Result<String, RequestError> {
    let tools = link.tools_of(lease).await.map_err(|unavailable| unavailable.to_failed())?;
    let items: Vec<&str> = tools.definitions.iter().map(|definition| definition.raw.get()).collect();
    Ok(format!(r#"{{"tools":[{}]}}"#, items.join(",")))
}

async fn reconnect(servers: &GrantedServers, server: &str) -> Result<(), RequestError> {
    let link: Arc<Link> = servers.link(server)?;
    match servers.take_failure(server) {
        Some(FailedRequest { failed, .. }) if failed.failure.wants_authorization() => {
            return link.reauthenticate(Some(&failed)).await;
        }
        Some(FailedRequest { session, .. }) => link.discard_session(&session),
        // Another call has reconnected already.
        None => {}
    }
    link.lease().await.map(drop).map_err(|unavailable| unavailable.to_failed())
}

/// Converts a failure to its WIT form.
fn say(failed: RequestError) -> Said {
    Said { failure: (&failed.failure).into(), phase: failed.phase() }
}

/// Returns the name of the tool that these `params` call.
fn tool_in(params: &str) -> String {
    let name = json::find_members(params, ["name"]).ok().and_then(|[name]| json::decode_string(&params[name?]));
    name.unwrap_or_default()
}
