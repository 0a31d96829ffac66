//! Tests what a client is told about a call that the gate refuses: a result that a model can read and a program too.

use serde_json::{Value, json};

use crate::place::{Place, and, demo, fixture};
use crate::serving::{Reply, Serving, Web};

/// How a client of one era reaches a gateway.
enum Door<'a> {
    Lines(Serving),
    Http(Web<'a>),
}

/// A client of one era at one door.
struct Client<'a> {
    door: Door<'a>,
    is_modern: bool,
}

impl Client<'_> {
    /// Makes a request, and returns the whole answer.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        if self.is_modern {
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        }
        match &mut self.door {
            Door::Lines(serving) => serving.ask(method, params),
            Door::Http(web) => {
                let name = params["name"].as_str().unwrap_or_default().to_owned();
                let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                if !self.is_modern {
                    return read(&web.post(&message));
                }
                let (method, name) = (format!("Mcp-Method: {method}"), format!("Mcp-Name: {name}"));
                let headers = ["MCP-Protocol-Version: 2026-07-28", &method, &name];
                read(&web.request("POST /mcp", "localhost", &headers, &message.to_string()))
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))
    }
}

/// The answer in a response, alone or as the last event of a stream.
fn read(reply: &Reply) -> Value {
    let text = reply.body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap_or(&reply.body);
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{reply:?}"))
}

