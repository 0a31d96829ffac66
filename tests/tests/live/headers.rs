//! Tests the headers that requests to the gateway must have, and how a client chooses the form of answers.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use toolgate::config;
use toolgate::gateway::http::{self, HttpServer};
use toolgate::gateway::pages::GatewayPages;
use toolgate::gateway::{Gateway, GatewayOptions, Relay};
use toolgate::registry::{self, Registry};

use super::fixtures::component;
use super::web::answers::{modern, reply};
use super::web::server::Server;

/// A gateway that passes a server through whose tool `t` shows its argument `region` in a header.
struct Passing {
    host: String,
    server: Server,
    _stop: oneshot::Sender<()>,
}

impl Passing {
    async fn start() -> Self {
        let server = Server::start(|seen| match seen.method() {
            "tools/list" => {
                let properties = json!({"region": {"type": "string", "x-mcp-header": "Region"}});
                let schema = json!({"type": "object", "properties": properties});
                reply(seen, &json!({"resultType": "complete", "tools": [{"name": "t", "inputSchema": schema}]}))
            }
            _ => modern(seen),
        })
        .await;
        let yaml = format!("servers: {{a: {{url: \"{}\"}}}}", server.url());
        let config = config::parse(&yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right");
        let relay = Arc::new(Relay::default());
        let options = registry::RegistryOptions { handler: Arc::clone(&relay) as _, ..Default::default() };
        let registry = Registry::new(&component(), config, options).expect("the component starts");
        let options = GatewayOptions { expose: Some("a".to_owned()), ..GatewayOptions::default() };
        let gateway = Arc::new(Gateway::new(Arc::clone(&registry), relay, options));
        let address = "127.0.0.1:0".parse().expect("an address");
        let door = HttpServer::bind(http::HttpOptions::new(address)).await.expect("a port is free");
        let host = door.address().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let pages = Arc::new(GatewayPages(Arc::clone(&gateway)));
            let stopped = async {
                let _ = stopped.await;
            };
            door.serve(gateway, pages, stopped).await;
            registry.close().await;
        });
        Passing { host, server, _stop: stop }
    }

    /// Posts a request of 2026-07-28 with these headers beside the usual ones; gives the status and the content type, and
    /// what is in the body.
    async fn post(&self, method: &str, mut params: Value, headers: &[(&str, &str)]) -> (u16, String, Value) {
        if params["_meta"].is_null() {
            params["_meta"] = meta("2026-07-28");
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let usual = [
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        let given = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let lines: String = usual
            .iter()
            .filter(|(name, _)| !given(name))
            .chain(headers)
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.host);
        let length = body.len();
        let request = format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n{lines}\r\n{body}");
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let kind =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-type: ").map(str::to_owned));
        let text = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(body);
        (status, kind.unwrap_or_default(), serde_json::from_str(text).unwrap_or_default())
    }
}

fn meta(version: &str) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}})
}

#[tokio::test]
async fn a_header_that_shows_an_argument_must_say_what_the_argument_says() {
    let gateway = Passing::start().await;
    let call = |region: &str| json!({"name": "t", "arguments": {"region": region}});
    let named = ("Mcp-Name", "t");
    let listed = gateway.post("tools/list", json!({}), &[]).await;
    assert_eq!(listed.2["result"]["tools"][0]["name"], "t");
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], u16);
    let rows: [Row<'_>; 5] = [
        ("Hello", &[named, ("Mcp-Param-Region", "Hello")], 200),
        ("Hello", &[named, ("Mcp-Param-Region", "=?base64?SGVsbG8=?=")], 200),
        ("Hello", &[named, ("Mcp-Param-Region", "=?base64?SGVsbG8?=")], 400),
        ("Hello", &[named, ("Mcp-Param-Region", "other")], 400),
        ("Hello", &[named], 400),
    ];
    for (region, headers, expected) in rows {
        let (status, _, answer) = gateway.post("tools/call", call(region), headers).await;
        assert_eq!(status, expected, "{headers:?}: {answer}");
        if expected == 400 {
            assert_eq!(answer["error"]["code"], -32020, "{headers:?}");
        }
    }
    // What is refused does not reach the server, and what does has headers of the gateway's own.
    let shown: Vec<_> =
        gateway.server.all("tools/call").iter().map(|seen| seen.header("mcp-param-region").to_owned()).collect();
    assert_eq!(shown, ["Hello", "Hello"]);
}

#[tokio::test]
async fn a_request_of_two_versions_is_refused_for_that_and_not_for_its_version() {
    let gateway = Passing::start().await;
    for (header, version, code) in
        [("2026-07-28", "v999.0.0", -32020), ("v999.0.0", "v999.0.0", -32022), ("2026-07-28", "2025-11-25", -32020)]
    {
        let params = json!({"_meta": meta(version)});
        let (status, _, answer) = gateway.post("server/discover", params, &[("MCP-Protocol-Version", header)]).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{header} {version}");
    }
}

#[tokio::test]
async fn a_client_that_names_a_stream_first_gets_one_unless_it_is_refused() {
    let gateway = Passing::start().await;
    let first = ("Accept", "text/event-stream, application/json");
    let (status, kind, answer) = gateway.post("tools/list", json!({}), &[]).await;
    assert_eq!((status, kind.as_str(), &answer["id"]), (200, "application/json", &json!(1)));
    let (status, kind, answer) = gateway.post("tools/list", json!({}), &[first]).await;
    assert_eq!((status, kind.as_str(), &answer["id"]), (200, "text/event-stream", &json!(1)));
    let (status, kind, _) = gateway.post("no/such", json!({}), &[first]).await;
    assert_eq!((status, kind.as_str()), (404, "application/json"));
}
