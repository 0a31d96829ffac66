//! The gate's own tools: when they stand for others, what they find, and what they call.

use super::*;
use crate::rules::{AgentContext, Effect, Rule};
use crate::search::SearchSettings;

fn searching(above_tools: u32) -> Settings {
    let style = Some(NamingStyle::DoubleUnderscore);
    let search = SearchSettings { above_tools, above_tokens: 10_000, always: vec!["k8s.ge*".to_owned()], style };
    Settings { search: Some(search), ..settings() }
}

fn names(gate: &Gate) -> Vec<String> {
    gate.tools(&NamingStyle::DoubleUnderscore, None).into_iter().map(|tool| tool.name).collect()
}

/// Returns the names of the tools that a call of `find_tools` tells.
fn found(directive: Directive) -> Vec<String> {
    let told = result(directive).structured.expect("tools are told as structured content");
    let told = crate::json::parse(&told).unwrap();
    let tools = told.get("tools").and_then(|tools| tools.as_array()).unwrap();
    tools.iter().map(|tool| tool.get("name").and_then(|name| name.as_str()).unwrap().to_owned()).collect()
}

/// A gate whose servers have all listed their tools.
fn gate(settings: Settings) -> Gate {
    let gate = super::gate(settings);
    gate.offer("lazy", Vec::new());
    gate
}

#[test]
fn own_tools_stand_for_those_that_are_too_many() {
    let all = ["k8s__get", "k8s__set", "k8s__find"];
    assert_eq!(names(&gate(settings())), all);
    assert_eq!(names(&gate(searching(3))), all);
    assert_eq!(names(&gate(searching(2))), ["find_tools", "call_tool", "k8s__get"]);
    let mut few = searching(3);
    few.search.as_mut().unwrap().above_tokens = 10;
    assert_eq!(names(&gate(few)), ["find_tools", "call_tool", "k8s__get"]);
}

#[test]
fn call_tool_is_as_dangerous_as_the_worst_tool_behind_it() {
    let shown = |tools: Vec<Tool>| {
        let gate = Gate::new(searching(0)).unwrap();
        gate.offer("k8s", tools);
        let mut shown = gate.tools(&NamingStyle::DoubleUnderscore, None);
        let Annotations { read_only, destructive, .. } = shown.remove(1).annotations;
        (read_only, destructive)
    };
    assert_eq!(shown(vec![tool("a", true), tool("b", true)]), (Some(true), Some(false)));
    assert_eq!(shown(vec![tool("a", true), tool("b", false)]), (Some(false), Some(true)));
    let careful = Annotations { read_only: Some(false), destructive: Some(false), ..Annotations::default() };
    let careful = Tool { annotations: careful, ..tool("b", false) };
    assert_eq!(shown(vec![tool("a", true), careful]), (Some(false), Some(false)));
}

