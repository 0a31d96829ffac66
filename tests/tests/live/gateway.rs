//! Tests the gateway as its clients see it: one MCP server of both eras in front of many.

mod approving;
mod asking;
mod bounding;
mod changing;
mod crowding;
mod finding;
mod leaving;
mod mixing;
mod passing;
mod resuming;
mod seeing;
mod shading;
mod sharing;
mod stopping;
mod telling;
mod verbatim;
mod waiting;
mod watching;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, ProtocolVersion, ReadResourceRequestParams, ResourceContents,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use toolgate::config;
use toolgate::demo::InProcessDemo;
use toolgate::gate::GateView;
use toolgate::gateway::client::Principal;
use toolgate::gateway::http::{self, HttpServer, Tokens};
use toolgate::gateway::pages::GatewayPages;
use toolgate::gateway::{Gateway, GatewayOptions, Relay, stdio};
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::registry::{self, Registry};
use toolgate::transport::Connect;

use super::fixtures::component;

/// Two demo servers behind a gateway, and the client's end of its standard input and output.
fn serve(options: GatewayOptions) -> (DuplexStream, JoinHandle<()>) {
    let (config, transports) = demos();
    serve_over(config, transports, options)
}

/// Two demo servers, and how they are reached.
fn demos() -> (config::model::Config, HashMap<String, Arc<dyn Connect>>) {
    let yaml = "servers:\n  one: {command: none}\n  two: {command: none}\n";
    let config = config::parse(yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    let demo = || Arc::new(InProcessDemo) as Arc<dyn Connect>;
    (config, HashMap::from([("one".to_owned(), demo()), ("two".to_owned(), demo())]))
}

fn serve_over(
    config: config::model::Config,
    transports: HashMap<String, Arc<dyn Connect>>,
    options: GatewayOptions,
) -> (DuplexStream, JoinHandle<()>) {
    let limits = toolgate::gateway::GatewayLimits {
        grace: Duration::from_millis(500),
        ..toolgate::gateway::GatewayLimits::default()
    };
    serve_within(stdio::StdioServer::new(&limits), 1 << 20, std::future::pending(), config, transports, options)
}

/// Serves a client of this gateway until `stop`, over pipes that hold so many bytes.
fn serve_within(
    server: stdio::StdioServer,
    pipe: usize,
    stop: impl Future<Output = ()> + Send + 'static,
    config: config::model::Config,
    transports: HashMap<String, Arc<dyn Connect>>,
    options: GatewayOptions,
) -> (DuplexStream, JoinHandle<()>) {
    let (ours, theirs) = tokio::io::duplex(pipe);
    let served = tokio::spawn(async move {
        let relay = Arc::new(Relay::default());
        let of_registry =
            registry::RegistryOptions { handler: Arc::clone(&relay) as _, transports, ..Default::default() };
        let registry = Registry::new(&component(), config, of_registry).expect("the component starts");
        let gateway = Gateway::new(Arc::clone(&registry), relay, options);
        let (input, output) = tokio::io::split(theirs);
        server.serve(&gateway, input, output, stop).await.expect("the client speaks");
        registry.close().await;
    });
    (ours, served)
}

/// A gateway in front of fixtures, each with its id and the words of its mode, under these further settings.
fn fixtures(servers: &[(&str, &str)], settings: &str) -> config::model::Config {
    let program = env!("CARGO_BIN_EXE_fixture");
    let entry = |(id, words): &(&str, &str)| {
        let words: Vec<_> = words.split(' ').collect();
        format!("  {id}: {{command: {program:?}, args: {words:?}}}\n")
    };
    let yaml = format!("{settings}\nservers:\n{}", servers.iter().map(entry).collect::<String>());
    config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right")
}

/// A client of the official SDK, of either era.
async fn client(stream: DuplexStream, era: &str) -> RunningService<RoleClient, ()> {
    client_of((), stream, era).await
}

/// Connects a client with somebody who is told things and answers.
async fn client_of<H: ClientHandler>(handler: H, stream: DuplexStream, era: &str) -> RunningService<RoleClient, H> {
    let (input, output) = tokio::io::split(stream);
    match era {
        "legacy" => handler.serve((input, output)).await.expect("the gateway shakes hands"),
        _ => {
            let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
            handler.serve_with_lifecycle((input, output), lifecycle).await.expect("the gateway is discovered")
        }
    }
}

#[tokio::test]
async fn a_client_of_either_era_has_all_servers_behind_one() {
    for era in ["legacy", "modern"] {
        let (stream, served) = serve(GatewayOptions::default());
        let client = client(stream, era).await;
        let names: Vec<_> =
            client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name.into_owned()).collect();
        let of = |server: &str| {
            ["echo", "add", "sleep", "picture", "fail", "forecast"].map(|tool| format!("{server}__{tool}"))
        };
        assert_eq!(names, [of("one"), of("two")].concat(), "{era}");

        let arguments = json!({"a": 1, "b": 2}).as_object().cloned().unwrap();
        let called = client.call_tool(CallToolRequestParams::new("two__add").with_arguments(arguments)).await.unwrap();
        assert_eq!(called.content[0].as_text().unwrap().text, "3");
        assert_eq!(called.structured_content, Some(json!({"sum": 3})));
        let arguments = json!({"message": "no luck"}).as_object().cloned().unwrap();
        let called = client.call_tool(CallToolRequestParams::new("one__fail").with_arguments(arguments)).await.unwrap();
        assert_eq!((called.is_error, &*called.content[0].as_text().unwrap().text), (Some(true), "no luck"));
        assert!(client.call_tool(CallToolRequestParams::new("one__nothing")).await.is_err());

        // Both servers have the same address; one of them counts.
        let resources = client.list_all_resources().await.unwrap();
        assert_eq!(resources.iter().map(|resource| resource.uri.as_str()).collect::<Vec<_>>(), ["demo://readme"]);
        let read = client.read_resource(ReadResourceRequestParams::new("demo://readme")).await.unwrap();
        assert!(matches!(&read.contents[0], ResourceContents::TextResourceContents { .. }));

        let prompts = client.list_all_prompts().await.unwrap();
        assert_eq!(prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), ["one__greet", "two__greet"]);
        let arguments = json!({"name": "Ada"}).as_object().cloned().unwrap();
        let got = client.get_prompt(GetPromptRequestParams::new("one__greet").with_arguments(arguments)).await.unwrap();
        assert!(!got.messages.is_empty());
        client.cancel().await.unwrap();
        served.await.unwrap();
    }
}

