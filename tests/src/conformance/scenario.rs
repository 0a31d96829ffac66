//! The client scenarios of the suite: what an agent does with the suite's server.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolgate::config;
use toolgate::gate::{CallOptions, CloseMode, Gate, GateView};
use toolgate::logic::types::ToolRef;
use toolgate::logic::types::execution::{Code, ToolCall};
use toolgate::oauth::TokenStore;
use toolgate::registry::{self, Registry, RegistryLifetime};
use toolgate::session::{ListKind, RequestTimeouts, Session, SessionRequest};

use crate::person::Agreeable;

/// A gate in front of the suite's server.
pub struct Stage {
    registry: Arc<Registry>,
    gate: Gate,
    /// The context of the scenario.
    context: Value,
    /// The folder of the files that the configuration names.
    _folder: TempDir,
}

type Played = Result<(), Box<dyn Error>>;

impl Stage {
    /// Configures the server, which is connected when it is first used.
    pub fn open(url: &str, scenario: &str, context: Value) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let server = json!({"url": url, "auth": auth(scenario, &context, folder.path())?});
        // The suite's servers check arguments themselves.
        let config = json!({"check_arguments": false, "servers": {SERVER: server}});
        let config = config::parse(&config.to_string(), &folder.path().join("conformance.yaml"))?;
        let options = registry::RegistryOptions {
            handler: Arc::new(Agreeable),
            browse: Some(Arc::new(Agreeable)),
            tokens: Some(TokenStore::memory()),
            lifetime: RegistryLifetime::OneShot,
            ..Default::default()
        };
        let registry = Registry::new(&toolgate_tests::component(), config, options)?;
        let gate = Gate::open(&registry, GateView::default())?;
        Ok(Stage { registry, gate, context, _folder: folder })
    }

    /// Runs a scenario.
    pub async fn play(&self, scenario: &str) -> Played {
        match scenario {
            "http-standard-headers" => self.use_everything().await,
            "http-custom-headers" => self.call_as_told().await,
            "json-schema-2020-12-preservation" => self.echo_a_schema().await,
            "sep-2322-client-request-state" => self.answer_side_by_side().await,
            _ => self.call_every_tool().await,
        }
    }

    pub async fn close(self) {
        self.gate.close(CloseMode::Cancel).await;
        self.registry.close().await;
    }

    /// Lists the tools, and calls each of them that may be called.
    async fn call_every_tool(&self) -> Played {
        for tool in self.tools().await? {
            let arguments = tool.input_schema.as_deref().map(serde_json::from_str).transpose()?;
            self.call(&tool.tool, &fitting(&arguments.unwrap_or_default())).await?;
        }
        Ok(())
    }

    /// Lists and uses everything that a server can have.
    async fn use_everything(&self) -> Played {
        self.call_every_tool().await?;
        let session = self.session().await?;
        for (kind, key, method) in
            [(ListKind::Resources, "uri", "resources/read"), (ListKind::Prompts, "name", "prompts/get")]
        {
            for item in &session.list(kind).await?.items {
                let item: Value = serde_json::from_str(item.get())?;
                let params = json!({key: item[key]}).to_string();
                let timeouts = RequestTimeouts::of(LIMIT);
                session.request(SessionRequest { method, params: &params, timeouts, progress: None }).await?;
            }
        }
        Ok(())
    }

    /// Makes the calls that the suite specifies.
    async fn call_as_told(&self) -> Played {
        self.tools().await?;
        for call in self.context["toolCalls"].as_array().into_iter().flatten() {
            let tool = call["name"].as_str().ok_or("a call without a name")?;
            self.call(&ToolRef { server: SERVER.to_owned(), tool: tool.to_owned() }, &call["arguments"]).await?;
        }
        Ok(())
    }

    /// Sends the schema of one tool back as the argument of another.
    async fn echo_a_schema(&self) -> Played {
        let tools = self.tools().await?;
        let schema = |name: &str| {
            let tool = tools.iter().find(|tool| tool.tool.tool == name);
            let definition = tool.and_then(|tool| self.gate.definition(&tool.tool));
            definition.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()?.get("inputSchema").cloned())
        };
        let focal = schema("json_schema_2020_12_tool").ok_or("the tool with the schema is not there")?;
        let echo = ToolRef { server: SERVER.to_owned(), tool: "json_schema_echo".to_owned() };
        self.call(&echo, &json!({"schema": focal})).await
    }

    /// Calls tools that need input and one that needs none, all at the same time.
    async fn answer_side_by_side(&self) -> Played {
        let tools = self.tools().await?;
        let none = json!({});
        let calls = tools.iter().map(|tool| self.call(&tool.tool, &none));
        futures_util::future::try_join_all(calls).await.map(drop)
    }

    async fn tools(&self) -> Result<Vec<toolgate::logic::types::catalog::ExposedTool>, Box<dyn Error>> {
        if let Some((server, why)) = self.gate.refresh().await.failed.into_iter().next() {
            return Err(format!("server {server:?}: {why}").into());
        }
        Ok(self.gate.tools(&self.gate.style())?)
    }

    async fn session(&self) -> Result<Arc<Session>, Box<dyn Error>> {
        let link = self.gate.link(SERVER).ok_or("the server is not configured")?;
        link.session().await.map_err(|why| why.to_string().into())
    }

    async fn call(&self, tool: &ToolRef, arguments: &Value) -> Played {
        let call = ToolCall {
            id: tool.tool.clone(),
            name: format!("{}.{}", tool.server, tool.tool),
            arguments: arguments.to_string(),
        };
        let called = self.gate.call(call, &CallOptions::default()).await?;
        match called.result.code {
            Code::Ok => Ok(()),
            _ => Err(format!("{}: {}", tool.tool, called.result.text).into()),
        }
    }
}

/// Returns the `auth` that the scenario needs.
fn auth(scenario: &str, context: &Value, folder: &Path) -> Result<Value, Box<dyn Error>> {
    let mut auth = json!({"type": "oauth"});
    match scenario {
        "auth/client-credentials-basic" | "auth/client-credentials-jwt" => auth["grant"] = json!("client_credentials"),
        // An authorization server that supports client metadata documents finds ours at the suite's URL.
        _ => auth["client_metadata_url"] = json!("https://conformance-test.local/client-metadata.json"),
    }
    for name in ["client_id", "client_secret"] {
        if let Some(value) = context.get(name) {
            auth[name] = value.clone();
        }
    }
    if let Some(key) = context["private_key_pem"].as_str() {
        let file = folder.join("key.pem");
        std::fs::write(&file, key)?;
        auth["private_key"] = json!(file);
        auth["token_auth"] = json!("private_key_jwt");
    }
    Ok(auth)
}

/// Returns arguments that fit a schema: a value of the right type for each required property.
fn fitting(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fill = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("integer" | "number") => json!(5),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => json!("a text"),
    };
    required.map(|name| (name.to_owned(), fill(name))).collect::<serde_json::Map<_, _>>().into()
}

const SERVER: &str = "conformance";
const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);
