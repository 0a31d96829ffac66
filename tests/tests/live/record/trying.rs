//! Tests recorded calls on another configuration or component: what would be decided differently, and for whom.

use std::path::Path;
use std::sync::Arc;

use toolgate::config;
use toolgate::gate::{Gate, GateView};
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::record::difference::DifferenceKind;
use toolgate::record::{BacktestReport, Candidate, RecordFilter};

use crate::fixtures::faulty;

use super::{Stage, another_component, backtest, call};

const SERVERS: &str = "servers:\n  one: {command: none}\n  two: {command: none}\n";

/// What the usual calls, recorded with the first settings, come to with this configuration.
async fn tried(recorded: &str, candidate: &str) -> BacktestReport {
    tried_by(recorded, GateView::default(), candidate, RecordFilter::default()).await
}

async fn tried_by(recorded: &str, view: GateView, candidate: &str, wanted: RecordFilter) -> BacktestReport {
    let stage = Stage::new(recorded, view);
    stage.calls().await;
    tried_on(&stage, candidate, wanted)
}

/// What the calls of this stage come to with this configuration.
fn tried_on(stage: &Stage, candidate: &str, wanted: RecordFilter) -> BacktestReport {
    let config = config::parse(candidate, Path::new("toolgate.yaml")).expect("the test's configuration is right");
    let mut test = backtest(&stage.written(), Candidate { component: None, config: Some(Arc::new(config)) });
    test.filter = wanted;
    let report = test.run(&|_| {}).expect("there are records");
    assert!(report.is_sound(), "{report:?}");
    report
}