#[test]
fn tools_are_found_by_what_they_do_and_only_if_they_may_be_used() {
    let mut narrow = searching(0);
    narrow.policy.servers[0].rules.deny = vec!["find".to_owned()];
    let (said, directive) = play(&gate(narrow.clone()), call("find_tools", r#"{"query":"find"}"#), Vec::new());
    assert_eq!((said.as_str(), found(directive)), ("Ok", Vec::new()));
    let (said, directive) = play(&gate(searching(0)), call("find_tools", "find"), Vec::new());
    assert_eq!((said.as_str(), found(directive)), ("Ok", vec!["k8s__find".to_owned()]));
    let (said, directive) = play(&gate(searching(0)), call("find_tools", "{}"), Vec::new());
    assert_eq!(said, "InvalidArguments", "{directive:?}");
    // Without search, there is no such tool.
    let (said, _) = play(&gate(settings()), call("find_tools", "find"), vec![Event::Connected]);
    assert!(!said.contains("Ok"), "{said}");
}

#[test]
fn servers_that_have_not_listed_their_tools_are_connected_first() {
    let empty = Gate::new(searching(0)).unwrap();
    let (said, _) = play(&empty, call("find_tools", "get"), vec![failed(Failure::Timeout, Phase::NotSent)]);
    assert_eq!(said, "connect:k8s+lazy Ok");
    let (said, _) = play(&super::gate(searching(0)), call("find_tools", "get"), vec![Event::Connected]);
    assert_eq!(said, "connect:lazy Ok");
    let (said, _) = play(&gate(searching(0)), call("find_tools", "get"), Vec::new());
    assert_eq!(said, "Ok");
}

#[test]
fn tools_of_which_rules_refuse_every_call_are_not_found() {
    let mut ruled = searching(0);
    let rule = Rule {
        name: "quiet".to_owned(),
        tools: vec!["k8s.find".to_owned()],
        condition: Some("\"untrusted\" in labels".to_owned()),
        effect: Effect::Deny,
        limit: None,
        because: None,
    };
    ruled.rules.lists = vec![vec![rule]];
    let gate = gate(ruled);
    for (labels, expected) in [(Vec::new(), vec!["k8s__find".to_owned()]), (vec!["untrusted".to_owned()], Vec::new())] {
        let seen = Circumstances { context: AgentContext { labels, known: Vec::new() }, ..Circumstances::default() };
        let (said, directive) = play(&gate, call("find_tools", "find"), vec![Event::Circumstances(seen)]);
        assert_eq!((said.as_str(), found(directive)), ("circumstances Ok", expected));
    }
    // A host that does not know the circumstances is not asked for ever, and is told no tool.
    for (event, code) in [(failed(Failure::Timeout, Phase::NotSent), "Timeout"), (Event::Connected, "Internal")] {
        let (said, _) = play(&gate, call("find_tools", "find"), vec![event]);
        assert_eq!(said, format!("circumstances {code}"));
    }
}

#[test]
fn call_tool_decides_like_a_call_under_the_tools_own_name() {
    let gate = gate(searching(0));
    for (arguments, expected) in [
        (r#"{"name":"k8s__find","arguments":{"namespace":"a","limit":"3"}}"#, r#"{"namespace":"a","limit":3}"#),
        (r#"{"name":"k8s.find","arguments":"namespace: a"}"#, r#"{"namespace":"a"}"#),
        (r#"{"name":"k8s__find","namespace":"a"}"#, r#"{"namespace":"a"}"#),
        ("name: k8s__find\narguments:\n  namespace: a", r#"{"namespace":"a"}"#),
    ] {
        let (_, directive) = gate.begin(call("call_tool", arguments));
        let Directive::Request(request) = directive else { panic!("{arguments}: {directive:?}") };
        assert_eq!((request.tool.tool.as_str(), request.arguments.as_str()), ("find", expected));
    }
    for (arguments, code) in [
        (r#"{"name":"call_tool","arguments":{"name":"k8s__get"}}"#, "InvalidArguments"),
        (r#"{"arguments":{}}"#, "InvalidArguments"),
        (r#"{"name":"k8s__find","arguments":{}}"#, "InvalidArguments"),
    ] {
        let (said, directive) = play(&gate, call("call_tool", arguments), Vec::new());
        assert_eq!(said, code, "{arguments}: {directive:?}");
    }
    let mut narrow = searching(0);
    narrow.policy.servers[0].ask = vec!["set".to_owned()];
    narrow.policy.servers[0].rules.deny = vec!["get".to_owned()];
    let gate = self::gate(narrow);
    assert_eq!(play(&gate, call("call_tool", r#"{"name":"k8s__set"}"#), Vec::new()).0, "ask");
    assert_eq!(play(&gate, call("call_tool", r#"{"name":"k8s__get"}"#), Vec::new()).0, "NotAllowed");
}

#[test]
fn what_is_told_is_masked_and_fits() {
    let mut masked = searching(0);
    masked.masks.groups = vec!["basic".to_owned()];
    let described = |name: &str| Tool {
        description: Some("Fetches things with password=hunter2hunter2".to_owned()),
        ..tool(name, true)
    };
    let offering = |settings| {
        let gate = gate(settings);
        gate.offer("k8s", vec![described("fetch_one"), described("fetch_two")]);
        gate
    };
    let (_, directive) = play(&offering(masked.clone()), call("find_tools", "fetch things"), Vec::new());
    let text = result(directive).text;
    assert!(text.contains("[MASKED_PASSWORD]") && !text.contains("hunter2"), "{text}");
    masked.max_result_bytes = text.len() as u64 - 1;
    let (_, directive) = play(&offering(masked), call("find_tools", "fetch things"), Vec::new());
    assert_eq!(found(directive).len(), 1);
}

#[test]
fn under_their_own_names_a_servers_tools_come_before_the_gates() {
    let mut bare = searching(0);
    bare.search.as_mut().unwrap().style = None;
    bare.search.as_mut().unwrap().always = Vec::new();
    bare.bare_names = true;
    for (denied, listed, said) in [
        (Vec::new(), vec!["call_tool", "k8s__find_tools"], "request"),
        (vec!["find_tools".to_owned()], vec!["find_tools", "call_tool"], "Ok"),
    ] {
        bare.policy.servers[0].rules.deny = denied;
        let gate = gate(bare.clone());
        gate.offer("k8s", vec![tool("find_tools", true), tool("get", true)]);
        assert_eq!(names(&gate), listed);
        for (name, arguments) in
            [("find_tools", "get"), ("call_tool", r#"{"name":"find_tools","arguments":{"query":"get"}}"#)]
        {
            let (ended, directive) = play(&gate, call(name, arguments), Vec::new());
            assert!(ended.starts_with(said), "{name}: {ended} {directive:?}");
        }
    }
}
