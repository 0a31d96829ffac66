//! Tests the gateway's own tools, with which clients find and call tools that are not listed.

use std::any::Any;
use std::collections::HashMap;
use std::path::Path;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, SubscriptionFilter};
use rmcp::service::RunningService;
use serde_json::{Value, json, to_value};
use toolgate::config::model::{Config, TokenRules};
use toolgate::gateway::client::{ClientFactory, Principal};
use toolgate::gateway::http::Tokens;
use toolgate::gateway::{CallFilter, GatewayOptions};

use super::approving::{Person, WAYS};
use super::changing::modern;
use super::sharing::{Guest, gateway_with};
use super::{client_of, http_client_of, serve_http_over, serve_over};
use crate::fixtures::LONG;
use crate::record::{records, replay};

/// A client whose person approves every call, or none.
fn person(approves: bool) -> Person {
    let says = json!({"action": if approves { "accept" } else { "decline" }});
    Person::who(json!({"elicitation": {"form": {}}}), Some(says))
}

type Client = RunningService<RoleClient, Person>;
type Called = Result<Value, String>;

/// Fixtures, each with its id, the words of its mode and further keys, under these settings.
fn config(settings: &str, servers: &[(&str, &str, &str)]) -> Config {
    let entry = |(id, words, more): &(&str, &str, &str)| {
        let (program, words) = (env!("CARGO_BIN_EXE_fixture"), words.split(' ').collect::<Vec<_>>());
        format!("  {id}: {{command: {program:?}, args: {words:?}{more}}}\n")
    };
    parse(&format!("{settings}\nservers:\n{}", servers.iter().map(entry).collect::<String>()))
}

fn parse(yaml: &str) -> Config {
    toolgate::config::parse(yaml, Path::new("toolgate.yaml")).expect("the test's configuration is right")
}

/// The options of a gateway, as `toolgate serve` takes them from a configuration.
fn options(config: &Config) -> GatewayOptions {
    let gateway = &config.settings.gateway;
    let list = |token: &TokenRules| Some((token.principal.clone(), token.list?));
    let lists = (gateway.tokens.iter().filter_map(list).collect(), gateway.list);
    GatewayOptions { lists, views: toolgate::gate::views(config).into_iter().collect(), ..GatewayOptions::default() }
}

/// A gateway over HTTP with a token for each principal of its configuration; it stops when the second value is dropped.
async fn serve_tokens(config: Config) -> (String, impl Sized) {
    let (options, names) = (options(&config), config.settings.gateway.tokens.iter().map(|token| &token.principal));
    let tokens = names.map(|name| (secret(name), Principal { name: name.clone(), admin: false }));
    let tokens = Tokens::new(tokens.collect::<Vec<_>>()).unwrap();
    serve_http_over(config, HashMap::new(), options, tokens).await
}

fn secret(principal: &str) -> String {
    format!("a-long-token-for-{principal}")
}

/// A client of this era at this door of a new gateway, which stops when the second value is dropped.
async fn connect(person: &Person, (era, door): (&str, &str), config: Config, expose: bool) -> (Client, Box<dyn Any>) {
    let options = GatewayOptions { expose: expose.then(|| config.servers[0].id.clone()), ..options(&config) };
    if door == "stdio" {
        let (stream, served) = serve_over(config, HashMap::new(), options);
        return (client_of(person.clone(), stream, era).await, Box::new(served));
    }
    let (url, stop) = serve_http_over(config, HashMap::new(), options, Tokens::default()).await;
    (http_client_of(person.clone(), &url, None, era).await, Box::new(stop))
}

async fn call(client: &Client, name: &str, arguments: Value) -> Called {
    let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.as_object().cloned().unwrap());
    let called = tokio::time::timeout(LONG, client.call_tool(params)).await.expect("the call ends");
    called.map(|called| to_value(called).unwrap()).map_err(|error| error.to_string())
}