#[tokio::test]
async fn an_exposed_server_keeps_its_own_names() {
    let (stream, _served) = serve(GatewayOptions { expose: Some("two".to_owned()), ..GatewayOptions::default() });
    let client = client(stream, "legacy").await;
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools[0].name, "echo");
    assert_eq!(tools.len(), 6);
    let arguments = json!({"a": 1, "b": 2}).as_object().cloned().unwrap();
    let called = client.call_tool(CallToolRequestParams::new("add").with_arguments(arguments)).await.unwrap();
    assert_eq!(called.content[0].as_text().unwrap().text, "3");
    assert_eq!(client.list_all_prompts().await.unwrap()[0].name, "greet");
}

/// Lines to and from the gateway, for what a client of good manners does not send.
struct Lines(BufReader<DuplexStream>);

impl Lines {
    async fn open(options: GatewayOptions) -> (Self, JoinHandle<()>) {
        let (stream, served) = serve(options);
        (Lines::greet(stream, json!({})).await, served)
    }

    /// Shakes hands as a client with these capabilities.
    async fn greet(stream: DuplexStream, capabilities: Value) -> Self {
        let mut lines = Lines(BufReader::new(stream));
        let client = json!({"name": "t", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
        lines.send(json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})).await;
        assert_eq!(lines.next().await["id"], "hello");
        lines.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        lines
    }

