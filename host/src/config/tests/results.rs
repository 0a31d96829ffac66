use std::path::Path;
use std::time::Duration;

use super::super::model::{RecordRules, Settings, SpillSettings, SummarizerKind};
use super::super::parse;
use super::complaints;
use super::entries::check;

fn settings(text: &str) -> Settings {
    let config = parse(text, Path::new("toolgate.yaml")).unwrap_or_else(|error| panic!("{error}"));
    config.settings
}

#[test]
fn a_summarizer_is_a_program_or_an_endpoint() {
    let rows = [
        ("{command: [sum, -x, '${A}']}", "sum(command[0]) -x(command[1]) ${A}(command[2])"),
        ("{command: [sum, -x], args: [y]}", "sum(command[0]) -x(command[1]) y(args[0])"),
        ("{command: sum, args: [-x]}", "sum(command) -x(args[0])"),
        ("{command: sum}", "sum(command)"),
        ("{command: sum -x y}", "sum(command) -x(args[0]) y(args[1])"),
        ("{url: 'http://x', model: m}", "http://x(url) m(model)"),
        ("{url: 'http://x', model: m, apiKey: '${K}', command: }", "http://x(url) m(model) ${K}(api_key)"),
    ];
    for (section, expected) in rows {
        let summarizer = settings(&format!("summarizer: {section}")).summarizer.unwrap();
        let parts = match &summarizer.how {
            SummarizerKind::Command { program, args } => std::iter::once(program).chain(args).collect::<Vec<_>>(),
            SummarizerKind::Http { url, model, api_key } => [url, model].into_iter().chain(api_key).collect(),
        };
        let found: Vec<String> = parts.iter().map(|part| format!("{}({})", part.text, part.field)).collect();
        assert_eq!(found.join(" "), expected, "{section}");
        assert_eq!((summarizer.timeout, summarizer.max_input_bytes), (Duration::from_secs(30), 1024 * 1024));
        assert!(!format!("{summarizer:?}").contains("${"), "{summarizer:?}");
    }
    let summarizer = settings("summarizer: {command: x, timeout: 2m, max_input_bytes: 2KiB}").summarizer.unwrap();
    assert_eq!((summarizer.timeout, summarizer.max_input_bytes), (Duration::from_secs(120), 2048));
    assert_eq!(settings("summarizer:").summarizer, None);
    assert_eq!(settings("summarize_above_tokens: 1").summarize_above_tokens, 1);
    assert_eq!(
        complaints("toolgate.yaml", "summarizer: {command: sum -x}"),
        "notice toolgate.yaml:1:23: summarizer: command is split into a program and 1 arguments; write them under `args` instead"
    );
}

#[test]
fn results_are_kept_where_the_file_says_so() {
    for (text, expected) in [
        ("version: 1", None),
        ("spill:", None),
        ("spill: false", None),
        ("spill: true", Some(SpillSettings::default())),
        ("spill: {}", Some(SpillSettings::default())),
        (
            "spill: {max_bytes: 1GiB, max_age: 1h}",
            Some(SpillSettings { dir: None, max_bytes: 1 << 30, max_age: Duration::from_secs(3600) }),
        ),
    ] {
        assert_eq!(settings(text).spill, expected, "{text}");
    }
    for (text, expected) in [
        ("record: false", None),
        ("record: true", Some(RecordRules::default())),
        ("record: {}", Some(RecordRules::default())),
        (
            "record: {max_segment: 1MiB, max_total: 8MiB, max_age: 2h, raw: true}",
            Some(RecordRules {
                dir: None,
                max_segment: 1 << 20,
                max_total: 8 << 20,
                max_age: Duration::from_secs(7200),
                raw: true,
            }),
        ),
    ] {
        assert_eq!(settings(text).record, expected, "{text}");
    }
    let dir = settings("spill: {folder: ./long}").spill.unwrap().dir.unwrap();
    assert_eq!((dir.text.as_str(), dir.field.as_str()), ("./long", "dir"));
}

