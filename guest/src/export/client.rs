//! The exports of world `client`: `tool-executor`, over the host's transport.

use std::rc::Rc;

use super::Component;
use super::bindings::exports::toolgate::client::tool_executor as wit;
use super::bindings::toolgate::client::transport;
use super::bindings::toolgate::logic::types as given;
use super::convert::Convert;
use crate::client::{Client, Transport};
use crate::decider::DefaultDecider;
use crate::execution::Failed;
use crate::types::{Failure, HttpFailure, Phase, RpcFailure, WaitRange};

thread_local! {
    /// An instance has one thread and one client.
    static CLIENT: Rc<Client<Host>> = Rc::new(Client::new(Host));
}

fn client() -> Rc<Client<Host>> {
    CLIENT.with(Rc::clone)
}

impl wit::Guest for Component<DefaultDecider> {
    async fn configure(settings: wit::Settings) -> Result<(), wit::SettingsError> {
        client().configure(settings.convert()).map_err(Convert::convert)
    }

    async fn list_tools(style: wit::NamingStyle) -> wit::Listing {
        let listing = client().list_tools(&style.convert()).await;
        wit::Listing { tools: listing.tools.convert(), failed: listing.failed.convert() }
    }

    async fn execute(call: wit::ToolCall) -> wit::ToolResult {
        client().execute(call.convert()).await.convert()
    }

    async fn cancel(call_id: String) -> bool {
        client().cancel(&call_id)
    }

    async fn withdraw(server: String) {
        client().withdraw(&server);
    }
}

/// The host's transport.
struct Host;

impl Transport for Host {
    async fn request(&self, server: &str, method: &str, params: String) -> Result<String, Failed> {
        transport::request(server.to_owned(), method.to_owned(), params).await.map_err(failed)
    }

    async fn reconnect(&self, server: &str) -> Result<(), Failed> {
        transport::reconnect(server.to_owned()).await.map_err(failed)
    }

    async fn wait(&self, range: WaitRange) {
        transport::wait(range.min_ms, range.max_ms).await;
    }
}

/// Converts the imported failure type, which differs from the exported one although the WIT is the same.
fn failed(failed: transport::Failed) -> Failed {
    let failure = match failed.failure {
        given::Failure::Cancelled => Failure::Cancelled,
        given::Failure::Timeout => Failure::Timeout,
        given::Failure::Connect(why) => Failure::Connect(why),
        given::Failure::Closed => Failure::Closed,
        given::Failure::Exited(code) => Failure::Exited(code),
        given::Failure::Http(given::HttpFailure { status, session, challenge, retry_after_ms }) => {
            Failure::Http(HttpFailure { status, session, challenge, retry_after_ms })
        }
        given::Failure::Rpc(given::RpcFailure { code, message }) => Failure::Rpc(RpcFailure { code, message }),
        given::Failure::Protocol(why) => Failure::Protocol(why),
        given::Failure::QueueFull(why) => Failure::QueueFull(why),
        given::Failure::NeedsAuth(why) => Failure::NeedsAuth(why),
        given::Failure::RestartInProgress => Failure::RestartInProgress,
        given::Failure::RestartFailed(why) => Failure::RestartFailed(why),
        given::Failure::RulesUnavailable(why) => Failure::RulesUnavailable(why),
    };
    let phase = match failed.phase {
        given::Phase::NotSent => Phase::NotSent,
        given::Phase::Sent => Phase::Sent,
    };
    Failed { failure, phase }
}
