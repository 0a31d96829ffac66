//! Tests who sees the resources and prompts of servers, and how much of them.
#![expect(deprecated, reason = "older servers and clients have it")]

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{GetPromptRequestParams, ReadResourceRequestParams};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::{ClientHandler, RoleClient};
use serde_json::json;
use toolgate::gate::GateView;
use toolgate::gateway::GatewayOptions;
use toolgate::gateway::client::Principal;
use toolgate::gateway::http::Tokens;
use toolgate::logic::types::filtering::SelectedServer;

use super::{Lines, fixtures, http_client_of, serve_http_over, serve_over};
use crate::fixtures::{Basket, LONG};

/// Notes which lists it is told have changed.
#[derive(Clone, Default)]
struct Watcher(Basket<&'static str>, Arc<tokio::sync::Notify>);

impl ClientHandler for Watcher {
    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push("resources");
        self.1.notify_one();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.lock().unwrap().push("prompts");
        self.1.notify_one();
    }

    async fn on_logging_message(
        &self,
        _: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.lock().unwrap().push("log");
        self.1.notify_one();
    }
}

async fn call(client: &RunningService<RoleClient, Watcher>, tool: &'static str) -> bool {
    client.call_tool(rmcp::model::CallToolRequestParams::new(tool)).await.is_ok()
}