/// Calls a tool through `call_tool`.
async fn through(client: &Client, name: &str, arguments: Value) -> Called {
    call(client, "call_tool", json!({"name": name, "arguments": arguments})).await
}

/// Calls a tool by its own name and through `call_tool`, which comes to the same.
async fn both(client: &Client, name: &str, arguments: Value) -> Called {
    let own = call(client, name, arguments.clone()).await;
    assert_eq!(own, through(client, name, arguments).await, "{name}");
    own
}

fn text(called: &Called) -> &str {
    let called = called.as_ref().unwrap_or_else(|error| panic!("{error}"));
    called["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{called}"))
}

/// The tools that `find_tools` tells, as structured content and as text.
async fn find(client: &Client, query: &str) -> Vec<Value> {
    let found = call(client, "find_tools", json!({"query": query, "limit": 50})).await;
    let told: Value = serde_json::from_str(text(&found)).expect("the text is JSON");
    assert_eq!(told, found.unwrap()["structuredContent"]);
    told["tools"].as_array().unwrap().clone()
}

async fn listed(client: &Client) -> Vec<Value> {
    client.list_all_tools().await.unwrap().into_iter().map(|tool| to_value(tool).unwrap()).collect()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

const OWN: [&str; 2] = ["find_tools", "call_tool"];
const SEARCH: &str = "gateway: {list: search}";
const SUM: &str = "add two numbers";

#[tokio::test]
async fn what_is_not_listed_is_found_and_called_like_a_tool_that_is() {
    let settings = format!("{SEARCH}\nsearch: {{always: ['c.la*']}}\nmasking: {{groups: [basic]}}");
    for way in WAYS {
        let config = config(&settings, &[("p", "plain", ""), ("m", "modern", ""), ("c", "chatty", "")]);
        let (client, _gateway) = connect(&person(true), way, config, false).await;
        // Before anything is listed.
        let found = find(&client, SUM).await;
        assert_eq!(names(&found)[..2], ["m__add", "p__add"], "{way:?}");
        assert_eq!(
            (&found[0]["description"], &found[0]["inputSchema"]["required"]),
            (&json!("adds two numbers"), &json!(["a", "b"]))
        );
        assert_eq!(find(&client, "c__say").await[0]["description"], "password: [MASKED_PASSWORD]", "{way:?}");
        let one = call(&client, "find_tools", json!({"query": SUM, "limit": 1})).await.unwrap();
        assert_eq!(one["structuredContent"]["tools"].as_array().unwrap().len(), 1, "{way:?}");
        let tools = listed(&client).await;
        assert_eq!(names(&tools), ["find_tools", "call_tool", "c__later"], "{way:?}");
        for (tool, reads) in tools.iter().zip([true, false]) {
            let said = &tool["annotations"];
            assert_eq!((&said["readOnlyHint"], &said["destructiveHint"]), (&json!(reads), &json!(!reads)), "{way:?}");
        }
        for (name, arguments, expected) in [
            ("p__add", json!({"a": 1, "b": 2}), "3"),
            ("m.add", json!({"a": "1", "b": 2}), "3"),
            ("p__echo", json!({"text": "password: hunter2hunter2"}), "password: [MASKED_PASSWORD]"),
            ("p__echo", json!({}), "invalid arguments for"),
            ("c__refuse", json!({}), "-32055: password: [MASKED_PASSWORD]"),
            ("p__nothing", json!({}), "-32602"),
            ("nobody__x", json!({}), "-32602"),
        ] {
            let called = both(&client, name, arguments).await;
            let said = called.as_ref().map_or_else(String::as_str, |_| text(&called));
            assert!(said.contains(expected), "{way:?} {name}: {said}");
        }
        assert_eq!(text(&through(&client, "p__add", json!("a: 1, b: 2")).await), "3", "{way:?}");
        assert_eq!(text(&call(&client, "call_tool", json!({"name": "p__add", "a": 1, "b": 2})).await), "3", "{way:?}");
    }
}

#[tokio::test]
async fn the_list_becomes_a_search_when_a_server_has_too_many_tools_and_clients_hear_of_it() {
    for way in WAYS {
        let config = config("gateway: {list: auto}\nsearch: {above_tools: 2}", &[("l", "list-changed", "")]);
        let person = person(true);
        let (client, _gateway) = connect(&person, way, config, false).await;
        assert_eq!(names(&listed(&client).await), ["l__grow"], "{way:?}");
        let mut listening = match way.0 {
            "modern" => Some(client.listen(SubscriptionFilter::builder().tools_list_changed().build()).await.unwrap()),
            _ => None,
        };
        for expected in [["l__grow", "l__grown_1"], OWN] {
            call(&client, "l__grow", json!({})).await.unwrap();
            let news = async {
                loop {
                    match &mut listening {
                        Some(listening) => drop(listening.next().await.unwrap().expect("it goes on")),
                        None => person.changed.notified().await,
                    }
                    if names(&listed(&client).await) == expected {
                        break;
                    }
                }
            };
            tokio::time::timeout(LONG, news).await.unwrap_or_else(|_| panic!("{way:?} {expected:?}"));
        }
        assert_eq!(names(&find(&client, "l__grown_2").await)[0], "l__grown_2", "{way:?}");
        assert_eq!(text(&both(&client, "l__grown_2", json!({})).await), "this is \"grown_2\"", "{way:?}");
    }
}

#[tokio::test]
async fn each_token_has_its_own_way_to_list_and_long_tools_are_too_many() {
    let settings = "search: {above_tools: 1, always: ['*.add']}\ngateway: {list: auto, tokens: [
        {principal: ann, token: x1, list: all}, {principal: bob, token: x2, list: search}, {principal: cat, token: x3},
        {principal: dan, token: x4, servers: {p: [echo]}},
        {principal: eve, token: x5, servers: {p: [echo]}, list: search}, {principal: fay, token: x6, servers: [k]}]}";
    let (url, _stop) = serve_tokens(config(settings, &[("p", "plain", ""), ("k", "catalog 1 50000", "")])).await;
    for (name, expected, is_harmless) in [
        ("ann", &["p__echo", "p__add", "k__tool_0"][..], None),
        ("bob", &["find_tools", "call_tool", "p__add"], Some(false)),
        ("cat", &["find_tools", "call_tool", "p__add"], Some(false)),
        ("dan", &["p__echo"], None),
        ("eve", &OWN, Some(true)),
        ("fay", &OWN, Some(false)),
    ] {
        for era in ["legacy", "modern"] {
            let client = http_client_of(person(true), &url, Some(&secret(name)), era).await;
            let tools = listed(&client).await;
            assert_eq!(names(&tools), expected, "{name} {era}");
            let own = tools.iter().find(|tool| tool["name"] == "call_tool");
            assert_eq!(own.map(|tool| tool["annotations"]["readOnlyHint"] == true), is_harmless, "{name} {era}");
            let called = call(&client, "p__echo", json!({"text": "x"})).await;
            assert_eq!(refused(&called), name == "fay", "{name} {era}: {called:?}");
            let searched = call(&client, "find_tools", json!({"query": "echo"})).await;
            assert!(name == "dan" || refused(&searched) == (name == "ann"), "{name} {era}: {searched:?}");
        }
    }
}