/// Clients of both eras on standard input and output and over HTTP, each with a gateway of its own.
fn for_each_client(place: &Place, mut check: impl FnMut(&str, Client<'_>)) {
    check("legacy lines", Client { door: Door::Lines(Serving::greet(place, &[])), is_modern: false });
    check("modern lines", Client { door: Door::Lines(Serving::start(place, &[])), is_modern: true });
    for (name, is_modern) in [("legacy http", false), ("modern http", true)] {
        let serving = Serving::start(place, &["--http", "127.0.0.1:0"]);
        let address = serving.address();
        let mut web = Web { address: &address, token: None, session: None };
        if !is_modern {
            assert_eq!(web.greet().status, 200);
        }
        check(name, Client { door: Door::Http(web), is_modern });
    }
}

/// A gateway whose client searches for tools, so that it has `call_tool` too.
fn config() -> Value {
    json!({
        "servers": {"demo": and(demo(), json!({"deny": ["sleep"], "ask": ["picture"]}))},
        "rules": [
            {"name": "no-passwords", "tools": ["demo.echo"], "when": "args.text.contains(\"password\")",
             "then": "deny", "because": "passwords stay here"},
            {"name": "stranger", "tools": ["demo.add"], "when": "args.a > 99", "then": "ask"},
            {"name": "budget", "tools": ["demo.forecast"], "limit": {"calls": 1, "per": "1h"}},
        ],
        "gateway": {"list": "search"},
    })
}

#[test]
fn every_refusal_of_a_known_tool_is_a_result_that_models_and_programs_can_read() {
    let forecast = json!({"city": "Bern", "days": 1});
    let rows = [
        ("demo__sleep", json!({"seconds": 0}), r#"{"code":"not-allowed"}"#, "denied by `deny: sleep`"),
        (
            "demo__echo",
            json!({"text": "a password"}),
            r#"{"code":"not-allowed","rule":"no-passwords"}"#,
            "tool \"echo\" of server \"demo\" is refused: passwords stay here (rule \"no-passwords\")",
        ),
        ("demo__forecast", forecast.clone(), r#"{"code":"not-allowed","rule":"budget"}"#, "; try again in "),
        ("demo__picture", json!({}), r#"{"code":"declined"}"#, "could not ask its user"),
        ("demo__add", json!({"a": 100, "b": 1}), r#"{"code":"declined","rule":"stranger"}"#, "could not ask its user"),
        ("demo__add", json!({"a": 1}), r#"{"code":"invalid-arguments"}"#, "\"b\""),
    ];
    for_each_client(&Place::configured(&config()), |client_name, mut client| {
        let first = client.call("demo__forecast", &forecast);
        assert_ne!(first["result"]["isError"], true, "{client_name}: {first}");
        for (name, arguments, refusal, words) in &rows {
            let through = json!({"name": name, "arguments": arguments});
            for (called, arguments) in [(*name, arguments), ("call_tool", &through)] {
                let answer = client.call(called, arguments);
                let result = &answer["result"];
                assert_eq!(result["isError"], true, "{client_name} {called} {name}: {answer}");
                assert_eq!(result["resultType"] == "complete", client.is_modern, "{client_name}: {answer}");
                assert_eq!(result["structuredContent"], Value::Null, "{client_name}: {answer}");
                let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
                assert!(text.contains(words), "{client_name} {called} {name}: {text}");
                assert!(!text.starts_with("MCP tool execution failed"), "{client_name}: nothing was executed: {text}");
                let mut told = result["_meta"]["toolgate/refusal"].clone();
                let wait = told.as_object_mut().and_then(|told| told.remove("retryAfterMs"));
                assert_eq!(told, serde_json::from_str::<Value>(refusal).unwrap(), "{client_name} {name}: {answer}");
                let wait = wait.map_or(0, |wait| wait.as_u64().unwrap());
                assert_eq!(wait > 0 && wait <= 3_600_000, refusal.contains("budget"), "{client_name}: {answer}");
            }
        }
        for (name, code) in
            [("demo__nothing", "unknown-tool"), ("nobody__x", "unknown-server"), ("nothing", "invalid-name")]
        {
            let answer = client.call(name, &json!({}));
            assert_eq!(answer["error"]["code"], -32602, "{client_name} {name}: {answer}");
            assert_eq!(answer["error"]["data"], json!({"code": code}), "{client_name} {name}: {answer}");
        }
        let broken = client.ask("tools/call", json!({"arguments": {}}));
        assert!(broken["error"]["code"].is_number(), "{client_name}: {broken}");
    });
}

#[test]
fn the_command_line_and_the_api_of_a_gateway_know_a_refusal_by_its_code() {
    let mut config = config();
    config["gateway"] = json!({"tokens": [{"principal": "ops", "token": "ops-0123456789-token", "admin": true}]});
    let place = Place::configured(&config);
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    for arguments in [&["call", "demo.sleep", "seconds: 0"][..], &["call", "demo.echo", "text: a password"]] {
        let gateway = format!("--gateway=http://{address}");
        let token = place.file("work/token", "ops-0123456789-token");
        let token = format!("--token-file={}", token.display());
        let ran = place.run(&[arguments, &[&gateway, &token]].concat()).ends(5).says("not-allowed: tool \"");
        assert!(!ran.stderr.contains("execution failed"), "{ran:?}");
        place.run(arguments).ends(5).says("not-allowed: tool \"");
    }
    let web = Web { address: &address, token: Some("ops-0123456789-token"), session: None };
    let body = json!({"name": "demo__echo", "arguments": {"text": "a password"}}).to_string();
    let answer = read(&web.request("POST /api/v1/mcp/call", "localhost", &[], &body));
    assert_eq!((&answer["code"], &answer["is_error"]), (&json!("not-allowed"), &json!(true)), "{answer}");
    let refusal = json!({"code": "not-allowed", "rule": "no-passwords"});
    assert_eq!(answer["more"]["_meta"]["toolgate/refusal"], refusal, "{answer}");
}

const ANN: &str = "ann-0123456789-token";
const BOB: &str = "bob-0123456789-token";
const OPS: &str = "ops-0123456789-token";

/// Ann was given server `a`, bob is granted it, and ops may use all servers.
fn with_tokens(servers: &Value) -> Place {
    Place::configured(&json!({
        "servers": servers,
        "bare_names": true,
        "gateway": {"list": "search", "tokens": [
            {"principal": "ann", "token": ANN, "servers": ["a"]},
            {"principal": "bob", "token": BOB, "capabilities": ["server:a"]},
            {"principal": "ops", "token": OPS, "admin": true, "list": "all"},
        ]},
    }))
}

#[test]
fn a_server_that_was_not_given_is_answered_like_one_that_is_not_there() {
    let places = [json!({"a": fixture("ok"), "payroll": fixture("ok")}), json!({"a": fixture("ok")})];
    let places = places.map(|servers| with_tokens(&servers));
    let servings = places.each_ref().map(|place| Serving::start(place, &["--http", "127.0.0.1:0"]));
    let addresses = servings.each_ref().map(Serving::address);
    // All servers have listed their tools by then.
    for address in &addresses {
        let mut web = Web { address, token: Some(OPS), session: None };
        web.greet();
        assert!(web.tools().unwrap().contains(&"a__do".to_owned()));
    }
    for token in [ANN, BOB] {
        for name in [
            "payroll__do",
            "payroll.do",
            "mcp__payroll__do",
            "mcp_payroll_do",
            "payroll__nothing",
            "mcp_payroll_nothing",
            "payroll",
        ] {
            for meta in [json!({}), json!({"toolgate/outcome": true})] {
                let answers = addresses.each_ref().map(|address| {
                    let mut web = Web { address, token: Some(token), session: None };
                    web.greet();
                    let params = json!({"name": name, "arguments": {}, "_meta": meta});
                    let mut answer =
                        read(&web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})));
                    if let Some(outcome) = answer["result"]["_meta"]["toolgate/outcome"].as_object_mut() {
                        outcome.remove("call_id");
                        outcome.remove("latency_ms");
                    }
                    answer
                });
                assert_eq!(answers[0], answers[1], "{token} {name}");
                assert!(!answers[0].to_string().contains("not-allowed"), "{token} {name}: {}", answers[0]);
            }
        }
    }
}

#[test]
fn calls_of_what_was_not_given_and_of_own_tools_have_labels_and_are_no_failures() {
    let place = with_tokens(&json!({"a": fixture("ok"), "payroll": and(fixture("ok"), json!({"deny": ["look"]}))}));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let call = |token: &str, name: &str, arguments: Value| {
        let mut web = Web { address: &address, token: Some(token), session: None };
        web.greet();
        let params = json!({"name": name, "arguments": arguments});
        read(&web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})))
    };
    call(ANN, "find_tools", json!({"query": "do"}));
    call(ANN, "find_tools", json!({}));
    for name in ["payroll__do", "payroll__made_up", "a__made_up", "nobody__made_up", "made_up"] {
        call(ANN, name, json!({}));
    }
    call(ANN, "call_tool", json!({"name": "payroll__do"}));
    call(OPS, "payroll__look", json!({}));
    let page = |token: &str, path: &str| {
        let web = Web { address: &address, token: Some(token), session: None };
        web.request(&format!("GET {path}"), "localhost", &[], "").body
    };
    let series = |token: &str, principal: &str| {
        let principal = format!(",principal=\"{principal}\"}} ");
        let page = page(token, "/metrics");
        let lines = page.lines().filter_map(|line| line.strip_prefix("toolgate_calls_total{"));
        lines.filter(|line| line.contains(&principal)).map(|line| line.replace(&principal, " ")).collect::<Vec<_>>()
    };
    let own = [
        r#"server="toolgate",tool="call_tool",code="unknown-server" 1"#,
        r#"server="toolgate",tool="find_tools",code="invalid-arguments" 1"#,
        r#"server="toolgate",tool="find_tools",code="ok" 1"#,
    ];
    let a = [r#"server="a",tool="unknown",code="unknown-tool" 1"#];
    let payroll = [r#"server="payroll",tool="unknown",code="unknown-server" 2"#];
    let nothing = |servers: u64| {
        [
            r#"server="unknown",tool="unknown",code="invalid-name" 1"#.to_owned(),
            format!(r#"server="unknown",tool="unknown",code="unknown-server" {servers}"#),
        ]
    };
    let all = |parts: &[&[&str]], servers: u64| {
        let known = parts.concat().into_iter().map(str::to_owned);
        let mut lines: Vec<_> = known.chain(nothing(servers)).collect();
        lines.sort();
        lines
    };
    assert_eq!(series(OPS, "ann"), all(&[&a, &payroll, &own], 1));
    // To ann there is no server "payroll".
    assert_eq!(series(ANN, "ann"), all(&[&a, &own], 3));
    for token in [OPS, ANN] {
        let history: Value = serde_json::from_str(&page(token, "/api/v1/history")).unwrap();
        assert_eq!(history["all"]["failures"], 0, "{history}");
        assert_eq!(history["all"]["denied"], if token == OPS { 8 } else { 7 }, "{history}");
    }
    let servers: Value = serde_json::from_str(&page(OPS, "/api/v1/servers")).unwrap();
    for (at, denied) in [(0, 0), (1, 1)] {
        let calls = &servers["servers"][at]["calls"];
        assert_eq!((&calls["failures"], &calls["denied"]), (&json!(0), &json!(denied)), "{servers}");
    }
}

#[test]
fn a_prompt_of_a_server_of_which_only_tools_were_given_says_so_whether_it_exists_or_not() {
    let place = Place::configured(&json!({
        "servers": {"demo": demo(), "other": demo()},
        "gateway": {"tokens": [
            {"principal": "ann", "token": ANN, "servers": {"demo": ["add"]}},
        ]},
    }));
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let address = serving.address();
    let mut web = Web { address: &address, token: Some(ANN), session: None };
    web.greet();
    let get = |name: &str| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": name}});
        read(&web.post(&message))["error"].clone()
    };
    for name in ["demo__greet", "demo__nothing"] {
        let error = get(name);
        assert_eq!(error["data"], json!({"code": "not-allowed"}), "{error}");
        assert!(error["message"].as_str().unwrap().contains("only single tools of server \"demo\""), "{error}");
    }
    for name in ["other__greet", "nobody__greet"] {
        let error = get(name);
        assert_eq!(error["message"], format!("no prompt {name:?}"), "{error}");
        assert_eq!(error["data"], Value::Null, "{error}");
    }
}
