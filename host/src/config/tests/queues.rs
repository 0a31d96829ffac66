use std::path::Path;
use std::time::Duration;

use super::super::model::{QueueRules, ReadinessRule};
use super::super::parse;
use super::complaints;
use super::entries::{check, native};

#[test]
fn queues_have_a_number_of_slots_or_more_to_say() {
    let text = "queues: {one: 1, Two-2: {slots: 10000, waiting: 0, timeout: 30s}, three_3: {}, four:}";
    let config = parse(text, Path::new("toolgate.yaml")).unwrap();
    let queue = |name: &str, slots, waiting, timeout| QueueRules { name: name.to_owned(), slots, waiting, timeout };
    let expected = [
        queue("one", Some(1), None, None),
        queue("Two-2", Some(10_000), Some(0), Some(Duration::from_secs(30))),
        queue("three_3", None, None, None),
        queue("four", None, None, None),
    ];
    assert_eq!(config.settings.queues, expected);
}

#[test]
fn a_server_names_queues_whether_or_not_they_are_described() {
    let text =
        "servers: {a: {command: x, queue: q, toolQueues: {'b*': r-1, a: q}, max_concurrent: 10000}, b: {command: y}}";
    let config = parse(text, Path::new("toolgate.yaml")).unwrap();
    assert_eq!(super::remarks(&config), "");
    let [a, b] = &config.servers[..] else { panic!("two servers") };
    let named = |tool: &str, queue: &str| (tool.to_owned(), queue.to_owned());
    assert_eq!(a.queue.as_deref(), Some("q"));
    assert_eq!(a.tool_queues, [named("b*", "r-1"), named("a", "q")]);
    assert_eq!(a.max_concurrent, Some(10_000));
    assert_eq!((&b.queue, &b.tool_queues, b.max_concurrent), (&None, &Vec::new(), None));
}

#[test]
fn readiness_is_that_of_all_or_any() {
    for (text, expected) in [
        ("version: 1", ReadinessRule::Any),
        ("readiness: any", ReadinessRule::Any),
        ("readiness: all", ReadinessRule::All),
    ] {
        assert_eq!(parse(text, Path::new("toolgate.yaml")).unwrap().settings.readiness, expected, "{text}");
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let rows = [
        (
            "{command: x, queue: a b}",
            "problem toolgate.yaml:2:26: servers.a.queue: the name \"a b\" of a queue must be letters, digits, `_` and `-`",
        ),
        ("{command: x, queue: [a]}", "problem toolgate.yaml:2:26: servers.a.queue: expected text, found a list"),
        (
            "{command: x, queues: a}",
            "problem toolgate.yaml:2:19: servers.a: unknown key \"queues\"; did you mean \"queue\"?",
        ),
        (
            "{command: x, tool_queues: {t: ''}}",
            "problem toolgate.yaml:2:36: servers.a.tool_queues.t: the name \"\" of a queue must be letters, digits, `_` and `-`",
        ),
        (
            "{command: x, tool_queues: [t]}",
            "problem toolgate.yaml:2:32: servers.a.tool_queues: expected a map, found a list",
        ),
        (
            "{command: x, max_concurrent: 0}",
            "problem toolgate.yaml:2:35: servers.a.max_concurrent: expected a whole number from 1 to 10000, found 0",
        ),
        (
            "{command: x, max_concurent: 1}",
            "problem toolgate.yaml:2:19: servers.a: unknown key \"max_concurent\"; did you mean \"max_concurrent\"?",
        ),
    ];
    check(rows, native);
    let rows = [
        ("queue: {}", "toolgate.yaml:1:1: unknown key \"queue\"; did you mean \"queues\"?"),
        ("queues: [a]", "toolgate.yaml:1:9: queues: expected a map, found a list"),
        ("queues: {a: 0}", "toolgate.yaml:1:13: queues.a: expected a whole number from 1 to 10000, found 0"),
        ("queues: {a: many}", "toolgate.yaml:1:13: queues.a: expected a whole number from 1 to 10000, found text"),
        ("queues: {a: [1]}", "toolgate.yaml:1:13: queues.a: expected a number of slots or a map, found a list"),
        (
            "queues: {'a.b': 1}",
            "toolgate.yaml:1:10: queues.a.b: the name \"a.b\" of a queue must be letters, digits, `_` and `-`",
        ),
        ("queues: {a: {slot: 1}}", "toolgate.yaml:1:14: queues.a: unknown key \"slot\"; did you mean \"slots\"?"),
        (
            "queues: {a: {slots: 10001}}",
            "toolgate.yaml:1:21: queues.a.slots: expected a whole number from 1 to 10000, found 10001",
        ),
        (
            "queues: {a: {waiting: -1}}",
            "toolgate.yaml:1:23: queues.a.waiting: expected a whole number from 0 to 1000000, found -1",
        ),
        (
            "queues: {a: {timeout: off}}",
            "toolgate.yaml:1:23: queues.a.timeout: this needs a limit; write a long one, such as \"1h\"",
        ),
        ("readiness: some", "toolgate.yaml:1:12: readiness: \"some\" is not one of: all, any"),
        ("rediness: all", "toolgate.yaml:1:1: unknown key \"rediness\"; did you mean \"readiness\"?"),
    ];
    check(rows, |text| complaints("toolgate.yaml", text));
}
