//! Names and where they lead.

use super::*;
use crate::naming::NameProblem;

fn tool(name: &str) -> Tool {
    Tool { name: name.to_owned(), ..Tool::default() }
}

fn catalog(servers: &[(&str, &[&str])]) -> Catalog {
    let mut catalog = Catalog::new(servers.iter().map(|(id, _)| *id), NamingStyle::DoubleUnderscore, false);
    for (id, tools) in servers {
        catalog.offer(id, tools.iter().map(|name| tool(name)).collect());
    }
    catalog
}

fn resolve(catalog: &Catalog, name: &str) -> Result<String, NameError> {
    catalog.find(name).map(|(tool, _)| format!("{}/{}", tool.server, tool.tool))
}

#[test]
fn every_form_leads_to_its_tool() {
    let catalog = catalog(&[("a", &["x", "b__c", "t.u"]), ("a__b", &["d"]), ("k8s-prod", &["get_pods"])]);
    for (name, expected) in [
        ("a.x", "a/x"),
        ("a__x", "a/x"),
        ("mcp__a__x", "a/x"),
        ("mcp_a_x", "a/x"),
        ("a.t.u", "a/t.u"),
        ("a__t.u", "a/t.u"),
        ("a.b__c", "a/b__c"),
        ("a__b__d", "a__b/d"),
        ("a__b.d", "a__b/d"),
        ("mcp_k8s-prod_get_pods", "k8s-prod/get_pods"),
    ] {
        assert_eq!(resolve(&catalog, name).as_deref(), Ok(expected), "{name}");
    }
}

#[test]
fn a_name_that_means_two_tools_is_an_error_that_lists_them() {
    let catalog = catalog(&[("a", &["b_c"]), ("a_b", &["c"])]);
    let error = resolve(&catalog, "mcp_a_b_c").unwrap_err();
    assert_eq!(error.problem, NameProblem::Ambiguous);
    assert!(error.message.ends_with("It could mean: a.b_c, a_b.c"), "{}", error.message);
}

#[test]
fn exposed_names_that_collide_are_told_apart() {
    let catalog = catalog(&[("a", &["b__c"]), ("a__b", &["c"])]);
    assert_eq!(resolve(&catalog, "a__b__c").unwrap_err().problem, NameProblem::Ambiguous);
    let tools = catalog.list(&NamingStyle::DoubleUnderscore);
    for exposed in tools {
        let expected = format!("{}/{}", exposed.tool.server, exposed.tool.tool);
        assert_eq!(resolve(&catalog, &exposed.name), Ok(expected));
    }
}

#[test]
fn a_name_shortened_for_a_provider_routes() {
    let long = "x".repeat(100);
    let catalog = catalog(&[("server", &[&long])]);
    let style = NamingStyle::Fitted(Audience { target: Target::Openai, prefix: String::new() });
    let tools = catalog.list(&style);
    assert!(tools[0].name.len() <= 64);
    assert_eq!(resolve(&catalog, &tools[0].name), Ok(format!("server/{long}")));
}

#[test]
fn errors_say_what_there_is() {
    let catalog = catalog(&[("a", &["x", "y"]), ("a_b", &["z"])]);
    for (name, expected) in [
        ("a.q", "tool \"q\" is not available on server \"a\". Available tools: x, y"),
        ("mcp__a__q", "tool \"q\" is not available on server \"a\". Available tools: x, y"),
        ("a_b__q", "tool \"q\" is not available on server \"a_b\". Available tools: z"),
        ("nobody.who", "MCP server \"nobody\" is not available for this execution. Available servers: a, a_b"),
        ("nobody__who", "MCP server \"nobody\" is not available for this execution. Available servers: a, a_b"),
        ("who", "invalid tool name \"who\": must be in 'server.tool' format (e.g., 'kubernetes-server.get_pods')"),
    ] {
        assert_eq!(resolve(&catalog, name).unwrap_err().message, expected, "{name}");
    }
}

#[test]
fn an_error_names_the_tool_that_was_probably_meant() {
    let catalog = catalog(&[("demo", &["add", "list_files", "echo"]), ("shop", &["charge"])]);
    for (name, meant) in [
        ("demo.ad", Some("demo.add")),
        ("demo__list-files", Some("demo.list_files")),
        ("Demo.Add", Some("demo.add")),
        ("dmo.echo", Some("demo.echo")),
        ("mcp__shp__charge", Some("shop.charge")),
        ("list files", Some("demo.list_files")),
        ("`demo.echo`", Some("demo.echo")),
        ("demo.nothing_like_it", None),
        ("x.y", None),
        ("nonsense", None),
    ] {
        let message = resolve(&catalog, name).unwrap_err().message;
        match meant {
            Some(meant) => assert!(message.ends_with(&format!("; did you mean {meant:?}?")), "{name}: {message}"),
            None => assert!(!message.contains("did you mean"), "{name}: {message}"),
        }
    }
    // What the caller may not use is not suggested.
    let error = catalog.resolve("shp.charge", &|server, _| server != "shop", &|server| server != "shop").unwrap_err();
    let NoRoute::Unknown(error) = error else { panic!("{error:?}") };
    assert!(!error.message.contains("charge\""), "{}", error.message);
}

