//! The client over a wire that answers when the test says so.

mod wire;

use super::*;
use crate::execution::Code;
use crate::types::{Failure, HttpFailure, Phase, RpcFailure};
use wire::{Answer, Office, failed, tools};

fn office(servers: &[&str]) -> Office {
    office_with(Settings::new(servers.iter().map(|&id| id.to_owned())))
}

fn office_with(settings: Settings) -> Office {
    let office = Office::default();
    office.client.configure(settings).unwrap();
    office
}

fn text(text: &str) -> Answer {
    Ok(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
}

#[test]
fn a_call_lists_the_tools_of_its_server_and_is_answered() {
    let mut office = office(&["a", "b"]);
    let call = office.execute("1", "a.x");
    assert_eq!(office.run(), ["a tools/list {}"]);
    office.answer(0, tools(&["x"]));
    assert_eq!(office.run(), [r#"a tools/call {"name":"x","arguments":{}}"#]);
    office.answer(0, text("hello"));
    office.run();
    let result = office.result(call);
    assert_eq!((result.code, result.text.as_str(), result.attempts), (Code::Ok, "hello", 1));
}

#[test]
fn a_server_is_asked_once_for_all_who_wait() {
    let mut office = office(&["a"]);
    let calls: Vec<usize> = (0..10).map(|n| office.execute(&n.to_string(), "a.x")).collect();
    assert_eq!(office.run(), ["a tools/list {}"]);
    office.answer(0, tools(&["x"]));
    assert_eq!(office.run().len(), 10);
    (0..10).for_each(|_| office.answer(0, text("hello")));
    office.run();
    assert!(calls.into_iter().all(|call| office.result(call).code == Code::Ok));
}

#[test]
fn a_list_that_fails_does_so_for_all_who_wait_and_is_asked_for_again() {
    let mut office = office(&["a"]);
    let (one, other) = (office.execute("1", "a.x"), office.execute("2", "a.x"));
    office.run();
    office.answer(0, failed(Failure::Connect("refused".to_owned()), Phase::NotSent));
    assert!(office.run().is_empty());
    for call in [one, other] {
        let result = office.result(call);
        assert_eq!(result.code, Code::ServerUnavailable);
        assert!(result.text.contains("refused"), "{}", result.text);
    }
    office.execute("3", "a.x");
    assert_eq!(office.run(), ["a tools/list {}"]);
}

#[test]
fn where_the_one_who_asks_gives_up_another_asks() {
    let mut office = office(&["a"]);
    let (one, other) = (office.execute("1", "a.x"), office.execute("2", "a.x"));
    office.run();
    assert!(office.client.cancel("1"));
    assert_eq!(office.run(), ["a tools/list {}"]);
    assert_eq!(office.result(one).code, Code::Cancelled);
    assert!(office.is_dropped(0), "the first list is given up");
    office.answer(1, tools(&["x"]));
    office.run();
    office.answer(1, text("hello"));
    office.run();
    assert_eq!(office.result(other).code, Code::Ok);
}

#[test]
fn giving_up_one_call_drops_its_request_and_no_other() {
    let mut office = office(&["a"]);
    let (one, other) = (office.execute("1", "a.x"), office.execute("2", "a.x"));
    office.run();
    office.answer(0, tools(&["x"]));
    office.run();
    assert!(office.client.cancel("1") && !office.client.cancel("unknown"));
    office.run();
    assert_eq!(office.result(one).code, Code::Cancelled);
    assert!(office.is_dropped(0) && !office.is_dropped(1));
    office.answer(1, text("hello"));
    office.run();
    assert_eq!(office.result(other).text, "hello");
    assert!(!office.client.cancel("1"), "what is over is forgotten");
}

#[test]
fn a_call_ends_as_it_began_whatever_is_configured_meanwhile() {
    let mut office = office(&["a"]);
    let old = office.execute("1", "a.x");
    office.run();
    office.client.configure(Settings::new(["b".to_owned()])).unwrap();
    let new = office.execute("2", "a.x");
    office.answer(0, tools(&["x"]));
    office.run();
    office.answer(0, text("hello"));
    office.run();
    assert_eq!(office.result(old).code, Code::Ok);
    assert_eq!(office.result(new).code, Code::UnknownServer);
}

#[test]
fn what_was_listed_before_it_was_withdrawn_does_not_count() {
    let mut office = office(&["a"]);
    let call = office.execute("1", "a.new");
    office.run();
    office.client.withdraw("a");
    office.answer(0, tools(&["old"]));
    assert_eq!(office.run(), ["a tools/list {}"]);
    office.answer(0, tools(&["new"]));
    office.run();
    office.answer(0, text("hello"));
    office.run();
    assert_eq!(office.result(call).code, Code::Ok);
}

#[test]
fn a_list_has_many_pages_but_not_without_end() {
    let page = |tools: &str, cursor: &str| -> Answer { Ok(format!(r#"{{"tools":[{tools}]{cursor}}}"#)) };
    let mut office = office(&["a"]);
    let list = office.list();
    office.run();
    office.answer(
        0,
        page(r#"{"name":"x","description":"1","annotations":{"readOnlyHint":true}}"#, r#","nextCursor":"2""#),
    );
    assert_eq!(office.run(), [r#"a tools/list {"cursor":"2"}"#]);
    office.answer(
        0,
        page(r#"{"name":"y","inputSchema":{"b":1.10,"a":2}},{"title":"nameless"},7"#, r#","nextCursor":"2""#),
    );
    office.run();
    let Listing { tools, failed } = office.listing(list);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names, failed.len()), (vec!["a__x", "a__y"], 0));
    assert_eq!(tools[0].annotations.read_only, Some(true));
    assert_eq!(tools[1].input_schema.as_deref(), Some(r#"{"b":1.10,"a":2}"#));

    office.client.withdraw("a");
    let list = office.list();
    for n in 0..1_000 {
        assert_eq!(office.run().len(), 1, "page {n}");
        office.answer(0, page("", &format!(r#","nextCursor":{n}"#)));
    }
    assert!(office.run().is_empty());
    assert!(office.listing(list).failed[0].reason.contains("more than 1000 pages"));
}

#[test]
fn a_server_without_tools_has_none_and_one_that_talks_nonsense_has_failed() {
    let rpc = |code| failed(Failure::Rpc(RpcFailure { code, message: "no".to_owned() }), Phase::Sent);
    for (answer, reason) in [
        (rpc(-32601), None),
        (rpc(-32603), Some("no (code -32603)")),
        (Ok("[]".to_owned()), Some("not an object")),
        (Ok("{".to_owned()), Some("unreadable")),
        (Ok(r#"{"resultType":"input_required"}"#.to_owned()), Some("unknown resultType")),
    ] {
        let mut office = office(&["a"]);
        let list = office.list();
        office.run();
        office.answer(0, answer);
        office.run();
        let Listing { tools, failed } = office.listing(list);
        assert!(tools.is_empty());
        match reason {
            Some(reason) => assert!(failed[0].reason.contains(reason), "{failed:?}"),
            None => assert!(failed.is_empty(), "{failed:?}"),
        }
    }
}

#[test]
fn the_words_of_a_server_that_cannot_be_listed_are_masked() {
    let mut settings = Settings::new(["a".to_owned()]);
    settings.masks.groups = vec!["basic".to_owned()];
    let mut office = office_with(settings);
    let list = office.list();
    office.run();
    office.answer(0, failed(Failure::Connect("password: hunter2hunter2".to_owned()), Phase::NotSent));
    office.run();
    let reason = &office.listing(list).failed[0].reason;
    assert!(reason.contains("[MASKED_PASSWORD]") && !reason.contains("hunter2"), "{reason}");
}

#[test]
fn what_wants_a_person_is_declined() {
    let mut settings = Settings::new(["a".to_owned()]);
    settings.policy.servers[0].ask = vec!["x".to_owned()];
    let mut office = office_with(settings);
    let call = office.execute("1", "a.x");
    office.run();
    office.answer(0, tools(&["x"]));
    assert!(office.run().is_empty());
    let result = office.result(call);
    assert_eq!(result.code, Code::Declined);
    assert!(result.text.contains("could not ask its user"), "{}", result.text);
}

#[test]
fn a_text_that_nobody_can_keep_is_cut() {
    let mut settings = Settings::new(["a".to_owned()]);
    (settings.max_result_bytes, settings.spill) = (20, true);
    let mut office = office_with(settings);
    let call = office.execute("1", "a.x");
    office.run();
    office.answer(0, tools(&["x"]));
    office.run();
    office.answer(0, text(&"long ".repeat(10)));
    office.run();
    let result = office.result(call);
    assert!(result.truncated && result.text.contains("[TRUNCATED:"), "{}", result.text);
}

#[test]
fn a_refused_authorization_is_a_new_session_and_one_more_request() {
    let refused = || {
        let http = HttpFailure { status: 401, session: false, challenge: true, retry_after_ms: None };
        failed(Failure::Http(http), Phase::NotSent)
    };
    let mut office = office(&["a"]);
    let call = office.execute("1", "a.x");
    office.run();
    office.answer(0, tools(&["x"]));
    office.run();
    office.answer(0, refused());
    assert_eq!(office.run(), ["a reconnect"]);
    office.answer(0, Ok(String::new()));
    assert_eq!(office.run().len(), 1);
    office.answer(0, refused());
    assert!(office.run().is_empty());
    assert_eq!((office.result(call).code, office.result(call).attempts), (Code::NeedsAuth, 2));
}

#[test]
fn a_lost_session_is_waited_for_reopened_and_asked_once_more() {
    let mut office = office(&["a"]);
    let call = office.execute("1", "a.x");
    office.run();
    office.answer(0, tools(&["x"]));
    office.run();
    office.answer(0, failed(Failure::Closed, Phase::NotSent));
    assert_eq!(office.run(), ["wait 250 750"]);
    office.answer(0, Ok(String::new()));
    assert_eq!(office.run(), ["a reconnect"]);
    office.answer(0, Ok(String::new()));
    assert_eq!(office.run().len(), 1);
    office.answer(0, text("hello"));
    office.run();
    assert_eq!((office.result(call).code, office.result(call).attempts), (Code::Ok, 2));
}

#[test]
fn before_it_is_configured_there_are_no_servers() {
    let mut office = Office::default();
    let (call, list) = (office.execute("1", "a.x"), office.list());
    assert!(office.run().is_empty());
    assert_eq!(office.result(call).code, Code::UnknownServer);
    assert_eq!(office.listing(list), Listing { tools: Vec::new(), failed: Vec::new() });
}

#[test]
fn settings_that_cannot_be_used_change_nothing() {
    let office = office(&["a"]);
    let mut bad = Settings::new(["b".to_owned()]);
    bad.masks.groups = vec!["nonsense".to_owned()];
    assert!(matches!(office.client.configure(bad), Err(SettingsError::Masks(_))));
    assert_eq!(office.client.discovery().gate().servers_without_offer(), ["a"]);
}
