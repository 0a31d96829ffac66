//! Rules, and whom they let through.

use super::*;

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn server(id: &str) -> ServerRules {
    ServerRules { id: id.to_owned(), ..ServerRules::default() }
}

fn policy(servers: &[&str]) -> Policy {
    Policy { servers: servers.iter().map(|id| server(id)).collect(), ..Policy::default() }
}

fn verdict(policy: &Policy, tool: &str, said: Annotations) -> Verdict {
    Access::new(policy).unwrap().verdict("a", tool, said)
}

const READ_ONLY: Annotations =
    Annotations { read_only: Some(true), destructive: None, idempotent: None, open_world: None };
const HARMLESS: Annotations =
    Annotations { read_only: None, destructive: Some(false), idempotent: None, open_world: None };

#[test]
fn lists_keep_and_deny_wins() {
    let tools = ["get_pods", "get_logs", "delete_pod", "Alpha"];
    let all = &tools[..];
    for (allow, deny, kept) in [
        (None, &[][..], all),
        (Some(&[][..]), &[], &[]),
        (Some(&["*"]), &[], all),
        (Some(&[" ANY "]), &[], &[]),
        (Some(&["", "*"]), &[], all),
        (Some(&["", "  "]), &[], &[]),
        (Some(&["get_*"]), &[], &["get_pods", "get_logs"]),
        (Some(&["alpha"]), &[], &["Alpha"]),
        (Some(&["*"]), &["delete_*"], &["get_pods", "get_logs", "Alpha"]),
        (None, &["any"], &[]),
        (None, &[" Any ", "x"], &[]),
        (Some(&[]), &["x"], &[]),
        (Some(&["get_pods"]), &["GET_PODS"], &[]),
        (None, &[" "], all),
    ] {
        let rules = Rules { allow: allow.map(strings), deny: strings(deny) };
        assert_eq!(filter(&rules, tools), kept, "{rules:?}");
    }
}

#[test]
fn a_selection_replaces_the_server_list() {
    let mut policy = policy(&["a", "b"]);
    policy.selection = Some(vec![SelectedServer { id: "b".into(), tools: vec![] }]);
    assert_eq!(verdict(&policy, "x", READ_ONLY), Verdict::Deny);
    policy.selection = Some(vec![SelectedServer { id: "a".into(), tools: strings(&["x"]) }]);
    assert_eq!(verdict(&policy, "x", READ_ONLY), Verdict::Allow);
    assert_eq!(verdict(&policy, "y", READ_ONLY), Verdict::Deny);
    policy.selection = Some(vec![SelectedServer { id: "c".into(), tools: vec![] }]);
    assert_eq!(Access::new(&policy).unwrap_err(), PolicyError::UnknownServer("c".into()));
    policy.selection = Some(vec![]);
    assert_eq!(Access::new(&policy).unwrap_err(), PolicyError::EmptySelection);
}

#[test]
fn a_tool_that_says_nothing_counts_as_destructive() {
    let none = Annotations::default();
    for (read_only, destructive, said, expected) in [
        (false, DestructivePolicy::Allow, none, Verdict::Allow),
        (false, DestructivePolicy::Ask, none, Verdict::Ask),
        (false, DestructivePolicy::Deny, none, Verdict::Deny),
        (false, DestructivePolicy::Deny, HARMLESS, Verdict::Allow),
        (false, DestructivePolicy::Deny, READ_ONLY, Verdict::Allow),
        (true, DestructivePolicy::Allow, HARMLESS, Verdict::Deny),
        (true, DestructivePolicy::Allow, READ_ONLY, Verdict::Allow),
    ] {
        let policy = Policy { read_only, destructive, ..policy(&["a"]) };
        assert_eq!(verdict(&policy, "x", said), expected, "{read_only} {destructive:?} {said:?}");
    }
}

