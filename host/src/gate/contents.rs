//! The resources and prompts of a gate's servers, under the same rules, masks and limits as their tools.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::{CallEvent, CallOptions, FetchError, Gate, GateError};
use crate::failure::{Failure, RequestError};
use crate::json::{JsonObject, to_raw};
use crate::logic::LogicError;
use crate::registry::{Lease, Link, Unavailable};
use crate::session::{Caller, ListKind, Listing};

/// A resource, a template or a prompt, with the server that lists it.
#[derive(Debug, Clone)]
pub struct ListedItem {
    /// The id of the server.
    pub server: String,
    /// The item as its server wrote it, masked.
    pub item: Box<RawValue>,
}

/// The items of all servers that answered.
#[derive(Debug, Default)]
pub struct GateListing {
    /// The items, in the order of the configuration.
    pub items: Vec<ListedItem>,
    /// The servers that could not be asked, and why.
    pub failed: Vec<(String, Unavailable)>,
}

/// A resource or a prompt, with the server that it comes from.
#[derive(Debug, Clone)]
pub struct ServerContent {
    /// The id of the server.
    pub server: String,
    /// The `result` of `resources/read` or `prompts/get`, masked and cut.
    pub result: Box<RawValue>,
}

/// The reason why a resource or a prompt cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// No server that the gate may use has it.
    #[error("no server has {name:?}{}", unreachable(.failed))]
    NotFound {
        /// The URI of the resource, or the name of the server.
        name: String,
        /// Servers that could not be asked.
        failed: Vec<String>,
    },
    /// The URI has this many bytes, more than any server gets.
    #[error("the URI has {0} bytes, and may have {MOST_URI}")]
    LongUri(usize),
    /// The server cannot be used.
    #[error("server {server:?}: {why}")]
    Unavailable {
        /// The id of the server.
        server: String,
        /// The reason.
        why: Unavailable,
    },
    /// The server failed or refused.
    #[error("server {server:?}: {error}")]
    Failed {
        /// The id of the server.
        server: String,
        /// Its error, masked.
        error: RequestError,
    },
    /// The component failed.
    #[error(transparent)]
    Logic(#[from] LogicError),
}

fn unreachable(failed: &[String]) -> String {
    match failed {
        [] => String::new(),
        failed => format!("; these servers could not be asked: {}", failed.join(", ")),
    }
}

impl Gate {
    /// Lists the resources, templates or prompts of all servers that the gate may use.
    pub async fn list(&self, kind: ListKind) -> Result<GateListing, GateError> {
        let mut found = GateListing::default();
        for (link, listed) in self.list_each(kind, None).await {
            let server = link.id().to_owned();
            match listed {
                Ok((_, listing)) => {
                    for item in &listing.items {
                        let masked = self.mask(&server, item.get())?;
                        let item = RawValue::from_string(masked).ok();
                        found.items.extend(item.map(|item| ListedItem { server: server.clone(), item }));
                    }
                }
                Err(why) => found.failed.push((server, why)),
            }
        }
        Ok(found)
    }

    /// Reads a resource from the first server that lists it or has a template for it, or from this one if it does; no
    /// other server learns its URI.
    pub async fn read_resource(&self, uri: &str, server: Option<&str>) -> Result<ServerContent, ContentError> {
        self.read_resource_for(uri, server, &CallOptions::default()).await
    }

    /// Reads a resource for a call, whose caller answers the server's questions.
    pub(super) async fn read_resource_for(
        &self,
        uri: &str,
        server: Option<&str>,
        options: &CallOptions,
    ) -> Result<ServerContent, ContentError> {
        if uri.len() > MOST_URI {
            return Err(ContentError::LongUri(uri.len()));
        }
        let (link, lease, is_listed) = self.resource_owner(uri, server).await?;
        let mut params = JsonObject::default();
        params.set("uri", uri);
        if !is_listed {
            self.note_own_text(&link, options).await?;
        }
        self.content(&link, &lease, "resources/read", &params, options).await
    }

