//! Answers the questions of the suite's servers as a person who agrees to everything, a model and a folder. The person
//! also gives OAuth consent without a browser, with one request whose answer holds the redirect.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolgate::failure::RpcError;
use toolgate::oauth::{Browse, BrowseError};
use toolgate::session::{Handler, ServerQuestion, Topic, Topics};
use toolgate::transport::BoxFuture;

/// Says yes to everything.
pub struct Agreeable;

impl Handler for Agreeable {
    fn topics(&self) -> Topics {
        Topics { roots: true, sampling: true, elicitation: true, ..Topics::default() }
    }

    fn answer(&self, question: ServerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, RpcError>> {
        let params: Value = serde_json::from_str(question.params.get()).unwrap_or_default();
        let answer = match question.topic {
            Topic::Roots => json!({"roots": [{"uri": "file:///srv", "name": "srv"}]}),
            Topic::Sampling => json!({
                "role": "assistant",
                "content": {"type": "text", "text": "Paris"},
                "model": "a model",
                "stopReason": "endTurn",
            }),
            Topic::Elicitation => json!({"action": "accept", "content": filled(&params["requestedSchema"])}),
        };
        let answer = to_raw_value(&answer).map_err(|error| RpcError::new(-32603, error.to_string()));
        Box::pin(std::future::ready(answer))
    }
}

impl Browse for Agreeable {
    fn redirect_uri(&self) -> String {
        "http://localhost:8765/callback".to_owned()
    }

    fn browse<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<String, BrowseError>> {
        Box::pin(async move {
            let answer = visit(url).await.map_err(|error| BrowseError::Impossible(format!("{url}: {error}")))?;
            let location = answer.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
            });
            location.ok_or_else(|| BrowseError::Impossible(format!("{url} leads nowhere: {answer}")))
        })
    }
}

/// Requests a page from a server on this machine, and returns the whole response.
async fn visit(url: &str) -> std::io::Result<String> {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Fills in a form with its defaults, or with values that fit.
fn filled(schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    properties.into_iter().map(|(name, property)| (name, value(&property))).collect()
}

fn value(property: &Value) -> Value {
    if let Some(default) = property.get("default") {
        return default.clone();
    }
    match property["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        _ => property["enum"].get(0).cloned().unwrap_or_else(|| json!("yes")),
    }
}
