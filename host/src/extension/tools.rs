//! The import `toolgate:client/tools`: the tools that a plugin may list and call, decided by its gate.

use wasmtime::component::Accessor;

use super::bindings::toolgate::client::tools::{Host, HostWithStore};
use super::{Toolgate, ToolgateCtx};
use crate::logic::types::catalog::ExposedTool;
use crate::logic::types::execution::{Code, ToolCall, ToolResult};
use crate::logic::types::naming::NamingStyle;

impl Host for ToolgateCtx {}

impl<T: Send + 'static> HostWithStore<T> for Toolgate {
    async fn list_tools(store: &Accessor<T, Self>, style: NamingStyle) -> Vec<ExposedTool> {
        let Some(tools) = store.with(|mut store| store.get().tools.clone()) else { return Vec::new() };
        for (server, why) in tools.gate.refresh().await.failed {
            tracing::warn!(server, "the tools of this server are not listed: {why}");
        }
        tools.gate.tools(&style).unwrap_or_else(|error| {
            tracing::warn!("cannot list tools for a plugin: {error}");
            Vec::new()
        })
    }

    async fn call_tool(store: &Accessor<T, Self>, call: ToolCall) -> ToolResult {
        let Some(tools) = store.with(|mut store| store.get().tools.clone()) else {
            return refused(&call, Code::NotAllowed, "this component was granted no tools");
        };
        match tools.gate.call(call.clone(), &tools.options).await {
            Ok(called) => called.into_result(),
            Err(error) => refused(&call, Code::Internal, &error.to_string()),
        }
    }
}

/// Returns the result of a call that was refused.
fn refused(call: &ToolCall, code: Code, why: &str) -> ToolResult {
    ToolResult::failed(call, code, why.to_owned(), why.to_owned())
}