#[tokio::test]
async fn nobody_finds_what_it_may_not_call_though_the_name_is_right() {
    let (_folder, words, calls) = counting();
    let settings = "results: {p.echo: {labels: [seen]}}\ngateway: {list: search, tokens: [
        {principal: filtered, token: x1}, {principal: selected, token: x2, servers: {p: [echo]}},
        {principal: granted, token: x3, capabilities: ['tool:p/echo']},
        {principal: ruled, token: x4, servers: [p], rules: [{name: never, tools: [p.add], then: deny}]},
        {principal: tainted, token: x5, servers: [p],
         rules: [{name: late, tools: [p.add], when: '\"seen\" in labels', then: deny}]},
        {principal: limited, token: x6, servers: [p],
         rules: [{name: large, tools: [p.add], when: 'args.a > 5', then: deny}]}]}";
    for era in ["legacy", "modern"] {
        let config = config(settings, &[("p", &words, ""), ("hidden", "plain", ", deny: [add]")]);
        let (url, _stop) = serve_tokens(config).await;
        let before = calls("add");
        for name in ["filtered", "selected", "granted", "ruled", "tainted", "limited"] {
            let client = http_client_of(person(true), &url, Some(&secret(name)), era).await;
            let tool = if name == "filtered" { "hidden__add" } else { "p__add" };
            if ["tainted", "limited"].contains(&name) {
                assert_eq!(names(&find(&client, tool).await)[0], tool, "{era} {name}: it may still be called");
            }
            if name == "limited" {
                assert!(refused(&both(&client, tool, json!({"a": 9, "b": 2})).await), "{era}");
                assert_eq!(text(&both(&client, tool, json!({"a": 1, "b": 2})).await), "3", "{era}");
                continue;
            }
            both(&client, "p__echo", json!({"text": "x"})).await.unwrap();
            for query in [tool, &tool.replace("__", "."), "add", SUM, "echo add"] {
                let found = find(&client, query).await;
                assert!(!names(&found).contains(&tool), "{era} {name} {query}: {found:?}");
                assert!(name == "filtered" || !json!(found).to_string().contains("hidden"), "{era} {name}: {found:?}");
            }
            let shown = json!(listed(&client).await).to_string();
            assert_eq!(shown.contains("hidden"), name == "filtered", "{era} {name}: {shown}");
            assert!(refused(&both(&client, tool, json!({"a": 1, "b": 2})).await), "{era} {name}");
        }
        assert_eq!(calls("add") - before, 2, "{era}: only what the last one may call, both ways");
    }
}