    /// Gets a prompt of a server; the arguments are a JSON object of strings.
    pub async fn prompt(&self, server: &str, name: &str, arguments: &RawValue) -> Result<ServerContent, ContentError> {
        let (link, lease) = self.lease_admitted(server).await?;
        let mut params = JsonObject::default();
        params.set("name", name);
        params.set("arguments", arguments);
        let options = CallOptions::default();
        self.note_own_text(&link, &options).await?;
        self.content(&link, &lease, "prompts/get", &params, &options).await
    }

    /// Remembers that a request brings text to a server that the server did not list.
    async fn note_own_text(&self, link: &Link, options: &CallOptions) -> Result<(), ContentError> {
        let noted = self.note_written(options.caller.trace_id(), link.id()).await;
        noted.map_err(|error| ContentError::Failed { server: link.id().to_owned(), error })
    }

    /// Asks each server, or one of them, for a list.
    async fn list_each(&self, kind: ListKind, server: Option<&str>) -> Vec<(Arc<Link>, ListedFrom)> {
        let mut links = self.admitted_links();
        links.retain(|link| !link.is_disabled() && server.is_none_or(|server| server == link.id()));
        let asked = links.into_iter().map(|link| async move {
            let listed = async {
                let lease = link.lease_if_it_starts().await?;
                let listing = link.list_others(&lease, kind).await.map_err(Unavailable::Failed)?;
                Ok((lease, listing))
            };
            let listed = listed.await;
            (link, listed)
        });
        join_all(asked).await
    }

    /// Returns the server of a resource, and whether the server lists it; if not, it has a template for it.
    async fn resource_owner(&self, uri: &str, server: Option<&str>) -> Result<(Arc<Link>, Lease, bool), ContentError> {
        let mut failed = Vec::new();
        for kind in [ListKind::Resources, ListKind::Templates] {
            let has = |listing: &Listing| match kind {
                ListKind::Resources => listing.lists(uri),
                _ => listing.has_fitting(uri),
            };
            failed.clear();
            for (link, listed) in self.list_each(kind, server).await {
                match listed {
                    Ok((lease, listing)) if has(&listing) => return Ok((link, lease, kind == ListKind::Resources)),
                    Ok(_) => {}
                    Err(_) => failed.push(link.id().to_owned()),
                }
            }
        }
        Err(ContentError::NotFound { name: uri.to_owned(), failed })
    }

    async fn lease_admitted(&self, server: &str) -> Result<(Arc<Link>, Lease), ContentError> {
        let not_found = || ContentError::NotFound { name: server.to_owned(), failed: Vec::new() };
        let link = self.admitted_links().into_iter().find(|link| link.id() == server).ok_or_else(not_found)?;
        let unavailable = |why| ContentError::Unavailable { server: server.to_owned(), why };
        let lease = link.lease().await.map_err(unavailable)?;
        Ok((link, lease))
    }

    async fn content(
        &self,
        link: &Link,
        lease: &Lease,
        method: &'static str,
        params: &JsonObject,
        options: &CallOptions,
    ) -> Result<ServerContent, ContentError> {
        let server = link.id().to_owned();
        if !options.caller.input.is_empty() {
            self.note_own_text(link, options).await?;
        }
        // The caller gets text and cannot repeat the request, so its handler answers what the server asks.
        let caller = Caller { handles_input: false, ..options.caller.clone() };
        let emit = |event: CallEvent| options.events.iter().for_each(|listen| listen(event.clone()));
        emit(CallEvent::Requesting { server: server.clone(), connection: link.number() });
        let fetched = self.fetch(link, lease.session(), method, &params.to_text(), &caller, None).await;
        emit(CallEvent::Answered);
        match fetched {
            Ok(result) => {
                let result = RawValue::from_string(result).unwrap_or_else(|_| to_raw("the result is not JSON"));
                Ok(ServerContent { server, result })
            }
            Err(FetchError::Failed(mut error)) => {
                if let Failure::Rpc(rpc) = error.failure {
                    error.failure = Failure::Rpc(self.mask_error(&server, rpc));
                }
                Err(ContentError::Failed { server, error })
            }
            Err(FetchError::Logic(error)) => Err(error.into()),
        }
    }
}

/// The longest URI that a server gets, in bytes.
pub(crate) const MOST_URI: usize = 8 << 10;

/// The list of one server, with the lease that keeps it connected.
type ListedFrom = Result<(Lease, Arc<Listing>), Unavailable>;
