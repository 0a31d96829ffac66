//! Resources and prompts in the API for operators: their lists, and for admins what is in them.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::client::Principal;
use super::super::{Gateway, bounds};
use super::{ApiResponse, error, failed};
use crate::failure::RpcError;
use crate::gate::{ContentError, Gate, ServerContent};
use crate::json::{JsonObject, read_object, to_raw};
use crate::session::ListKind;

impl Gateway {
    /// Lists the resources and templates of the servers that the principal may use, which are started if they can be.
    pub async fn resources(&self, principal: &Principal) -> Result<ApiResponse, ApiResponse> {
        let gate = self.operator_gate(principal).map_err(failed)?;
        let (resources, templates) =
            futures_util::future::join(list(&gate, ListKind::Resources), list(&gate, ListKind::Templates)).await;
        let ((resources, failed), (templates, _)) = (resources?, templates?);
        let mut body = JsonObject::default();
        body.set("resources", &resources);
        body.set("templates", &templates);
        body.set("failed", &failed);
        Ok(self.redacted(&body.to_text()))
    }

    /// Lists the prompts of the servers that the principal may use, which are started if they can be.
    pub async fn prompts(&self, principal: &Principal) -> Result<ApiResponse, ApiResponse> {
        let (prompts, failed) = list(&*self.operator_gate(principal).map_err(failed)?, ListKind::Prompts).await?;
        let mut body = JsonObject::default();
        body.set("prompts", &prompts);
        body.set("failed", &failed);
        Ok(self.redacted(&body.to_text()))
    }

    /// Reads a resource, as a client of this principal could.
    pub async fn read_resource(&self, principal: &Principal, body: &[u8]) -> Result<ApiResponse, ApiResponse> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            uri: String,
            #[serde(default)]
            server: Option<String>,
        }
        let wrong = |_| error(400, "send {\"uri\": …}, with \"server\" if several have it");
        let Body { uri, server } = read_object(body).map_err(wrong)?;
        let gate = self.operator_gate(principal).map_err(failed)?;
        self.content(gate.read_resource(&uri, server.as_deref()).await)
    }

    /// Gets a prompt, as a client of this principal could.
    pub async fn prompt(&self, principal: &Principal, body: &[u8]) -> Result<ApiResponse, ApiResponse> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            server: String,
            name: String,
            #[serde(default)]
            arguments: JsonObject,
        }
        let wrong = |_| error(400, "send {\"server\": …, \"name\": …, \"arguments\": an object of texts}");
        let Body { server, name, arguments } = read_object(body).map_err(wrong)?;
        bounds::check_prompt_name(&name).map_err(|RpcError { message, .. }| error(400, &message))?;
        let gate = self.operator_gate(principal).map_err(failed)?;
        self.content(gate.prompt(&server, &name, &to_raw(&arguments)).await)
    }

    fn content(&self, content: Result<ServerContent, ContentError>) -> Result<ApiResponse, ApiResponse> {
        match content {
            Ok(ServerContent { server, result }) => {
                Ok(self.redacted(to_raw(&Content { server: &server, result: &result }).get()))
            }
            Err(why) => {
                let status = match why {
                    ContentError::NotFound { .. } => 404,
                    ContentError::LongUri(_) => 400,
                    ContentError::Logic(_) => 500,
                    ContentError::Unavailable { .. } | ContentError::Failed { .. } => 502,
                };
                Err(error(status, &self.redacted(&why.to_string()).body))
            }
        }
    }
}

/// What a server returned for a resource or a prompt.
#[derive(serde::Serialize)]
struct Content<'a> {
    server: &'a str,
    result: &'a RawValue,
}

/// Lists the items of all servers of a gate, each with its server, and the servers that could not be asked.
async fn list(gate: &Gate, kind: ListKind) -> Result<(Vec<JsonObject>, Vec<Value>), ApiResponse> {
    let mut links = gate.admitted_links();
    links.retain(|link| !link.is_disabled());
    let asked = links.iter().map(|link| async {
        let listed = async {
            let lease = link.lease_if_it_starts().await.map_err(|why| why.to_string())?;
            link.list_others(&lease, kind).await.map_err(|why| why.to_string())
        };
        // A slow server delays the others no longer than this.
        let listed = tokio::time::timeout(LIMIT, listed).await;
        (link.id(), listed.unwrap_or_else(|_| Err(format!("no answer to {} within {LIMIT:?}", kind.method()))))
    });
    let (mut items, mut unasked) = (Vec::new(), Vec::new());
    for (server, listed) in futures_util::future::join_all(asked).await {
        match listed {
            Ok(listing) => {
                for item in &listing.items {
                    let Some(mut item) = JsonObject::read(&gate.mask(server, item.get()).map_err(failed)?) else {
                        continue;
                    };
                    // A server must not choose the owner of its item.
                    item.retain(|name| name != "server");
                    item.set("server", server);
                    items.push(item);
                }
            }
            Err(why) => {
                unasked.push(json!({"server": server, "reason": gate.mask_text(server, &why).map_err(failed)?}))
            }
        }
    }
    Ok((items, unasked))
}

/// How long listing waits for a server.
const LIMIT: Duration = Duration::from_secs(10);
