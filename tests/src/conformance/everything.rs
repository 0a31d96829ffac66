//! The conformance server itself: its description, its prompts and resources, and its notifications of changes.

#![allow(deprecated, reason = "clients before 2026-07-28 set a level for logs, and are served as well")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::{input, offers, tools};

/// The server, for one session or one request.
pub struct Everything {
    pub shared: Arc<Shared>,
}

/// The state that all sessions and requests share.
pub struct Shared {
    /// How often the tools have changed.
    pub edition: AtomicU64,
    /// Sends each change to all listeners.
    pub changes: broadcast::Sender<Change>,
    /// The steps of requests that wait for input, by the state that the client holds.
    pub states: Mutex<HashMap<String, &'static str>>,
}

/// A kind of change.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    Tools,
    Prompts,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { edition: AtomicU64::new(1), changes: broadcast::Sender::new(64), states: Mutex::default() }
    }
}

impl Shared {
    /// Stores the step of a request, and returns an opaque state for its client.
    pub fn keep(&self, step: &'static str) -> String {
        use std::hash::{BuildHasher, RandomState};
        let state = format!("{:016x}{:016x}", RandomState::new().hash_one(step), RandomState::new().hash_one(step));
        self.states.lock().unwrap_or_else(PoisonError::into_inner).insert(state.clone(), step);
        state
    }

    /// Returns the step for a client's state, and fails for an unknown state.
    pub fn step(&self, state: Option<&str>) -> Result<Option<&'static str>, ErrorData> {
        let Some(state) = state else { return Ok(None) };
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let step = states.get(state).copied();
        step.map(Some).ok_or_else(|| ErrorData::invalid_params("this requestState is none of this server's", None))
    }
}

impl Everything {
    pub fn new(shared: Arc<Shared>) -> Self {
        Everything { shared }
    }
}

/// Converts JSON to a type of the SDK.
pub fn typed<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the fixture writes what the SDK reads")
}

/// Converts JSON to a complete result; the SDK leaves out what older clients do not know.
pub fn complete<T: DeserializeOwned>(mut result: Value) -> T {
    result["resultType"] = json!("complete");
    typed(result)
}

impl ServerHandler for Everything {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "completions": {},
            "logging": {},
        });
        ServerConfig::new(typed(capabilities)).with_server_info(Implementation::new("everything", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(offers::tools(self.shared.edition.load(Ordering::Relaxed))))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        offers::tools(self.shared.edition.load(Ordering::Relaxed)).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        tools::call(&self.shared, request, &context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(offers::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)?.as_str()).unwrap_or("");
        let messages = match request.name.as_str() {
            "test_simple_prompt" => json!([offers::says("This is a simple prompt for testing.")]),
            "test_prompt_with_arguments" => {
                let text = format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2"));
                json!([offers::says(&text)])
            }
            "test_prompt_with_embedded_resource" => {
                let text = "Embedded resource content for testing.";
                let resource = json!({"uri": argument("resourceUri"), "mimeType": "text/plain", "text": text});
                json!([
                    {"role": "user", "content": {"type": "resource", "resource": resource}},
                    offers::says("Please process the embedded resource above."),
                ])
            }
            "test_prompt_with_image" => json!([
                {"role": "user", "content": offers::image()},
                offers::says("Please analyze the image above."),
            ]),
            "test_input_required_result_prompt" => {
                let question = input::form("What context should the prompt use?", "context", "string");
                let asked = [("user_context", question)];
                match input::ask(&context, request.input_responses.as_ref(), &asked, None).await? {
                    Ok(answers) => json!([offers::says(&format!("Use this context: {}", answers["user_context"]))]),
                    Err(wants) => return Ok(wants.into()),
                }
            }
            other => return Err(ErrorData::invalid_params(format!("no prompt {other:?}"), None)),
        };
        Ok(GetPromptResponse::Complete(complete(json!({"messages": messages}))))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(offers::resources()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(offers::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let content = offers::content(&request.uri).ok_or_else(|| {
            ErrorData::resource_not_found("there is no such resource", Some(json!({"uri": request.uri})))
        })?;
        Ok(ReadResourceResponse::Complete(complete(json!({"contents": [content]}))))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let begun = &request.argument.value;
        let values: Vec<_> =
            ["paris", "park", "party", "test"].into_iter().filter(|word| word.starts_with(begun)).collect();
        Ok(complete(json!({"completion": {"total": values.len(), "hasMore": false, "values": values}})))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // The sink rejects notifications that were not requested.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            };
        }
    }
}