#[test]
fn the_configuration_overrides_what_a_server_says() {
    let mut policy = Policy { read_only: true, ..policy(&["a"]) };
    policy.servers[0].tools = vec![ToolRules {
        tool: "x".into(),
        annotations: Annotations { read_only: Some(false), ..Annotations::default() },
        requires: vec![],
    }];
    assert_eq!(verdict(&policy, "x", READ_ONLY), Verdict::Deny);
    assert_eq!(verdict(&policy, "y", READ_ONLY), Verdict::Allow);
}

#[test]
fn grants_and_requirements_are_both_needed() {
    for (requires, capabilities, expected) in [
        (&[][..], None, Verdict::Allow),
        (&[], Some(&["mcp_integration"][..]), Verdict::Allow),
        (&[], Some(&["mcp_a"]), Verdict::Allow),
        (&[], Some(&["mcp_a_x"]), Verdict::Allow),
        (&[], Some(&["mcp_a_y"]), Verdict::Deny),
        (&[], Some(&["server:a"]), Verdict::Allow),
        (&[], Some(&["server:*"]), Verdict::Allow),
        (&[], Some(&["tool:a/x"]), Verdict::Allow),
        (&[], Some(&["tool:a/y", "server:b", "other"]), Verdict::Deny),
        (&[], Some(&[]), Verdict::Deny),
        (&["admin", "write"], Some(&["mcp_integration", "admin", "write"]), Verdict::Allow),
        (&["admin", "write"], Some(&["mcp_integration", "admin"]), Verdict::Deny),
        (&["admin", "write"], Some(&["admin", "write"]), Verdict::Deny),
        (&["admin"], None, Verdict::Allow),
    ] {
        let mut policy = policy(&["a", "b"]);
        policy.servers[0].requires = strings(requires);
        policy.capabilities = capabilities.map(strings);
        assert_eq!(verdict(&policy, "x", HARMLESS), expected, "{requires:?} {capabilities:?}");
    }
}

#[test]
fn the_requirements_of_a_tool_add_to_those_of_its_server() {
    let mut policy = policy(&["a"]);
    policy.servers[0].requires = strings(&["team"]);
    policy.servers[0].tools =
        vec![ToolRules { tool: "x".into(), requires: strings(&["admin"]), ..ToolRules::default() }];
    policy.capabilities = Some(strings(&["mcp_a", "team"]));
    assert_eq!(verdict(&policy, "x", HARMLESS), Verdict::Deny);
    assert_eq!(verdict(&policy, "y", HARMLESS), Verdict::Allow);
}

#[test]
fn what_is_said_of_a_tool_holds_however_its_name_is_cased() {
    let rules = |tool: &str, read_only: bool, requires: &[&str]| ToolRules {
        tool: tool.into(),
        annotations: Annotations { read_only: Some(read_only), ..Annotations::default() },
        requires: strings(requires),
    };
    let mut policy = policy(&["a"]);
    policy.capabilities = Some(strings(&["mcp_a"]));
    policy.servers[0].tools = vec![rules(" Delete_Pod ", true, &["admin"])];
    assert_eq!(verdict(&policy, "delete_pod", HARMLESS), Verdict::Deny);
    assert_eq!(verdict(&policy, "DELETE_POD", HARMLESS), Verdict::Deny);
    assert_eq!(verdict(&policy, "delete_pods", HARMLESS), Verdict::Allow);
    // Of two that differ in case alone, each says what its tool is, and both are needed.
    policy.servers[0].tools = vec![rules("get", true, &[]), rules("GET", false, &["admin"])];
    let access = Access::new(&policy).unwrap();
    let read_only = |tool: &str| access.annotations("a", tool, HARMLESS).read_only;
    assert_eq!([read_only("get"), read_only("GET"), read_only("Get")], [Some(true), Some(false), Some(true)]);
    assert_eq!(access.verdict("a", "get", HARMLESS), Verdict::Deny);
}