#[test]
fn what_does_not_fit_is_said() {
    let rows = [
        (
            "summarizer: {}",
            "toolgate.yaml:1:13: summarizer: needs a `command` to run, or the `url` of an endpoint and a `model`",
        ),
        (
            "summarizer: {command: []}",
            "toolgate.yaml:1:13: summarizer: needs a `command` to run, or the `url` of an endpoint and a `model`",
        ),
        (
            "summarizer: {command: x, url: 'http://x', model: m}",
            "toolgate.yaml:1:13: summarizer: both command and url are given; keep one of them",
        ),
        ("summarizer: {url: 'http://x'}", "toolgate.yaml:1:13: summarizer: url needs a `model`"),
        ("summarizer: {command: x, model: m}", "toolgate.yaml:1:13: summarizer: `model` is only for `url`; remove it"),
        (
            "summarizer: {command: x, api_key: s3cret}",
            "toolgate.yaml:1:13: summarizer: `api_key` is only for `url`; remove it",
        ),
        (
            "summarizer: {url: 'http://x', model: m, args: [a]}",
            "toolgate.yaml:1:13: summarizer: `args` is only for `command`; remove it",
        ),
        ("summarizer: true", "toolgate.yaml:1:13: summarizer: expected a map, found true or false"),
        (
            "summarizer: {comand: x}",
            "toolgate.yaml:1:14: summarizer: unknown key \"comand\"; did you mean \"command\"?",
        ),
        ("summarizer: {command: {a: b}}", "toolgate.yaml:1:23: summarizer.command: expected text, found a map"),
        ("summarizer: {command: [x, [y]]}", "toolgate.yaml:1:27: summarizer.command[1]: expected text, found a list"),
        ("summarizer: {command: x, timeout: 0}", "toolgate.yaml:1:35: summarizer.timeout: must be longer than 0"),
        (
            "summarizer: {command: x, max_input_bytes: 9}",
            "toolgate.yaml:1:43: summarizer.max_input_bytes: expected at least 1KiB; less needs no summary",
        ),
        ("sumarizer: {}", "toolgate.yaml:1:1: unknown key \"sumarizer\"; did you mean \"summarizer\"?"),
        (
            "summarize_above_tokens: 0",
            "toolgate.yaml:1:25: summarize_above_tokens: expected a whole number from 1 to 1000000000, found 0",
        ),
        ("spill: 5", "toolgate.yaml:1:8: spill: expected a map, found a number"),
        ("spill: {dirr: x}", "toolgate.yaml:1:9: spill: unknown key \"dirr\"; did you mean \"dir\"?"),
        (
            "spill: {max_bytes: 0}",
            "toolgate.yaml:1:20: spill.max_bytes: expected at least 1KiB; to keep no files, leave `spill` out",
        ),
        (
            "spill: {max_age: off}",
            "toolgate.yaml:1:18: spill.max_age: this needs a limit; write a long one, such as \"30d\"",
        ),
        ("record: 5", "toolgate.yaml:1:9: record: expected a map, found a number"),
        ("record: {dri: x}", "toolgate.yaml:1:10: record: unknown key \"dri\"; did you mean \"dir\"?"),
        (
            "record: {max_segment: 1KiB}",
            "toolgate.yaml:1:23: record.max_segment: expected at least 64KiB, so that a file holds more than a few calls",
        ),
        (
            "record: {max_total: 1MiB}",
            "toolgate.yaml:1:21: record.max_total: expected at least 4MiB, since the component is kept there too; to \
             record nothing, leave `record` out",
        ),
        (
            "record: {max_age: 0}",
            "toolgate.yaml:1:19: record.max_age: must be longer than 0; to record nothing, leave `record` out",
        ),
        ("record: {raw: x}", "toolgate.yaml:1:15: record.raw: expected true or false, found text"),
        ("spill: {dir: [a]}", "toolgate.yaml:1:14: spill.dir: expected text, found a list"),
        // Errors after the section still have the right path.
        ("spill: {max_age: 1h}\nretry: x", "toolgate.yaml:2:8: retry: \"x\" is not one of: safe, always, never"),
    ];
    check(rows, |text| complaints("toolgate.yaml", text));
}
