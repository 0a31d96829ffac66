use std::io::{BufRead, BufReader, Lines, PipeReader, PipeWriter, Write};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use super::serve;

/// A client of a running server.
struct Client {
    input: PipeWriter,
    output: Lines<BufReader<PipeReader>>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Client {
    fn start() -> Client {
        let (theirs, input) = std::io::pipe().unwrap();
        let (output, ours) = std::io::pipe().unwrap();
        let server = std::thread::spawn(|| serve(BufReader::new(theirs), ours));
        Client { input, output: BufReader::new(output).lines(), server }
    }

    /// Starts a client and completes the handshake.
    fn of(version: &str) -> Client {
        let mut client = Client::start();
        let result = client.result("initialize", json!({"protocolVersion": version, "capabilities": {}}));
        assert_eq!(result["protocolVersion"], version);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn line(&mut self) -> String {
        self.output.next().expect("the server still runs").unwrap()
    }

    fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&request(7, method, params).to_string());
        self.receive()
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params);
        assert_eq!(answer["id"], 7, "{answer}");
        answer["result"].take()
    }

    fn code(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params)["error"]["code"].take()
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Closes the input, and returns the remaining lines.
    fn end(self) -> Vec<String> {
        drop(self.input);
        self.server.join().unwrap().unwrap();
        self.output.map(Result::unwrap).collect()
    }
}

fn request(id: i32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Adds what a stateless request carries to the parameters.
fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[test]
fn the_handshake_agrees_on_the_version_that_was_asked_for_or_on_the_newest() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        Client::of(version);
    }
    for version in ["2026-07-28", "1999-01-01"] {
        let result = Client::start().result("initialize", json!({"protocolVersion": version}));
        assert_eq!(result["protocolVersion"], "2025-11-25");
        assert_eq!(result["capabilities"], json!({"tools": {}, "resources": {}, "prompts": {}}));
        assert_eq!(result["serverInfo"]["name"], "toolgate-demo");
        assert!(result["instructions"].is_string());
        assert_eq!(result.get("resultType"), None);
    }
}

#[test]
fn a_stateless_client_discovers_the_server() {
    let result = Client::start().result("server/discover", stateless(json!({})));
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["cacheScope"], "public");
    assert!(result["ttlMs"].is_u64());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "toolgate-demo");
    assert_eq!(result["capabilities"], json!({"tools": {}, "resources": {}, "prompts": {}}));
}

#[test]
fn both_eras_are_served_side_by_side() {
    let mut client = Client::of("2025-11-25");
    let plain = client.result("tools/list", json!({}));
    let dressed = client.result("tools/list", stateless(json!({})));
    assert_eq!(plain["tools"], dressed["tools"]);
    assert_eq!(plain.as_object().unwrap().len(), 1);
    assert_eq!((&dressed["resultType"], &dressed["cacheScope"]), (&json!("complete"), &json!("public")));
    let called = client.result("tools/call", stateless(json!({"name": "echo", "arguments": {"text": "hi"}})));
    assert_eq!((text(&called), &called["resultType"]), ("hi", &json!("complete")));
    assert_eq!(called.get("ttlMs"), None);
}

#[test]
fn a_stateless_request_must_carry_its_metadata() {
    let mut client = Client::start();
    assert_eq!(client.code("tools/list", json!({})), -32602);
    assert_eq!(client.code("server/discover", json!({})), -32602);
    let mut params = stateless(json!({}));
    params["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(client.code("tools/list", params.clone()), -32602);
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2027-01-01");
    let error = client.ask("tools/list", params)["error"].take();
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["supported"][0], "2026-07-28");
    assert_eq!(error["data"]["requested"], "2027-01-01");
}