fn refused(called: &Called) -> bool {
    called.as_ref().map_or(true, |called| called["isError"] == true)
}

/// The words of a fixture that keeps its calls in a file, and how often it was called under a name.
fn counting() -> (tempfile::TempDir, String, impl Fn(&str) -> usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls");
    let words = format!("counts {}", file.display());
    let text = move || std::fs::read_to_string(&file).unwrap_or_default();
    (folder, words, move |name| text().lines().filter(|line| *line == name).count())
}

#[tokio::test]
async fn a_person_is_asked_about_the_tool_that_call_tool_means() {
    let (_folder, words, calls) = counting();
    for (way, approves) in WAYS.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        let (person, before) = (person(approves), calls("echo"));
        let config = config(SEARCH, &[("p", &words, ", ask: [echo]")]);
        let (client, _gateway) = connect(&person, way, config, false).await;
        let answer = through(&client, "p__echo", json!({"text": "to be seen"})).await;
        let expected = if approves { "to be seen" } else { "but a person declined it" };
        assert!(text(&answer).contains(expected) && refused(&answer) != approves, "{way:?}: {answer:?}");
        assert_eq!(calls("echo") - before, usize::from(approves), "{way:?}");
        let asked = person.asked().concat();
        assert_eq!(asked.matches("to be seen").count(), 1, "{way:?}: {asked}");
        assert!(asked.contains("\"echo\" of the server \"p\""), "{way:?}: {asked}");
    }
}