#[tokio::test]
async fn who_may_not_use_a_server_sees_nothing_of_it() {
    let principal = |name: &str| Principal { name: name.to_owned(), admin: false };
    let names = ["all", "one", "tool"];
    let tokens = Tokens::new(names.map(|name| (format!("a-long-token-for-{name}"), principal(name)))).unwrap();
    let view = |grant: &str| GateView { capabilities: Some(vec![grant.to_owned()]), ..GateView::default() };
    let views = HashMap::from([
        ("all".to_owned(), view("mcp_integration")),
        ("one".to_owned(), view("server:p")),
        ("tool".to_owned(), view("tool:c/change")),
    ]);
    let config = fixtures(&[("c", "chatty"), ("p", "plain")], "");
    let (url, _stop) =
        serve_http_over(config, HashMap::new(), GatewayOptions { views, ..GatewayOptions::default() }, tokens).await;
    let mut clients = Vec::new();
    for name in names {
        let watcher = Watcher::default();
        let token = format!("a-long-token-for-{name}");
        let client = http_client_of(watcher.clone(), &url, Some(&token), "legacy").await;
        let level = serde_json::from_value(json!({"level": "debug"})).unwrap();
        client.set_level(level).await.unwrap();
        clients.push((client, watcher));
    }
    let of = |n: usize| &clients[n].0;
    for (n, resources, prompts, templates) in [(0, 3, 2, 1), (1, 1, 1, 0), (2, 0, 0, 0)] {
        assert_eq!(of(n).list_all_resources().await.unwrap().len(), resources, "{n}");
        assert_eq!(of(n).list_all_prompts().await.unwrap().len(), prompts, "{n}");
        assert_eq!(of(n).list_all_resource_templates().await.unwrap().len(), templates, "{n}");
        let read = of(n).read_resource(ReadResourceRequestParams::new("chatty://secret")).await;
        assert_eq!(read.is_ok(), n == 0, "{n}");
        let got = of(n).get_prompt(GetPromptRequestParams::new("c__big")).await;
        assert_eq!(got.is_ok(), n == 0, "{n}");
    }
    // The one who may use a single tool makes changes, and only who may use the whole server hears of them.
    assert!(call(of(2), "c__change").await && !call(of(1), "c__change").await);
    assert!(call(of(0), "c__later").await);
    let heard = |n: usize| clients[n].1.0.lock().unwrap().clone();
    tokio::time::timeout(LONG, async {
        while ["resources", "prompts", "log"].iter().any(|news| !heard(0).contains(news)) {
            clients[0].1.1.notified().await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{:?}", heard(0)));
    assert_eq!((heard(1), heard(2)), (vec![], vec![]));
}

#[tokio::test]
async fn who_may_not_use_a_server_does_not_hear_its_name() {
    let names = ["none", "tool", "chosen"];
    let principal = |name: &str| Principal { name: name.to_owned(), admin: false };
    let tokens = Tokens::new(names.map(|name| (format!("a-long-token-for-{name}"), principal(name)))).unwrap();
    let view = |grants: &[&str]| GateView {
        capabilities: Some(grants.iter().map(|grant| (*grant).to_owned()).collect()),
        ..GateView::default()
    };
    let only = SelectedServer { id: "open".to_owned(), tools: vec!["echo".to_owned()] };
    let views = HashMap::from([
        ("none".to_owned(), view(&[])),
        ("tool".to_owned(), view(&["tool:open/echo"])),
        ("chosen".to_owned(), GateView { selection: Some(vec![only]), ..GateView::default() }),
    ]);
    let config = fixtures(&[("open", "plain"), ("hidden", "chatty")], "");
    let (url, _stop) =
        serve_http_over(config, HashMap::new(), GatewayOptions { views, ..GatewayOptions::default() }, tokens).await;
    for name in names {
        let token = format!("a-long-token-for-{name}");
        let client = http_client_of(Watcher::default(), &url, Some(&token), "legacy").await;
        for tool in ["nothing.x", "hidden.say", "hidden__say", "hidden.x"] {
            let refused = client.call_tool(rmcp::model::CallToolRequestParams::new(tool)).await.unwrap_err();
            let text = refused.to_string().replace(tool, "");
            let asked = tool.split(['.', '_']).next().unwrap();
            assert!(asked == "hidden" || !text.contains("hidden"), "{name} {tool}: {refused}");
            assert!(!text.contains("not available on server"), "{name} {tool}: {refused}");
            let known: Vec<_> = text.split_once("Available servers: ").into_iter().map(|(_, list)| list).collect();
            assert!(known.iter().all(|list| !list.contains("hidden")), "{name} {tool}: {refused}");
            assert_eq!(known.iter().any(|list| list.contains("open")), name != "none", "{name} {tool}: {refused}");
        }
        assert_eq!(call(&client, "open__echo").await, name != "none", "{name}");
        assert!(client.list_all_resources().await.unwrap().is_empty(), "{name}");
        assert!(client.list_all_prompts().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn resources_and_prompts_are_masked_and_cut_as_tools_are() {
    let config = fixtures(&[("c", "chatty")], "masking: {groups: [basic]}\nmax_result_bytes: 100");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let masked = "password: [MASKED_PASSWORD]";
    let (answer, _) = lines.ask("0", "tools/list", json!({})).await;
    let tool = &answer["result"]["tools"][0];
    assert_eq!((&tool["title"], &tool["description"]), (&json!(masked), &json!(masked)));
    let schema = json!({"type": "object", "properties": {"description": {"description": masked}}});
    assert_eq!((&tool["inputSchema"], &tool["name"]), (&schema, &json!("c__say")));
    lines.ask("0", "logging/setLevel", json!({"level": "debug"})).await;
    let (_, heard) = lines.ask("0", "tools/call", json!({"name": "c__sign", "arguments": {}})).await;
    let signed = heard.iter().find(|message| message["params"]["data"] == "signed").expect("it is logged");
    assert_eq!(signed["params"]["logger"], masked);
    let (answer, _) = lines.ask("1", "resources/list", json!({})).await;
    assert_eq!(answer["result"]["resources"][0]["description"], masked);
    let (answer, _) = lines.ask("2", "resources/read", json!({"uri": "chatty://secret"})).await;
    assert_eq!(answer["result"]["contents"][0]["text"], masked);
    let reference = json!({"type": "ref/prompt", "name": "c__big"});
    let params = json!({"ref": reference, "argument": {"name": "a", "value": ""}});
    let (answer, _) = lines.ask("3", "completion/complete", params).await;
    assert_eq!(answer["result"]["completion"]["values"], json!([masked]));

    let (answer, _) = lines.ask("4", "resources/read", json!({"uri": "chatty://big"})).await;
    let contents = &answer["result"]["contents"];
    assert_eq!(contents[0], json!({"uri": "chatty://big", "text": "first\n", "odd": 1.5}), "{answer}");
    let cut = contents[1]["text"].as_str().unwrap();
    assert!(cut.starts_with("line\nline\n") && cut.len() < 250, "{cut}");
    assert!(cut.contains("[TRUNCATED: result exceeded the size limit"), "{cut}");
    assert_eq!(contents[2]["blob"], "AAAA");
    let (answer, _) = lines.ask("5", "prompts/get", json!({"name": "c__big"})).await;
    let text = answer["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("[TRUNCATED: result exceeded the size limit") && text.len() < 250, "{text}");
}

#[tokio::test]
async fn a_resource_that_a_server_names_is_read_from_that_server() {
    let config = fixtures(&[("p", "plain"), ("a", "links a"), ("b", "links b")], "");
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let read = async |lines: &mut Lines, uri: &str| {
        let (answer, _) = lines.ask(uri, "resources/read", json!({"uri": uri})).await;
        answer["result"]["contents"][0]["text"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| answer["error"]["code"].clone())
    };
    for (tool, uri, text) in
        [("a__link", "link://both/1", "a"), ("b__link", "link://both/2", "b"), ("b__hold", "link://both/3", "b")]
    {
        lines.ask(tool, "tools/call", json!({"name": tool, "arguments": {"uri": uri}})).await;
        assert_eq!(read(&mut lines, uri).await.as_deref(), Ok(text), "{tool}");
    }
    // What nobody listed or named is asked of nobody, though one of them would have it.
    assert_eq!(read(&mut lines, "link://b/4").await, Err(json!(-32002)));
    assert_eq!(read(&mut lines, "link://nobody/5").await, Err(json!(-32002)));
}

#[tokio::test]
async fn a_list_that_rules_shorten_is_read_to_its_end_as_it_was_when_it_began() {
    let settings = "results: {p.echo: {labels: [seen]}}
rules: [{name: late, tools: [c.*], when: '\"seen\" in labels', then: deny}]";
    let config = fixtures(&[("p", "plain"), ("c", "catalog 1500 10")], settings);
    let (stream, _served) = serve_over(config, HashMap::new(), GatewayOptions::default());
    let mut lines = Lines::greet(stream, json!({})).await;
    let names = |page: &serde_json::Value| {
        let tools = page["result"]["tools"].as_array().unwrap_or_else(|| panic!("{page}")).iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (first, _) = lines.ask("1", "tools/list", json!({})).await;
    assert_eq!(names(&first).len(), 1000);
    let (called, _) = lines.ask("2", "tools/call", json!({"name": "p__echo", "arguments": {"text": "x"}})).await;
    assert_eq!(called["result"]["content"][0]["text"], "x");
    let (second, _) = lines.ask("3", "tools/list", json!({"cursor": first["result"]["nextCursor"]})).await;
    assert_eq!(
        (names(&second).last().unwrap().as_str(), &second["result"]["nextCursor"]),
        ("c__tool_1499", &json!(null))
    );
    let (anew, _) = lines.ask("4", "tools/list", json!({})).await;
    assert!(names(&anew).iter().all(|name| name.starts_with("p__")), "what is hidden by now is not listed anew");
}