#[test]
fn what_is_no_request_is_refused() {
    let check = |line: &str, expected: &str| {
        let mut client = Client::of("2025-11-25");
        client.send(line);
        let answer = client.line();
        assert!(answer.contains(expected) && answer.contains(r#""error""#), "{line}: {answer}");
    };
    check("{", r#""id":null,"error":{"code":-32700"#);
    check("\"\u{7}\"", r#""id":null,"error":{"code":-32700"#);
    check("17", r#""id":null,"error":{"code":-32600"#);
    check(r#"{"id":5}"#, r#""id":5,"error":{"code":-32600"#);
    check(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, r#""id":null,"error":{"code":-32600"#);
    check(r#"{"jsonrpc":"2.0","id":"x","method":"tools/fly"}"#, r#""id":"x","error":{"code":-32601"#);
    check(r#"{"jsonrpc":"2.0","id":"x","method":"server/discover"}"#, r#""id":"x","error":{"code":-32602"#);
    check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}"#, "-32602");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fly"}}"#, "-32602");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"2"}}"#, "-32602");
    check(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":2}}"#, "-32602");
}

#[test]
fn notifications_answers_and_blank_lines_get_no_answer() {
    let mut client = Client::of("2025-11-25");
    for line in [
        "",
        "  \r",
        r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        client.send(line);
    }
    assert_eq!(client.result("ping", json!({})), json!({}));
    assert!(client.end().is_empty());
}

#[test]
fn tools_are_listed_in_the_order_of_the_catalog_and_with_its_annotations() {
    let result = Client::of("2025-11-25").result("tools/list", json!({}));
    let tools = result["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["echo", "add", "sleep", "picture", "fail", "forecast"]);
    assert!(tools.iter().all(|tool| tool["inputSchema"]["type"] == "object"));
    assert_eq!(tools[0]["annotations"], json!({"readOnlyHint": true}));
    assert_eq!(tools[5]["outputSchema"]["required"], json!(["city", "unit", "days"]));
}

#[test]
fn sums_keep_every_digit() {
    let check = |a: &str, b: &str, sum: &str| {
        let mut client = Client::of("2025-11-25");
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"add","arguments":{{"a":{a},"b":{b}}}}}}}"#
        ));
        let answer = client.line();
        assert!(answer.contains(&format!(r#""text":"{sum}""#)), "{a} + {b}: {answer}");
        assert!(answer.contains(&format!(r#""structuredContent":{{"sum":{sum}}}"#)), "{a} + {b}: {answer}");
    };
    check("1", "2", "3");
    check("-5", "2", "-3");
    check("18446744073709551615", "18446744073709551615", "36893488147419103230");
    check("99999999999999999999999999999999999999", "1", "100000000000000000000000000000000000000");
    check("170141183460469231731687303715884105727", "-1", "170141183460469231731687303715884105726");
    check("0.5", "0.25", "0.75");
    check("1", "0.5", "1.5");
    check("-170141183460469231731687303715884105728", "170141183460469231731687303715884105728", "0.0");
}

#[test]
fn arguments_that_do_not_fit_are_an_error_that_a_model_can_read() {
    let mut client = Client::of("2025-11-25");
    let mut check = |tool: &str, arguments: Value, expected: &str| {
        let result = client.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(text(&result), format!("invalid arguments for {tool:?}: {expected}"));
    };
    check("add", json!({"a": 1}), r#"missing required property "b""#);
    check("add", Value::Null, r#"missing required property "a", missing required property "b""#);
    check("add", json!({"a": 1, "b": "2"}), r#""b" must be a number"#);
    check("add", json!({"a": 1.7e308, "b": 1.7e308}), "the sum is too large");
    check("echo", json!({"text": 5}), r#""text" must be a string"#);
    check("sleep", json!({"seconds": -1}), r#""seconds" must be from 0 to 600, not -1"#);
    check("forecast", json!({"city": "Bern", "days": 15}), r#""days" must be from 1 to 14"#);
    check("forecast", json!({"city": "Bern", "days": 1.5}), r#""days" must be a whole number"#);
}

#[test]
fn tools_do_what_they_say() {
    let mut client = Client::of("2025-11-25");
    assert_eq!(text(&client.call("echo", json!({"text": "hé\n\u{1f600}"}))), "hé\n\u{1f600}");
    let failed = client.call("fail", json!({"message": "no luck"}));
    assert_eq!((text(&failed), &failed["isError"]), ("no luck", &json!(true)));
    let picture = client.call("picture", json!({}));
    assert_eq!(picture["content"][0]["mimeType"], "image/png");
    assert!(picture["content"][0]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "the signature of PNG");
    let forecast = client.call("forecast", json!({"city": "Zürich"}));
    assert_eq!(forecast["structuredContent"]["city"], "Zürich");
    assert_eq!(forecast["structuredContent"]["days"].as_array().unwrap().len(), 3);
    assert!(text(&forecast).starts_with("The weather in Zürich:\nday 1: "));
}

#[test]
fn resources_and_prompts_can_be_read() {
    let mut client = Client::of("2025-11-25");
    assert_eq!(client.result("resources/list", json!({}))["resources"][0]["uri"], "demo://readme");
    let templates = client.result("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "demo://square/{number}");
    let readme = client.result("resources/read", json!({"uri": "demo://readme"}));
    assert_eq!(readme["contents"][0]["mimeType"], "text/markdown");
    let square = client.result("resources/read", json!({"uri": "demo://square/-12"}));
    assert_eq!(square["contents"][0]["text"], "144");
    assert_eq!(client.code("resources/read", json!({"uri": "demo://nothing"})), -32002);
    assert_eq!(client.code("resources/read", stateless(json!({"uri": "demo://nothing"}))), -32602);
    assert_eq!(client.result("resources/read", stateless(json!({"uri": "demo://readme"})))["cacheScope"], "public");
    assert_eq!(client.result("prompts/list", json!({}))["prompts"][0]["name"], "greet");
    let greeting = client.result("prompts/get", json!({"name": "greet", "arguments": {"name": "Ada"}}));
    assert_eq!(greeting["messages"][0]["content"]["text"], "Greet Ada in one friendly sentence.");
    assert_eq!(client.code("prompts/get", json!({"name": "greet"})), -32602);
    assert_eq!(client.code("prompts/get", json!({"name": "insult"})), -32602);
}

#[test]
fn a_sleep_tells_its_progress_and_lets_others_pass() {
    let mut client = Client::of("2025-11-25");
    let params = json!({"name": "sleep", "arguments": {"seconds": 0.25}, "_meta": {"progressToken": "t"}});
    client.send(&request(1, "tools/call", params).to_string());
    let mut last = -1.0;
    let result = loop {
        let message = client.receive();
        let Some("notifications/progress") = message["method"].as_str() else { break message };
        assert_eq!((&message["params"]["progressToken"], &message["params"]["total"]), (&json!("t"), &json!(0.25)));
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{progress} after {last}");
        last = progress;
    };
    assert_eq!(last, 0.25);
    assert_eq!(text(&result["result"]), "slept for 0.25 seconds");

    client.send(&request(2, "tools/call", json!({"name": "sleep", "arguments": {"seconds": 600}})).to_string());
    assert_eq!(client.result("ping", json!({})), json!({}));
    assert!(client.end().is_empty(), "a sleep that runs when the input ends is dropped");
}

#[test]
fn a_cancelled_sleep_is_not_answered() {
    let mut client = Client::of("2025-11-25");
    for id in [1, 2] {
        client.send(&request(id, "tools/call", json!({"name": "sleep", "arguments": {"seconds": 600}})).to_string());
    }
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    client.send(&cancelled.to_string());
    assert_eq!(client.result("ping", json!({})), json!({}));
    assert_eq!(text(&client.call("sleep", json!({"seconds": 0}))), "slept for 0 seconds");
    assert!(client.end().is_empty());
}

#[test]
fn sleeps_beyond_the_limit_are_refused() {
    let mut client = Client::of("2025-11-25");
    for id in 0..=1000 {
        client.send(&request(id, "tools/call", json!({"name": "sleep", "arguments": {"seconds": 600}})).to_string());
    }
    let refused = client.receive();
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!(1000), &json!(true)));
    assert!(client.end().is_empty());
}

#[test]
fn a_batch_is_answered_as_a_batch_once_all_of_it_is_done() {
    let mut client = Client::of("2025-03-26");
    let sleep = |id, seconds| request(id, "tools/call", json!({"name": "sleep", "arguments": {"seconds": seconds}}));
    let note = json!({"jsonrpc": "2.0", "method": "notifications/unknown"});
    client.send(&json!([sleep(1, 0.01), request(2, "ping", json!({})), note, 17]).to_string());
    let answers = client.receive();
    let mut ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "null"]);

    client.send(&json!([note]).to_string());
    client.send("[]");
    assert_eq!(client.receive()["error"]["code"], -32600);

    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}});
    client.send(&json!([sleep(4, 600.0), request(5, "ping", json!({}))]).to_string());
    client.send(&cancelled.to_string());
    assert_eq!(client.receive(), json!([{"jsonrpc": "2.0", "id": 5, "result": {}}]));
}