    /// Asks, and gives the answer and what came before it.
    async fn ask(&mut self, id: &str, method: &str, params: Value) -> (Value, Vec<Value>) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let mut before = Vec::new();
        loop {
            match self.next().await {
                answer if answer["id"] == id && answer["method"].is_null() => return (answer, before),
                other => before.push(other),
            }
        }
    }

    async fn send(&mut self, message: Value) {
        self.0.get_mut().write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Says that this was all, and gives the ids of all answers that are left.
    async fn last_ids(&mut self) -> Vec<Value> {
        self.0.get_mut().shutdown().await.unwrap();
        let mut rest = String::new();
        let read = tokio::time::timeout(Duration::from_secs(30), self.0.read_to_string(&mut rest)).await;
        read.expect("the gateway ends").unwrap();
        let messages = rest.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        messages.filter(|message| message["method"].is_null()).map(|mut message| message["id"].take()).collect()
    }

    /// The next message that is no news.
    async fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(Duration::from_secs(30), self.0.read_line(&mut line)).await;
            assert!(read.expect("the gateway answers").unwrap() > 0, "the gateway has gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] != "notifications/tools/list_changed" {
                return message;
            }
        }
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_without_an_answer_and_others_go_on() {
    let (mut lines, served) = Lines::open(GatewayOptions::default()).await;
    let sleep = json!({"name": "one__sleep", "arguments": {"seconds": 500}, "_meta": {"progressToken": "p"}});
    lines.send(json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": sleep})).await;
    // It runs, since it tells of its progress.
    let news = lines.next().await;
    assert_eq!((&news["method"], &news["params"]["progressToken"]), (&json!("notifications/progress"), &json!("p")));
    let echo = json!({"name": "one__echo", "arguments": {"text": "still here"}});
    lines.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})).await;
    lines.send(json!({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": echo})).await;
    let ids = lines.last_ids().await;
    assert_eq!(ids, [json!(8)], "who cancels wants no answer");
    served.await.unwrap();
}

#[tokio::test]
async fn what_is_no_request_gets_an_error_that_says_so() {
    let (mut lines, _served) = Lines::open(GatewayOptions::default()).await;
    let rows = [
        (json!({"jsonrpc": "2.0", "id": 1, "method": "no/such"}), -32601),
        (json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {}}), -32602),
        (json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"cursor": "x"}}), -32602),
        (json!({"jsonrpc": "2.0", "id": 4, "method": "resources/read", "params": {"uri": "no://such"}}), -32002),
        (json!({"jsonrpc": "2.0", "id": 5, "method": "logging/setLevel", "params": {"level": "loud"}}), -32602),
        (json!({"jsonrpc": "2.0", "id": 6, "method": "server/discover", "params": {}}), -32602),
        (
            json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": {
                "io.modelcontextprotocol/protocolVersion": "2031-01-01",
                "io.modelcontextprotocol/clientCapabilities": {},
            }}}),
            -32022,
        ),
        (json!([]), -32600),
    ];
    for (message, code) in rows {
        lines.send(message.clone()).await;
        assert_eq!(lines.next().await["error"]["code"], code, "{message}");
    }
}

#[tokio::test]
async fn what_is_no_json_and_what_is_no_message_are_told_apart() {
    let (mut lines, _served) = Lines::open(GatewayOptions::default()).await;
    for (text, code) in [
        ("garbage", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, -32700),
        ("[1,", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600),
    ] {
        lines.0.get_mut().write_all(format!("{text}\n").as_bytes()).await.unwrap();
        let answer = lines.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(code)), "{text}: {answer}");
    }
    for id in [json!(-1), json!("x"), json!(12345678901234567890u64)] {
        lines.send(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
        assert_eq!(lines.next().await["id"], id);
    }
}

/// Two demo servers behind a gateway over HTTP; gives its address, and stops when it is dropped.
async fn serve_http(options: GatewayOptions, tokens: Tokens) -> (String, tokio::sync::oneshot::Sender<()>) {
    let (config, transports) = demos();
    serve_http_over(config, transports, options, tokens).await
}

async fn serve_http_over(
    config: config::model::Config,
    transports: HashMap<String, Arc<dyn Connect>>,
    options: GatewayOptions,
    tokens: Tokens,
) -> (String, tokio::sync::oneshot::Sender<()>) {
    let relay = Arc::new(Relay::default());
    let of_registry = registry::RegistryOptions { handler: Arc::clone(&relay) as _, transports, ..Default::default() };
    let registry = Registry::new(&component(), config, of_registry).expect("the component starts");
    let gateway = Arc::new(Gateway::new(Arc::clone(&registry), relay, options));
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = HttpServer::bind(http::HttpOptions { tokens, ..http::HttpOptions::new(address) })
        .await
        .expect("a port is free");
    let url = format!("http://{}", server.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let pages = Arc::new(GatewayPages(Arc::clone(&gateway)));
        let stopped = async {
            let _ = stopped.await;
        };
        server.serve(gateway, pages, stopped).await;
        registry.close().await;
    });
    (url, stop)
}

async fn http_client(url: &str, token: Option<&str>, era: &str) -> RunningService<RoleClient, ()> {
    http_client_of((), url, token, era).await
}