#[test]
fn bare_names_route_where_they_are_unique_and_allowed_to() {
    let mut catalog = Catalog::new(["a", "b"], NamingStyle::Dot, true);
    catalog.offer("a", vec![tool("x"), tool("y")]);
    catalog.offer("b", vec![tool("y")]);
    assert_eq!(resolve(&catalog, "x").as_deref(), Ok("a/x"));
    assert_eq!(resolve(&catalog, "y").unwrap_err().problem, NameProblem::Ambiguous);
}

#[test]
fn what_is_hidden_is_not_named() {
    let catalog = catalog(&[("a", &["x", "secret"])]);
    let error = catalog.resolve("a.secret", &|_, tool| tool.name != "secret", &|_| true).unwrap_err();
    let NoRoute::Hidden(error, ..) = error else { panic!("{error:?}") };
    assert_eq!(error.message, "tool \"secret\" is not available on server \"a\". Available tools: x");
    let error = catalog.resolve("a.secret", &|_, _| false, &|_| false).unwrap_err();
    assert!(matches!(error, NoRoute::Unknown(_)), "nothing of a server that is not selected is known: {error:?}");
}

#[test]
fn a_hidden_tool_is_known_under_the_name_that_it_had_when_it_was_listed() {
    let long = "x".repeat(100);
    let style = NamingStyle::Fitted(Audience { target: Target::Openai, prefix: "my_".to_owned() });
    let mut catalog = Catalog::new(["server"], style.clone(), false);
    catalog.offer("server", vec![tool(&long), tool("other")]);
    let listed = catalog.list(&style).remove(0).name;
    assert!(listed.len() <= 64, "{listed}");
    let resolve = |is_selected: bool| catalog.resolve(&listed, &|_, tool| tool.name == "other", &|_| is_selected);
    let hidden = resolve(true).unwrap_err();
    assert!(matches!(&hidden, NoRoute::Hidden(_, _, entry) if entry.tool.name == long), "{hidden:?}");
}

#[test]
fn servers_that_have_offered_nothing_are_asked_for_by_name() {
    let mut catalog = Catalog::new(["a", "a_b", "k8s-prod"], NamingStyle::Dot, false);
    assert_eq!(catalog.contenders("a.x", &|_| true), ["a"]);
    assert_eq!(catalog.contenders("mcp_a_b_c", &|_| true), ["a", "a_b"]);
    assert_eq!(catalog.contenders("mcp_a_b_c", &|id| id == "a_b"), ["a_b"]);
    assert!(catalog.candidates("whatever.x", &|_| true).is_empty());
    assert_eq!(catalog.candidates("k8s_prod__x", &|_| true), ["k8s-prod"]);
    catalog.offer("a", vec![]);
    assert!(catalog.contenders("a.x", &|_| true).is_empty());
    let bare = Catalog::new(["a", "b"], NamingStyle::Dot, true);
    assert_eq!(bare.candidates("whatever", &|_| true), ["a", "b"]);
}

#[test]
fn an_offer_replaces_the_last_one_and_says_what_differs() {
    let mut catalog = catalog(&[("a", &["x", "y"])]);
    let described = Tool { description: Some("new".into()), ..tool("y") };
    let (changes, left_out) = catalog.offer("a", vec![described, tool("z"), tool("z"), tool("")]);
    let change = |tool: &str, change| ToolChange { tool: tool.into(), change };
    assert_eq!(changes, [change("y", Change::Description), change("z", Change::Added), change("x", Change::Removed)]);
    assert_eq!(left_out, [LeftOut::Duplicate("z".into()), LeftOut::Unusable(String::new())]);
    catalog.withdraw("a");
    catalog.withdraw("a");
    assert!(!catalog.has("a", "z"));
    let (changes, _) = catalog.offer("a", vec![tool("y"), tool("z")]);
    assert_eq!(changes, [change("y", Change::Description)], "compared with what was withdrawn");
}

#[test]
fn every_style_gives_names_that_lead_back_to_their_tools() {
    let styles = [
        (NamingStyle::Dot, ["a.x_y", "a_x.y", "k8s.get"]),
        (NamingStyle::DoubleUnderscore, ["a__x_y", "a_x__y", "k8s__get"]),
        (NamingStyle::McpPrefix, ["mcp__a__x_y", "mcp__a_x__y", "mcp__k8s__get"]),
    ];
    let offer = |style: NamingStyle| {
        let mut catalog = Catalog::new(["a", "a_x", "k8s"], style, false);
        for (server, tool) in [("a", "x_y"), ("a_x", "y"), ("k8s", "get")] {
            catalog.offer(server, vec![self::tool(tool)]);
        }
        catalog
    };
    for (style, expected) in styles {
        let names: Vec<_> = offer(style.clone()).list(&style).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, expected, "{style:?}");
    }
    // Two tools would have the same name, so both get a suffix, and each leads to its own tool.
    let catalog = offer(NamingStyle::McpUnderscore);
    let tools = catalog.list(&NamingStyle::McpUnderscore);
    assert!(tools[0].name.starts_with("mcp_a_x_y_") && tools[1].name.starts_with("mcp_a_x_y_"), "{tools:?}");
    assert_eq!(tools[2].name, "mcp_k8s_get");
    for tool in tools {
        let expected = format!("{}/{}", tool.tool.server, tool.tool.tool);
        assert_eq!(resolve(&catalog, &tool.name), Ok(expected));
    }
}
