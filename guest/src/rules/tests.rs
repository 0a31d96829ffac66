//! Tests of rules: which one decides, what a failing condition means, and what an agent knows.

use super::*;

fn rule(name: &str, tools: &[&str], condition: &str, effect: Effect) -> Rule {
    Rule {
        name: name.to_owned(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        condition: (!condition.is_empty()).then(|| condition.to_owned()),
        effect,
        limit: None,
        because: None,
    }
}

fn set(rules: &[Rule]) -> RuleSet {
    RuleSet { lists: vec![rules.to_vec()], ..RuleSet::default() }
}

/// Judges a call of `mail.send` with these arguments; returns whether it is denied, and the name of the rule.
fn judged(rules: &[Rule], arguments: &str, seen: &Circumstances) -> Option<(bool, String)> {
    judged_by(&RuleSet { known: vec!["@example.com".to_owned()], ..set(rules) }, arguments, seen)
}

fn judged_by(set: &RuleSet, arguments: &str, seen: &Circumstances) -> Option<(bool, String)> {
    let rules = CompiledRules::new(set).unwrap();
    let arguments = json::parse(arguments).unwrap();
    let annotations = Annotations::default();
    let subject = Subject { server: "mail", tool: "send", annotations, arguments: Some(&arguments), schema: None };
    let concerns = rules.concerns("mail", "send");
    let judgement = rules.judge(&concerns, subject, seen, &mut Vec::new());
    judgement.ruling.map(|ruling| (ruling.denies, rules.rule(ruling.rule).name.clone()))
}

#[test]
fn deny_beats_ask_and_allow_ends_the_search() {
    let [ask, deny, allow] = [("ask", Effect::Ask), ("deny", Effect::Deny), ("allow", Effect::Allow)]
        .map(|(name, effect)| rule(name, &["mail.*"], "", effect));
    let seen = Circumstances::default();
    let decided = |rules: &[Rule]| judged(rules, "{}", &seen).map(|(_, name)| name);
    assert_eq!(decided(&[ask.clone(), deny.clone()]).as_deref(), Some("deny"));
    assert_eq!(decided(&[ask.clone(), allow.clone(), deny.clone()]).as_deref(), Some("ask"));
    assert_eq!(decided(&[allow, ask, deny]), None);
    assert_eq!(decided(&[rule("other", &["files.*"], "", Effect::Deny)]), None);
}

#[test]
fn a_rule_that_allows_ends_its_own_list_only() {
    let [deny, allow] =
        [("deny", Effect::Deny), ("allow", Effect::Allow)].map(|(name, effect)| rule(name, &["mail.*"], "", effect));
    let lists = RuleSet { lists: vec![vec![allow], vec![deny]], ..RuleSet::default() };
    assert_eq!(judged_by(&lists, "{}", &Circumstances::default()), Some((true, "deny".to_owned())));
}

#[test]
fn a_condition_that_fails_restricts_and_never_allows() {
    let seen = Circumstances::default();
    let twice = [rule("deny", &["mail.send"], "args.to == \"y\"", Effect::Deny)];
    assert_eq!(judged(&twice, r#"{"to":"x","To":"y"}"#, &seen), Some((true, "deny".to_owned())));
    assert_eq!(judged(&twice, r#"{"to":"x","cc":"y"}"#, &seen), None);
    for condition in [
        "args.missing == 1",
        "client == \"x\"",
        "path.within(args.to, \"/srv\")",
        "args.to + 1 == 2",
        "args.to",
        "now > timestamp(0)",
    ] {
        let deny = rule("deny", &["mail.send"], condition, Effect::Deny);
        let allow = rule("allow", &["mail.send"], condition, Effect::Allow);
        let expected = Some((true, "deny".to_owned()));
        assert_eq!(judged(std::slice::from_ref(&deny), r#"{"to":"x"}"#, &seen), expected, "{condition}");
        assert_eq!(judged(&[allow, deny], r#"{"to":"x"}"#, &seen), expected, "{condition}");
    }
}

#[test]
fn a_listed_url_covers_what_is_below_it_only_if_it_ends_in_a_slash() {
    let asks = [rule("strangers", &["mail.send"], "!known(urls(args))", Effect::Ask)];
    for (listed, url, is_known) in [
        ("https://a.ch/docs/", "https://a.ch/docs/x?y", true),
        ("https://a.ch/docs/", "https://a.ch/doc", false),
        ("https://a.ch", "https://a.ch/forms/evil", false),
        ("https://a.ch", "https://a.ch", true),
        ("a.ch", "https://a.ch/x", false),
        ("https://a.ch/?q=/", "https://a.ch/?q=/x", false),
        ("https://a.ch/", "https://a.ch@evil.ch/", false),
        ("https://a.ch/", "https:/evil.ch/", false),
    ] {
        let known = RuleSet { known: vec![listed.to_owned()], ..set(&asks) };
        let asked = judged_by(&known, &format!(r#"{{"url":"{url}"}}"#), &Circumstances::default());
        assert_eq!(asked.is_none(), is_known, "{listed} {url}");
    }
    // A key can carry an address too.
    let keyed = judged(&asks, r#"{"headers":{"https://evil.ch/x":null}}"#, &Circumstances::default());
    assert!(keyed.is_some());
}

#[test]
fn values_are_known_from_the_list_and_from_what_was_learned() {
    let asks = [rule("strangers", &["mail.send"], "!known(args.to)", Effect::Ask)];
    let learned: Vec<KnownValue> = values::learned(&Value::String("Bob <bob@elsewhere.example>".into()));
    let seen =
        Circumstances { context: AgentContext { labels: Vec::new(), known: learned }, ..Circumstances::default() };
    for (to, is_known) in [
        ("\"ann@example.com\"", true),
        ("\"Ann@EXAMPLE.com\"", true),
        ("\"ann@sub.example.com\"", false),
        ("\"ann@evil.example\"", false),
        ("\"bob@elsewhere.example\"", true),
        ("[\"bob@elsewhere.example\", \"ann@example.com\"]", true),
        ("[\"bob@elsewhere.example\", \"eve@evil.example\"]", false),
        ("\"bob@elsewhere.example eve@evil.example\"", false),
        ("[]", true),
        ("[[]]", true),
        ("null", false),
        ("[null]", false),
        ("true", false),
        ("false", false),
        ("{}", false),
        ("\"\"", false),
        ("\" \\u200b\"", false),
        ("{\"eve\":\"ann@example.com\"}", false),
        ("{\"eve\":[]}", false),
        ("{\"ann@example.com\":\"ann@example.com\"}", true),
        ("\"eve%evil.tk@example.com\"", false),
        ("\"evil.tk!eve@example.com\"", false),
        ("\"@evil.tk:ann@example.com\"", false),
    ] {
        let asked = judged(&asks, &format!(r#"{{"to":{to}}}"#), &seen);
        assert_eq!(asked.is_none(), is_known, "{to}");
    }
}

#[test]
fn a_number_is_known_to_the_last_digit() {
    let asks = [rule("strangers", &["mail.send"], "!known(args.to)", Effect::Ask)];
    let known = ["9300000000000000001", "5", "0.1"].map(str::to_owned).to_vec();
    let set = RuleSet { known, ..set(&asks) };
    for (to, is_known) in [
        ("9300000000000000001", true),
        ("9300000000000000999", false),
        ("9.300000000000000001e18", true),
        ("5.0", true),
        ("5.00000000000000000001", false),
        ("0.1", true),
        ("0.1000000000000000055", false),
        ("\"5\"", true),
    ] {
        let asked = judged_by(&set, &format!(r#"{{"to":{to}}}"#), &Circumstances::default());
        assert_eq!(asked.is_none(), is_known, "{to}");
    }
}

#[test]
fn names_of_members_are_the_tools_own_or_must_be_known() {
    let set = RuleSet {
        known: vec!["@example.com".to_owned()],
        ..set(&[rule("strangers", &["mail.send"], "!known(args)", Effect::Ask)])
    };
    let rules = CompiledRules::new(&set).unwrap();
    let schema = json::parse(
        r#"{"properties":{"to":{"items":{"properties":{"mail":{"type":"string"}}}}},"$defs":{"a":{"properties":{"b":{}}}}}"#,
    )
    .unwrap();
    for (arguments, schema, is_known) in [
        (r#"{"to":[{"mail":"ann@example.com"}]}"#, Some(&schema), true),
        (r#"{"to":{"b":"ann@example.com"}}"#, Some(&schema), true),
        (r#"{"to":{"eve":"ann@example.com"}}"#, Some(&schema), false),
        (r#"{"eve":"ann@example.com"}"#, Some(&schema), false),
        (r#"{"to":[{"mail":"ann@example.com"}]}"#, None, false),
        (r#"{"to":"ann@example.com"}"#, None, true),
        (r#"{"eve@evil.example":"ann@example.com"}"#, None, false),
        (r#"{"12345678":"ann@example.com"}"#, None, false),
    ] {
        let arguments = json::parse(arguments).unwrap();
        let annotations = Annotations::default();
        let subject = Subject { server: "mail", tool: "send", annotations, arguments: Some(&arguments), schema };
        let concerns = rules.concerns("mail", "send");
        let judgement = rules.judge(&concerns, subject, &Circumstances::default(), &mut Vec::new());
        assert_eq!(judgement.ruling.is_none(), is_known, "{}", arguments.to_json());
    }
}

#[test]
fn a_number_is_no_host_and_a_text_of_digits_may_be_one() {
    let asks = rule("asks", &["mail.send"], "!known(urls(args))", Effect::Ask);
    for (arguments, is_asked) in [
        (r#"{"since":1763000000,"scale":10.1,"list":[3232235777]}"#, false),
        (r#"{"host":"3232235777"}"#, true),
        (r#"{"list":[["10.1"]]}"#, true),
        (r#"{"headers":{"evil.gg":1}}"#, true),
    ] {
        let asked = judged(std::slice::from_ref(&asks), arguments, &Circumstances::default());
        assert_eq!(asked.is_some(), is_asked, "{arguments}");
    }
}

#[test]
fn a_name_that_some_server_takes_for_another_makes_a_condition_fail() {
    let seen = Circumstances::default();
    for (condition, arguments, is_denied) in [
        ("args.to == 'y'", r#"{"to":"x","To":"y"}"#, true),
        ("args.to == 'y'", r#"{"to":"x","cc":"y","CC":"z"}"#, false),
        ("args.to == 'y'", r#"{"to":"x","TO":"x","tO":"y"}"#, true),
        ("has(args.path) && args.path == 'y'", r#"{"Path":"y"}"#, true),
        ("has(args.path) && args.path == 'y'", r#"{"to":"y"}"#, false),
        ("has(args.file_path)", r#"{"filePath":"y"}"#, true),
        ("has(args.size)", r#"{"\u017fize":"y"}"#, true),
        ("has(args.strasse)", r#"{"straße":"y"}"#, true),
        ("has(args.kind)", r#"{"\u212aind":"y"}"#, true),
        ("has(args.path)", r#"{"pa\u200bth":"y"}"#, true),
        ("has(args.path)", r#"{"ＰＡＴＨ":"y"}"#, true),
        ("args.a.b.c == 'y'", r#"{"a":{"b":{"c":"x","C":"y"}}}"#, true),
        ("args.a.b.c == 'y'", r#"{"a":{"b":{"c":"x"},"B":{"c":"y"}}}"#, true),
        ("args.a.b.c == 'y'", r#"{"a":{"b":{"c":"x"},"x":{"c":"y","C":"y"}}}"#, false),
        ("args['to'] == 'y'", r#"{"to":"x","To":"y"}"#, true),
        ("args['t' + 'o'] == 'y'", r#"{"to":"x","To":"y"}"#, true),
        ("'to' in args && args.cc == 'y'", r#"{"To":"x","cc":"y"}"#, true),
        ("args.to.exists(a, a.mail == 'y')", r#"{"to":[{"mail":"x","Mail":"y"}]}"#, true),
        ("args.to.exists(key, key == 'y')", r#"{"to":{"x":1,"X":2}}"#, true),
        ("args.to.exists(key, key == 'y')", r#"{"to":{"x":1,"z":2}}"#, false),
        // All names and values are read.
        ("known(emails(args)) && false", r#"{"to":"x","To":"y"}"#, false),
    ] {
        let deny = rule("deny", &["mail.send"], condition, Effect::Deny);
        assert_eq!(judged(&[deny], arguments, &seen).is_some(), is_denied, "{condition} {arguments}");
    }
    let allow = rule("allow", &["mail.send"], "!has(args.path)", Effect::Allow);
    let deny = rule("deny", &["mail.send"], "", Effect::Deny);
    assert!(judged(&[allow, deny], r#"{"Path":"y"}"#, &seen).is_some());
}

#[test]
fn tools_that_no_rule_could_be_for_are_refused() {
    let wrong = |tools: &[&str]| check_tools(&set(&[rule("r", tools, "", Effect::Deny)]));
    for tools in
        [&["send"][..], &["mail.send", "se*"], &["mail.{send,forward}"], &["!mail.send"], &["mail.[s]end"], &[""], &[]]
    {
        let error = wrong(tools).expect_err(&format!("{tools:?}"));
        assert_eq!((&*error.rule, error.at), ("r", 0));
    }
    for tools in [&["mail.send"][..], &["*"], &["*send"], &["*.send", "mail.*"], &["any"], &[" mail.send "]] {
        assert_eq!(wrong(tools), Ok(()), "{tools:?}");
    }
    let entry = ResultRule { tools: "read".into(), labels: Vec::new(), trusted: true, trusted_fields: Vec::new() };
    let error = check_tools(&RuleSet { results: vec![entry], ..RuleSet::default() }).unwrap_err();
    assert_eq!(error.message, "\"read\" is not of the form server.tool, such as files.read_*");
}

#[test]
fn a_list_of_tools_says_what_depends_on_arguments() {
    let rules = |condition: &str, effect| {
        let set = set(&[rule("r", &["mail.send"], condition, effect)]);
        let annotations = Annotations::default();
        let subject = Subject { server: "mail", tool: "send", annotations, arguments: None, schema: None };
        let seen = Circumstances {
            context: AgentContext { labels: vec!["private".to_owned()], known: Vec::new() },
            ..Circumstances::default()
        };
        let rules = CompiledRules::new(&set).unwrap();
        let judgement = rules.judge(&rules.concerns("mail", "send"), subject, &seen, &mut Vec::new());
        (judgement.ruling.is_some(), !judgement.depends.is_empty())
    };
    assert_eq!(rules("\"private\" in labels", Effect::Deny), (true, false));
    assert_eq!(rules("\"private\" in labels && args.to == \"x\"", Effect::Deny), (false, true));
    assert_eq!(rules("\"untrusted\" in labels && args.to == \"x\"", Effect::Deny), (false, false));
}

#[test]
fn the_closest_entry_says_what_is_trusted_and_the_labels_of_all_add_up() {
    let entry = |tools: &str, label: &str, trusted: bool| ResultRule {
        tools: tools.to_owned(),
        labels: vec![label.to_owned(), "all".to_owned()],
        trusted,
        trusted_fields: Vec::new(),
    };
    let results = vec![
        entry("mail.read", "name", true),
        entry("*", "everything", true),
        entry("mail.read*", "reads", false),
        entry("mail.*", "server", true),
    ];
    let asks = rule("asks", &["mail.send"], "!known(args.to)", Effect::Ask);
    let rules = CompiledRules::new(&RuleSet { results, ..set(&[asks]) }).unwrap();
    let arguments = json::parse("{}").unwrap();
    for (server, tool, labels, is_trusted) in [
        ("mail", "read", "name all everything reads server", true),
        ("mail", "read_all", "everything all reads server", false),
        ("mail", "list", "everything all server", true),
        ("web", "get", "everything all", true),
    ] {
        let annotations = Annotations { read_only: Some(true), ..Annotations::default() };
        let subject = Subject { server, tool, annotations, arguments: Some(&arguments), schema: None };
        let concerns = rules.concern(server, tool).unwrap();
        let lesson = rules.lesson(&concerns, subject, &Circumstances::default(), &mut Judgement::default());
        assert_eq!((lesson.labels().join(" "), lesson.reads_result()), (labels.to_owned(), is_trusted), "{tool}");
    }
}

#[test]
fn a_mistake_in_a_condition_names_its_rule_and_place() {
    let wrong = |condition: &str| {
        let error = CompiledRules::new(&set(&[rule("typo", &["a.b"], condition, Effect::Deny)])).unwrap_err();
        assert_eq!(error.rule, "typo");
        (error.at, error.message)
    };
    assert_eq!(wrong("arg.x == 1").0, 0);
    for (condition, at, message) in [
        (
            "has(tool.annotations.destructve)",
            0,
            "tool.annotations has no member \"destructve\"; did you mean \"destructive\"?",
        ),
        ("true || principal.group == 'x'", 8, "principal has no member \"group\"; did you mean \"groups\"?"),
        ("tool['title'] == 'x'", 0, "tool has no member \"title\""),
    ] {
        let (found, told) = wrong(condition);
        assert_eq!(told, message);
        assert!(found >= at, "{condition}: {found}");
    }
    for condition in ["tool.name == 'x'", "principal.groups.exists(tool, tool.nam == 'x')", "args.tool.nam == 1"] {
        assert!(CompiledRules::new(&set(&[rule("right", &["a.b"], condition, Effect::Deny)])).is_ok(), "{condition}");
    }
}