async fn http_client_of<H: ClientHandler>(
    handler: H,
    url: &str,
    token: Option<&str>,
    era: &str,
) -> RunningService<RoleClient, H> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(format!("{url}/mcp"));
    if let Some(token) = token {
        config = config.auth_header(token);
    }
    // The SDK's client wants one to be chosen, also where nothing is encrypted; another test may have done it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let transport = StreamableHttpClientTransport::from_config(config);
    let lifecycle = match era {
        "legacy" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
    };
    handler.serve_with_lifecycle(transport, lifecycle).await.expect("the gateway answers")
}

#[tokio::test]
async fn over_http_clients_of_both_eras_have_all_servers_behind_one() {
    let (url, _stop) = serve_http(GatewayOptions::default(), Tokens::default()).await;
    for era in ["legacy", "modern", "legacy"] {
        let client = http_client(&url, None, era).await;
        assert_eq!(client.list_all_tools().await.unwrap().len(), 12, "{era}");
        let arguments = json!({"a": 1, "b": 2}).as_object().cloned().unwrap();
        let called = client.call_tool(CallToolRequestParams::new("two__add").with_arguments(arguments)).await.unwrap();
        assert_eq!(called.structured_content, Some(json!({"sum": 3})), "{era}");
        let arguments = json!({"seconds": 0.25}).as_object().cloned().unwrap();
        let called =
            client.call_tool(CallToolRequestParams::new("one__sleep").with_arguments(arguments)).await.unwrap();
        assert_eq!(called.content[0].as_text().unwrap().text, "slept for 0.25 seconds");
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn a_token_lets_its_principal_use_what_it_may_and_no_more() {
    let principal = |name: &str| Principal { name: name.to_owned(), admin: false };
    let tokens = Tokens::new([
        ("a-token-for-all-servers".to_owned(), principal("all")),
        ("a-token-for-one-server".to_owned(), principal("one")),
    ]);
    let selection = Some(vec![SelectedServer { id: "one".to_owned(), tools: vec!["add".to_owned()] }]);
    let views = HashMap::from([("one".to_owned(), GateView { selection, ..GateView::default() })]);
    let (url, _stop) = serve_http(GatewayOptions { views, ..GatewayOptions::default() }, tokens.unwrap()).await;
    for era in ["legacy", "modern"] {
        let all = http_client(&url, Some("a-token-for-all-servers"), era).await;
        assert_eq!(all.list_all_tools().await.unwrap().len(), 12);
        let one = http_client(&url, Some("a-token-for-one-server"), era).await;
        let names: Vec<_> =
            one.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name.into_owned()).collect();
        assert_eq!(names, ["one__add"]);
        // It knows the server, so it is told why; of another server it knows nothing.
        let refused = one.call_tool(CallToolRequestParams::new("one__echo")).await.unwrap();
        let refused = serde_json::to_value(refused).unwrap();
        assert_eq!(refused["isError"], true, "{era}: {refused}");
        assert_eq!(refused["_meta"]["toolgate/refusal"], json!({"code": "not-allowed"}), "{era}: {refused}");
        assert!(refused["content"][0]["text"].as_str().unwrap().contains("not selected"), "{era}: {refused}");
        assert!(one.call_tool(CallToolRequestParams::new("two__add")).await.is_err());
        // What a server has beside its tools is not for who may use single ones.
        assert_eq!(one.list_all_prompts().await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn a_long_answer_is_summarized_for_a_client_and_a_short_one_is_not() {
    let yaml =
        "summarize_above_tokens: 100\nsummarizer: {command: [head, -c, \"12\"]}\nservers:\n  one: {command: none}\n";
    for era in ["legacy", "modern"] {
        let config = config::parse(yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
        let transports = HashMap::from([("one".to_owned(), Arc::new(InProcessDemo) as Arc<dyn Connect>)]);
        let (stream, _served) = serve_over(config, transports, GatewayOptions::default());
        let client = client(stream, era).await;
        let texts =
            [("words ".repeat(500), "words words\n\n[SUMMARIZED — Original size: 2KB]"), ("words".to_owned(), "words")];
        for (text, expected) in texts {
            let arguments = json!({"text": text}).as_object().cloned().unwrap();
            let called = client.call_tool(CallToolRequestParams::new("one__echo").with_arguments(arguments)).await;
            assert_eq!(called.unwrap().content[0].as_text().unwrap().text, expected, "{era}");
        }
    }
}