/// How many calls differ in which way, reasons aside.
fn counts(report: &BacktestReport) -> String {
    let kinds = DifferenceKind::ALL.iter().map(|(kind, name, _)| (name, report.of_kind(*kind)));
    kinds
        .filter(|(name, count)| *count > 0 && **name != "trace")
        .map(|(name, count)| format!("{name} {count}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[tokio::test]
async fn each_change_of_a_policy_shows_as_what_it_is() {
    let rows: [(&str, String, &str); 12] = [
        ("", SERVERS.to_owned(), ""),
        ("", "servers: {one: {command: none, deny: [add]}, two: {command: none}}".to_owned(), "denied 2"),
        ("", "servers: {one: {command: none}}".to_owned(), "denied 1"),
        ("", "servers: {one: {command: none}, two: {command: none, enabled: false}}".to_owned(), "denied 1"),
        ("", format!("read_only: true\n{SERVERS}"), "denied 1"),
        ("", "servers: {one: {command: none, ask: [echo]}, two: {command: none}}".to_owned(), "asked 1"),
        ("destructive: deny", SERVERS.to_owned(), ""),
        ("", format!("check_arguments: false\n{SERVERS}"), "arguments 1"),
        ("", format!("masking: {{groups: [all]}}\n{SERVERS}"), "unread 4"),
        ("", format!("retry: never\n{SERVERS}"), ""),
        ("", format!("names: dot\n{SERVERS}"), ""),
        ("record: {raw: true}", format!("masking: {{custom: [{{pattern: hello}}]}}\n{SERVERS}"), "masking 1"),
    ];
    for (recorded, candidate, expected) in rows {
        let report = tried(recorded, &candidate).await;
        assert_eq!(counts(&report), expected, "{recorded} → {candidate}: {report:?}");
    }
}

#[tokio::test]
async fn another_limit_cuts_results_elsewhere_and_masks_nothing() {
    let masks = "masking: {custom: [{pattern: 'w1 w2'}]}";
    for (recorded, candidate, expected) in [
        ("max_result_bytes: 2000", "max_result_bytes: 500", "result 1"),
        ("max_result_bytes: 2000\nrecord: {raw: true}", "max_result_bytes: 500", "result 1"),
        (&format!("max_result_bytes: 2000\n{masks}"), &format!("max_result_bytes: 500\n{masks}"), "result 1"),
        ("max_result_bytes: 2000", &format!("max_result_bytes: 2000\n{masks}"), "masking 1"),
        ("max_result_bytes: 2000", &format!("max_result_bytes: 500\n{masks}"), "masking 1"),
        ("max_result_bytes: 2000", "max_result_bytes: 2000", ""),
    ] {
        let stage = Stage::new(recorded, GateView::default());
        let words: Vec<String> = (0..2000).map(|n| format!("w{n}")).collect();
        stage.call("long", "one__echo", &format!(r#"{{"text":"{}"}}"#, words.join(" "))).await;
        let report = tried_on(&stage, &format!("{candidate}\n{SERVERS}"), RecordFilter::default());
        assert_eq!(counts(&report), expected, "{recorded} → {candidate}: {report:?}");
    }
}

#[tokio::test]
async fn an_answer_that_passed_unread_and_would_be_cut_kept_or_summarized_ends_differently() {
    let (short, long) = ("s".repeat(50), "l".repeat(4000));
    let summarizer = "summarizer: {command: [head, -c, '20']}";
    let masks = "masking: {custom: [{pattern: nothing-of-that}]}";
    let rows = [
        ("", "max_result_bytes: 1000".to_owned(), "result 1", "a text of more than 1000 bytes is cut"),
        ("", "max_result_bytes: 1000\nspill: {dir: spilled}".to_owned(), "result 1", "kept and cut"),
        (
            "",
            format!("summarize_above_tokens: 100\n{summarizer}"),
            "result 1",
            "a text of more than 400 bytes is summarized",
        ),
        ("", format!("max_result_bytes: 1000\n{masks}"), "unread 2, result 1", "a text of more than 1000 bytes is cut"),
        ("", format!("summarize_above_tokens: 100\n{summarizer}\n{masks}"), "unread 2, result 1", "summarized"),
        ("", "max_result_bytes: 5000".to_owned(), "", ""),
        ("", "max_result_bytes: 0".to_owned(), "", ""),
        // It had no more text than might pass then.
        ("max_result_bytes: 4000", "max_result_bytes: 4001".to_owned(), "", ""),
        ("record: {raw: true}", "max_result_bytes: 1000".to_owned(), "result 1", "ok, cut, "),
        (
            "record: {raw: true}",
            "max_result_bytes: 1000\nspill: {dir: spilled}".to_owned(),
            "result 1",
            "the text is kept",
        ),
    ];
    for (recorded, candidate, expected, now) in rows {
        let stage = Stage::new(recorded, GateView::default());
        stage.call("short", "one__echo", &format!("text: {short}")).await;
        stage.call("long", "one__echo", &format!("text: {long}")).await;
        let report = tried_on(&stage, &format!("{candidate}\n{SERVERS}"), RecordFilter::default());
        assert_eq!(counts(&report), expected, "{recorded} → {candidate}: {report:?}");
        let example = report.groups.iter().find(|((kind, ..), _)| *kind == DifferenceKind::Result);
        let told =
            example.and_then(|(_, group)| group.examples.values().next()).map(|one| (one.id.as_str(), &*one.now));
        match expected.contains("result") {
            true => assert!(told.is_some_and(|(id, told)| id == "long" && told.contains(now)), "{candidate}: {told:?}"),
            false => assert_eq!(told, None, "{candidate}"),
        }
    }
}

#[tokio::test]
async fn what_was_refused_and_is_let_through_now_is_newly_allowed() {
    let selection = vec![SelectedServer { id: "one".to_owned(), tools: vec!["echo".to_owned()] }];
    let narrow = GateView { selection: Some(selection), ..GateView::default() };
    let token = "gateway: {tokens: [{principal: ann, token: a-token-of-sixteen}]}\n";
    let report = tried_by("", narrow.clone(), &format!("{token}{SERVERS}"), RecordFilter::default()).await;
    assert_eq!(counts(&report), "allowed 3, result 1", "{report:?}");
    // Who is not named keeps the choice of servers that nobody else has made.
    let report = tried_by("", narrow.clone(), SERVERS, RecordFilter::default()).await;
    assert_eq!(counts(&report), "", "{report:?}");
    // Where none of them is left, nothing is.
    let report = tried_by("", narrow, "servers: {two: {command: none}}", RecordFilter::default()).await;
    assert_eq!((report.of_kind(DifferenceKind::Denied), report.of_kind(DifferenceKind::Allowed)), (1, 0), "{report:?}");
    // Who was granted something once keeps that where nobody is named, and is let in no more where others are.
    let granted = GateView { capabilities: Some(vec!["mcp_integration".to_owned()]), ..GateView::default() };
    let report = tried_by("", granted.clone(), SERVERS, RecordFilter::default()).await;
    assert_eq!(counts(&report), "", "{report:?}");
    let others = "gateway: {tokens: [{principal: bob, token: a-token-of-sixteen}]}\n";
    let report = tried_by("", granted, &format!("{others}{SERVERS}"), RecordFilter::default()).await;
    assert_eq!(report.of_kind(DifferenceKind::Denied), 5, "{report:?}");
}

#[tokio::test]
async fn a_server_that_a_candidate_grants_has_what_it_offered_to_others() {
    let stage = Stage::new("", GateView::default());
    let ci = stage.narrow();
    call(&ci, "ci", "early", "two__add", "a: 1, b: 2").await;
    stage.call("other", "two__add", "a: 1, b: 2").await;
    call(&ci, "ci", "late", "two.add", "a: 1, b: 2").await;
    call(&ci, "ci", "own", "one__add", "a: 1, b: 2").await;
    call(&ci, "ci", "none", "two__nothing", "").await;
    let tokens = |servers: &str| {
        let tokens =
            ["ann", "ci"].map(|name| format!("{{principal: {name}, token: the-token-of-{name}-0451{servers}}}"));
        format!("gateway: {{tokens: [{}]}}", tokens.join(", "))
    };
    let report = tried_on(&stage, &format!("{}\n{SERVERS}", tokens("")), RecordFilter::default());
    assert_eq!(counts(&report), "allowed 2, result 1", "{report:?}");
    // What it offers is subject to the rules of the candidate.
    let denied = "servers: {one: {command: none}, two: {command: none, deny: [add]}}";
    let report = tried_on(&stage, &format!("{}\n{denied}", tokens("")), RecordFilter::default());
    assert_eq!((report.of_kind(DifferenceKind::Allowed), report.of_kind(DifferenceKind::Denied)), (0, 1), "{report:?}");
    // Whoever is granted no more than before gets no more.
    let report = tried_on(&stage, &format!("{}\n{SERVERS}", tokens(", servers: [one]")), RecordFilter::default());
    assert_eq!(counts(&report), "denied 1", "{report:?}");
}

#[tokio::test]
async fn differences_are_told_by_tool_and_principal_with_examples() {
    let candidate = "servers: {one: {command: none, deny: ['*']}, two: {command: none}}";
    let report = tried("", candidate).await;
    let key = (DifferenceKind::Denied, "one.echo".to_owned(), "ann".to_owned());
    let group = report.groups.get(&key).unwrap_or_else(|| panic!("{report:?}"));
    let example = group.examples.values().next().unwrap();
    assert_eq!((group.count, example.id.as_str(), example.was.as_str()), (1, "call-1", "calls one.echo"));
    assert!(example.now.starts_with("not-allowed: "), "{example:?}");
}

#[tokio::test]
async fn only_what_is_wanted_is_replayed() {
    let wanted = |since: Option<&str>, tool: Option<&str>, principal: Option<&str>| RecordFilter {
        since: since.map(str::to_owned),
        tool: tool.map(str::to_owned),
        principal: principal.map(str::to_owned),
    };
    let rows = [
        (wanted(None, None, None), 7),
        (wanted(Some("2026-01-01T00:00:00.000Z"), None, None), 7),
        (wanted(Some("9999-01-01T00:00:00.000Z"), None, None), 0),
        (wanted(None, Some("one.add"), None), 2),
        (wanted(None, Some("add"), None), 2),
        (wanted(None, Some("one__add"), None), 2),
        (wanted(None, Some("one.*"), None), 5),
        (wanted(None, Some("one.nothing"), None), 1),
        (wanted(None, Some("two__forecast"), None), 1),
        (wanted(None, Some("three.x"), None), 1),
        (wanted(None, None, Some("ann")), 7),
        (wanted(None, None, Some("bob")), 0),
    ];
    for (wanted, expected) in rows {
        let said = format!("{wanted:?}");
        let report = tried_by("", GateView::default(), SERVERS, wanted).await;
        assert_eq!((report.records, report.skipped), (expected, 7 - expected), "{said}: {report:?}");
    }
}

#[tokio::test]
async fn answers_that_are_stored_masked_do_not_pass_for_judged_where_the_candidate_masks_less() {
    let masked = "masking: {groups: [basic]}";
    let raw = format!("{masked}\nrecord: {{raw: true}}");
    let rows = [
        (masked, "", 1, ""),
        (masked, "masking: {groups: [security]}", 0, ""),
        (masked, "masking: {patterns: [password]}", 1, ""),
        (raw.as_str(), "", 0, "masking 1"),
    ];
    for (recorded, candidate, unjudged, expected) in rows {
        let stage = Stage::new(recorded, GateView::default());
        stage.call("secret", "one__echo", "text: 'password=hunter2-and-more'").await;
        stage.call("plain", "one__echo", "text: nothing to hide").await;
        let report = tried_on(&stage, &format!("{candidate}\n{SERVERS}"), RecordFilter::default());
        assert_eq!(
            (report.unjudged, counts(&report).as_str()),
            (unjudged, expected),
            "{recorded} → {candidate}: {report:?}"
        );
    }
}

#[tokio::test]
async fn a_call_that_was_kept_out_is_known_by_every_form_of_its_name_and_told_by_its_tool() {
    let selection = vec![SelectedServer { id: "one".to_owned(), tools: vec!["echo".to_owned()] }];
    let stage = Stage::new("", GateView::default());
    stage.gate.refresh().await;
    let ci = Gate::open(&stage.registry, GateView { selection: Some(selection), ..GateView::default() }).unwrap();
    for name in ["one__fail", "one.fail", "mcp__one__fail", "two__fail", "one__echo"] {
        call(&ci, "ci", name, name, "message: no, text: no").await;
    }
    // What others were offered is recorded with their calls.
    stage.call("other", "two__echo", "text: hi").await;
    let candidate = format!("gateway: {{tokens: [{{principal: ci, token: a-token-of-sixteen}}]}}\n{SERVERS}");
    for (tool, expected) in [("one.fail", 3), ("one__fail", 3), ("fail", 4), ("two.fail", 1), ("one.*", 4), ("f*l", 4)]
    {
        let wanted = RecordFilter { tool: Some(tool.to_owned()), ..RecordFilter::default() };
        let report = tried_on(&stage, &candidate, wanted);
        assert_eq!(report.records, expected, "{tool}: {report:?}");
    }
    let report = tried_on(&stage, &candidate, RecordFilter::default());
    let allowed = report.groups.iter().filter(|((kind, ..), _)| *kind == DifferenceKind::Allowed);
    let allowed: Vec<_> = allowed.map(|((_, tool, _), group)| (tool.as_str(), group.count)).collect();
    assert_eq!(allowed, [("one.fail", 3), ("two.fail", 1)], "{report:?}");
}

#[tokio::test]
async fn another_component_that_decides_alike_shows_no_difference() {
    let stage = Stage::new("", GateView::default());
    stage.calls().await;
    let dir = stage.written();
    let candidate = Candidate { component: Some(another_component()), config: None };
    let report = backtest(&dir, candidate).run(&|_| {}).unwrap();
    assert_eq!((report.same, counts(&report).as_str()), (7, ""), "{report:?}");
}

#[tokio::test]
async fn a_component_that_breaks_off_is_cut_off_and_told_and_soon_not_tried_any_more() {
    let stage = Stage::new("", GateView::default());
    for (at, text) in ["loop", "grow", "panic", "fine"].iter().enumerate() {
        stage.call(&format!("call-{at}"), "one__echo", &format!("text: {text}")).await;
    }
    let candidate = Candidate { component: Some(faulty()), config: None };
    let report = backtest(&stage.written(), candidate.clone()).run(&|_| {}).unwrap();
    let broken: Vec<_> = report.crashed.iter().map(|(why, group)| (*why, group.count)).collect();
    let expected = [("it did not finish", 1), ("it needed too much memory", 1), ("it trapped", 1)];
    assert_eq!((broken, report.stopped), (expected.to_vec(), false), "{report:?}");
    assert_eq!((report.records, counts(&report).as_str(), report.is_sound()), (4, "denied 1", false), "{report:?}");
    for at in 0..200 {
        stage.call(&format!("more-{at}"), "one__echo", "text: loop").await;
    }
    let report = backtest(&stage.written(), candidate).run(&|_| {}).unwrap();
    assert!(report.stopped && !report.is_sound() && (5..=6).contains(&report.crashes()), "{report:?}");
    assert!(report.records < 20, "{report:?}");
}