#[test]
fn what_an_ambiguous_grant_could_mean_can_be_written() {
    let mut policy = policy(&["integration", "b"]);
    policy.capabilities = Some(strings(&["mcp_integration"]));
    let PolicyError::AmbiguousGrant(ambiguous) = Access::new(&policy).unwrap_err() else { panic!("it is ambiguous") };
    let granted = ambiguous.meanings.iter().map(|meaning| {
        policy.capabilities = Some(vec![meaning.clone()]);
        let access = Access::new(&policy).expect("this is not ambiguous");
        ["integration", "b"].map(|server| access.verdict(server, "x", HARMLESS))
    });
    let granted: Vec<_> = granted.collect();
    assert_eq!(granted, [[Verdict::Allow, Verdict::Allow], [Verdict::Allow, Verdict::Deny]], "{ambiguous:?}");
}

#[test]
fn a_grant_that_names_two_things_is_an_error() {
    let mut policy = policy(&["a", "a_b"]);
    policy.capabilities = Some(strings(&["mcp_a_b"]));
    let mut access = Access::new(&policy).unwrap();
    assert_eq!(access.verdict("a_b", "x", HARMLESS), Verdict::Allow);
    let ambiguous = access.learn(|server, tool| (server, tool) == ("a", "b"));
    assert_eq!(ambiguous[0].meanings, ["server:a_b", "tool:a/b"]);
    assert_eq!(access.verdict("a_b", "x", HARMLESS), Verdict::Deny);
    policy.servers[0].tools = vec![ToolRules { tool: "b".into(), ..ToolRules::default() }];
    assert!(matches!(Access::new(&policy).unwrap_err(), PolicyError::AmbiguousGrant(_)));
}

#[test]
fn a_refusal_says_which_grant_is_ambiguous_or_how_to_grant_the_tool() {
    let mut policy = policy(&["a", "a_b", "c"]);
    policy.capabilities = Some(strings(&["mcp_a_b"]));
    let mut access = Access::new(&policy).unwrap();
    access.learn(|server, tool| (server, tool) == ("a", "b"));
    let ambiguous = "denied: capability \"mcp_a_b\" is ambiguous and grants nothing: server:a_b, tool:a/b";
    for (server, tool, expected) in [
        ("a_b", "x", ambiguous),
        ("a", "b", ambiguous),
        ("a", "x", "denied: no capability such as \"server:a\" or \"tool:a/x\""),
        ("c", "b", "denied: no capability such as \"server:c\" or \"tool:c/b\""),
    ] {
        let decision = access.decide(&ToolRef::new(server, tool), HARMLESS);
        assert_eq!((decision.verdict, decision.trace.last().unwrap().as_str()), (Verdict::Deny, expected));
    }
}

#[test]
fn a_server_is_known_if_it_is_configured_selected_or_not() {
    let mut policy = policy(&["a", "b"]);
    policy.selection = Some(vec![SelectedServer { id: "a".into(), tools: vec![] }]);
    let access = Access::new(&policy).unwrap();
    assert_eq!(["a", "b", "c", "A", ""].map(|server| access.knows(server)), [true, true, false, false, false]);
}

#[test]
fn a_tool_on_the_ask_list_needs_a_person() {
    let mut policy = policy(&["a"]);
    policy.servers[0].ask = strings(&["drop_*"]);
    let access = Access::new(&policy).unwrap();
    let decision = access.decide(&ToolRef::new("a", "drop_table"), READ_ONLY);
    assert_eq!(decision.verdict, Verdict::Ask);
    assert_eq!(decision.trace.last().unwrap(), "needs approval: matches `ask: drop_*`");
}

#[test]
fn any_keeps_back_every_tool_and_lets_none_through() {
    let mut policy = policy(&["a"]);
    policy.servers[0].ask = strings(&[" ANY "]);
    assert_eq!(verdict(&policy, "x", READ_ONLY), Verdict::Ask);
    policy.selection = Some(vec![SelectedServer { id: "a".into(), tools: strings(&["any"]) }]);
    assert_eq!(verdict(&policy, "x", READ_ONLY), Verdict::Deny);
    assert_eq!(verdict(&policy, "any", READ_ONLY), Verdict::Ask, "it is the name of a tool");
}