#[tokio::test]
async fn calls_through_call_tool_are_counted_and_recorded_under_the_name_of_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("records");
    let settings = format!("{SEARCH}\nrecord: {{dir: {dir:?}}}");
    let config = config(&settings, &[("p", "plain", ", deny: [add]")]);
    let options = options(&config);
    let gateway = gateway_with(config, options);
    let ann = Principal { name: "ann".to_owned(), admin: false };
    let stateless = async |name: &str, arguments: Value| {
        let message = modern("tools/call", json!({"name": name, "arguments": arguments}));
        gateway.stateless_client(&ann, None).unwrap().handle(message).await.expect("an answer");
    };
    stateless("p__echo", json!({"text": "x"})).await;
    stateless("find_tools", json!({"query": "echo"})).await;
    let guest = Guest::open(&gateway, "ann", json!({})).await;
    for name in ["p__echo", "p__add"] {
        let arguments = json!({"name": name, "arguments": {"text": "x"}});
        stateless("call_tool", arguments.clone()).await;
        guest.ask("tools/call", json!({"name": "call_tool", "arguments": arguments})).await;
    }
    let figures = gateway.metrics(&Principal { admin: true, ..ann.clone() });
    for (tool, code, count) in [("echo", "ok", 3), ("add", "not-allowed", 2)] {
        let line = format!("{{server=\"p\",tool=\"{tool}\",code=\"{code}\",principal=\"ann\"}} {count}\n");
        assert!(figures.contains(&line) && !figures.contains("call_tool"), "{line}: {figures}");
    }
    let calls: Value = serde_json::from_str(&gateway.calls(&ann, &CallFilter::default(), None, 10).body).unwrap();
    assert_eq!((&calls["calls"][0]["tool"], &calls["calls"][2]["tool"]), (&json!("add"), &json!("echo")), "{calls}");
    assert!(gateway.registry().recorder().unwrap().flush(LONG));
    let tools: Vec<_> = records(&dir).iter().map(|record| record.tool().map(|tool| tool.tool.clone())).collect();
    let count = |name: &str| tools.iter().filter(|tool| tool.as_deref() == Some(name)).count();
    assert_eq!((tools.len(), count("echo"), count("add")), (6, 3, 2), "{tools:?}");
    let report = replay(&dir);
    assert_eq!((report.same, report.is_sound()), (6, true), "{report:?}");
    gateway.registry().close().await;
}

#[tokio::test]
async fn a_servers_own_tools_of_these_names_keep_their_prefix_and_win_if_it_is_exposed() {
    // The server is another gateway, whose clients search too.
    let (url, _stop) = serve_tokens(config(SEARCH, &[("one", "plain", "")])).await;
    let outer_with = |more: &str| parse(&format!("{SEARCH}\nservers: {{in: {{url: '{url}/mcp'{more}}}}}"));
    let outer = || outer_with("");
    let sum = json!({"name": "one__add", "arguments": {"a": 1, "b": 2}});
    for way in WAYS {
        let (client, _gateway) = connect(&person(true), way, outer(), false).await;
        assert_eq!(names(&listed(&client).await), OWN, "{way:?}");
        assert_eq!(names(&find(&client, "find tools").await)[0], "in__find_tools", "{way:?}");
        assert!(!names(&find(&client, "one__add").await).contains(&"one__add"), "{way:?}");
        let theirs = both(&client, "in__find_tools", json!({"query": SUM})).await.unwrap();
        assert_eq!(theirs["structuredContent"]["tools"][0]["name"], "one__add", "{way:?}");
        assert_eq!(text(&both(&client, "in__call_tool", sum.clone()).await), "3", "{way:?}");

        let (client, _gateway) = connect(&person(true), way, outer(), true).await;
        assert_eq!(names(&find(&client, "one__add").await)[0], "one__add", "{way:?}");
        assert_eq!(text(&call(&client, "call_tool", sum.clone()).await), "3", "{way:?}");
        // What is listed is what is called.
        let tools = listed(&client).await;
        assert_eq!(names(&tools), OWN, "{way:?}");
        assert!(tools[0].to_string().contains("2 tools of one"), "{way:?}: {tools:?}");

        // What the server may not be asked for is the gate's.
        let (client, _gateway) = connect(&person(true), way, outer_with(", deny: [call_tool]"), true).await;
        let theirs = through(&client, "find_tools", json!({"query": SUM})).await.unwrap();
        assert_eq!(theirs["structuredContent"]["tools"][0]["name"], "one__add", "{way:?}");
    }
}
