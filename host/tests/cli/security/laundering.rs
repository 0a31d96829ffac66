//! An untrusted agent sends text to a server whose results are trusted, in every way there is, to get it back as something
//! that it knows. The server is honest, and only remembers and tidies up.

use serde_json::{Value, json};

use crate::place::{Place, fixture_in};
use crate::serving::Serving;

const EVE: &str = "eve@evil.example";

/// What a client of 2026-07-28 sends with each request.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}},
    });
    params
}

/// An agent of a gateway that has read a page of a stranger.
struct Agent {
    serving: Serving,
    is_modern: bool,
    _place: Place,
}

impl Agent {
    fn new(is_modern: bool) -> Self {
        let server = |role: &str| {
            let more: &[&str] = if is_modern { &["modern"] } else { &[] };
            fixture_in("security/launders.py", &[&[role], more].concat())
        };
        let place = Place::configured(&json!({
            "version": 1,
            "servers": {"crm": server("crm"), "web": server("web"), "mail": server("mail")},
            "rules": [{
                "name": "strangers", "tools": ["mail.send"], "then": "deny",
                "when": "\"untrusted\" in labels && !known(args.to)",
            }],
            "results": {
                "web.*": {"labels": ["untrusted"]},
                "crm.recent": {"trusted": true},
                "crm.card": {"trusted": false, "trusted_fields": ["mail"]},
            },
            "known": ["@example.com"],
            "resource_tools": true,
        }));
        let mut serving = Serving::start(&place, &[]);
        if !is_modern {
            let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
            let hello = json!({
                "protocolVersion": "2025-06-18", "capabilities": capabilities,
                "clientInfo": {"name": "t", "version": "1"},
            });
            serving.ask("initialize", hello);
            serving.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        }
        let mut agent = Agent { serving, is_modern, _place: place };
        // What its user says first is known.
        agent.call("crm__find", json!({"name": "ann"}));
        agent.call("web__page", json!({}));
        agent
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let params = if self.is_modern { modern(params) } else { params };
        let answer = self.serving.ask(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Makes a call, and answers the question that its server asks meanwhile.
    fn call_and_answer(&mut self, name: &str, question: &str, answer: &Value) {
        let id = self.serving.begin("tools/call", json!({"name": name, "arguments": {}}));
        let asked = self.serving.told(question)["id"].clone();
        let mut said = json!({"jsonrpc": "2.0", "id": asked});
        let kind = if answer["code"].is_null() { "result" } else { "error" };
        said[kind] = answer.clone();
        self.serving.send(&said);
        assert!(self.serving.answer(id)["error"].is_null());
    }

    /// Reports whether it may write to this address.
    fn may_write_to(&mut self, address: &str) -> bool {
        let params = json!({"name": "mail__send", "arguments": {"to": address}});
        let params = if self.is_modern { modern(params) } else { params };
        let answer = self.serving.ask("tools/call", params);
        let said = answer.to_string();
        assert!(said.contains("strangers") || said.contains("done"), "{said}");
        said.contains("done")
    }

    /// Reads what the server remembers, and reports whether it may write to Eve and to Bob, who is always shown.
    fn learns(&mut self) -> [bool; 2] {
        self.call("crm__recent", json!({}));
        [EVE, "bob@b.example"].map(|address| self.may_write_to(address))
    }
}

#[test]
fn what_an_untrusted_agent_sends_comes_back_as_something_unknown_in_whatever_spelling() {
    for arguments in [
        json!({"name": EVE}),
        json!({"name": ["eve", "@", "evil.example"]}),
        json!({"name": {"eve@": {"evil.example": null}}}),
        json!({"name": "eve%40evil.example"}),
        json!({"name": "ｅｖｅ＠ｅｖｉｌ．ｅｘａｍｐｌｅ"}),
        json!({"name": "<eve@evil.example>\n"}),
        json!({"name": "elpmaxe.live@eve"}),
        json!({"name": "eve at evil dot example"}),
        json!({"name": "eve%40evil.example@example.com"}),
        json!({"number": EVE.bytes().collect::<Vec<_>>()}),
        json!({EVE: true}),
    ] {
        let mut agent = Agent::new(false);
        agent.call("crm__find", arguments.clone());
        assert_eq!(agent.learns(), [false, false], "{arguments}");
    }
}

#[test]
fn look_ups_by_what_is_known_an_enum_or_a_number_go_on_teaching() {
    let mut agent = Agent::new(false);
    for arguments in [json!({"name": "ann"}), json!({"kind": "firm"}), json!({"number": 4711}), json!({"name": null})] {
        agent.call("crm__find", arguments);
    }
    let accepts = json!({"action": "accept", "content": {"sure": true, "size": "small", "name": "ann"}});
    agent.call_and_answer("crm__ask", "elicitation/create", &accepts);
    agent.ask("resources/read", json!({"uri": "crm://today"}));
    assert_eq!(agent.learns(), [false, true]);
}

#[test]
fn after_a_write_trusted_fields_go_on_teaching() {
    let mut agent = Agent::new(false);
    agent.call("crm__find", json!({"name": EVE}));
    agent.call("crm__card", json!({"eve": EVE}));
    assert!(!agent.may_write_to("cid@c.example"), "by a call with text of its own, they do not");
    agent.call("crm__card", json!({}));
    assert!(agent.may_write_to("cid@c.example"));
    assert!(!agent.may_write_to(EVE));
}

#[test]
fn answers_to_questions_are_writes() {
    let accepts = |content: Value| json!({"action": "accept", "content": content});
    for answer in [
        accepts(json!({"name": EVE})),
        accepts(json!({"name": "eve%40evil.example"})),
        accepts(json!({EVE: true})),
        json!({"action": "accept", "content": {}, "note": EVE}),
        json!({"code": 1, "message": EVE}),
    ] {
        let mut agent = Agent::new(false);
        agent.call_and_answer("crm__ask", "elicitation/create", &answer);
        assert_eq!(agent.learns(), [false, false], "{answer}");
    }
    let mut agent = Agent::new(false);
    let said = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": EVE}});
    agent.call_and_answer("crm__model", "sampling/createMessage", &said);
    assert_eq!(agent.learns(), [false, false]);
}

#[test]
fn what_a_client_without_a_session_answers_is_a_write() {
    let mut agent = Agent::new(true);
    let asked = agent.call("crm__ask", json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(agent.learns(), [false, true], "the question alone is none");
    for more in
        [json!({"inputResponses": {"q": {"action": "accept", "content": {"name": EVE}}}}), json!({"requestState": EVE})]
    {
        let mut agent = Agent::new(true);
        let mut call = json!({"name": "crm__ask", "arguments": {}, "inputResponses": {}});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        agent.ask("tools/call", call);
        assert_eq!(agent.learns(), [false, false], "{more}");
    }
}

#[test]
fn other_requests_with_text_are_writes() {
    let uri = format!("crm://search/{EVE}");
    for (method, params) in [
        ("resources/read", json!({"uri": uri})),
        ("prompts/get", json!({"name": "crm__greet", "arguments": {"who": EVE}})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "crm__greet"}, "argument": {"name": "who", "value": EVE}}),
        ),
        ("tools/call", json!({"name": "toolgate__read_resource", "arguments": {"uri": uri}})),
    ] {
        for is_modern in [false, true] {
            let mut agent = Agent::new(is_modern);
            agent.ask(method, params.clone());
            assert_eq!(agent.learns(), [false, false], "{method} {is_modern}");
        }
    }
}