#[test]
fn ids_are_checked() {
    assert_eq!(Access::new(&policy(&["a.b"])).unwrap_err(), PolicyError::BadServerId("a.b".into()));
    assert_eq!(Access::new(&policy(&["a", "a"])).unwrap_err(), PolicyError::DuplicateServer("a".into()));
    assert!(Access::new(&policy(&[])).is_ok());
}

#[test]
fn what_a_server_has_beside_tools_is_for_who_may_use_the_server_as_a_whole() {
    for (selection, capabilities, requires, selected, admitted) in [
        (None, None, &[][..], true, true),
        (Some(("a", &[][..])), None, &[], true, true),
        (Some(("a", &["*"])), None, &[], true, true),
        (Some(("a", &["x", " Any "])), None, &[], true, false),
        (Some(("a", &[" "])), None, &[], true, false),
        (Some(("a", &["only"])), None, &[], true, false),
        (Some(("b", &[])), None, &[], false, false),
        (None, None, &["x"], true, true),
        (None, Some(&[][..]), &[], false, false),
        (None, Some(&["mcp_integration"]), &[], true, true),
        (None, Some(&["mcp_a"]), &[], true, true),
        (None, Some(&["server:a"]), &[], true, true),
        (None, Some(&["server:b"]), &[], false, false),
        (None, Some(&["tool:a/x"]), &[], true, false),
        (None, Some(&["mcp_a_x"]), &[], true, false),
        (None, Some(&["server:a"]), &["extra"], false, false),
        (None, Some(&["server:a", "extra"]), &["extra"], true, true),
        (Some(("a", &["only"])), Some(&["server:a"]), &[], true, false),
        (Some(("b", &[])), Some(&["server:a"]), &[], false, false),
    ] {
        let mut policy = policy(&["a", "b"]);
        policy.servers[0].requires = strings(requires);
        policy.selection =
            selection.map(|(id, tools)| vec![SelectedServer { id: id.to_owned(), tools: strings(tools) }]);
        policy.capabilities = capabilities.map(strings);
        let access = Access::new(&policy).unwrap();
        let said = (access.selects("a"), access.admits("a"));
        assert_eq!(said, (selected, admitted), "{selection:?} {capabilities:?} {requires:?}");
        assert!(!access.admits("unknown") && !access.selects("unknown"));
    }
}

#[test]
fn a_pattern_that_can_never_match_is_refused_wherever_it_stands() {
    let texts = |pattern: &str| vec!["get".to_owned(), pattern.to_owned()];
    for pattern in ["{delete,drop}_*", "[dD]elete*", "!x"] {
        let server = ServerRules { id: "a".into(), ..ServerRules::default() };
        let rules = [
            ServerRules { rules: Rules { allow: None, deny: texts(pattern) }, ..server.clone() },
            ServerRules { rules: Rules { allow: Some(texts(pattern)), deny: Vec::new() }, ..server.clone() },
            ServerRules { ask: texts(pattern), ..server.clone() },
        ];
        let selection = Some(vec![SelectedServer { id: "a".into(), tools: texts(pattern) }]);
        let selected = Policy { servers: vec![server], selection, ..Policy::default() };
        for policy in
            rules.map(|server| Policy { servers: vec![server], ..Policy::default() }).into_iter().chain([selected])
        {
            let error = Access::new(&policy).unwrap_err();
            assert!(matches!(&error, PolicyError::BadGlob(why) if why.contains(pattern)), "{error:?}");
        }
        // What cannot be refused keeps nothing.
        assert_eq!(filter(&Rules { allow: None, deny: texts(pattern) }, ["get", "delete_x", "x"]), [""; 0]);
    }
}
