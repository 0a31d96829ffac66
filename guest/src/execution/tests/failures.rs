//! How a failure ends a call: its code, its words, and how long the call waits before it tries again.

use super::*;
use crate::execution::outcome;
use crate::types::WaitRange;

#[test]
fn each_failure_has_its_code() {
    let http =
        |status, session, challenge| Failure::Http(HttpFailure { status, session, challenge, retry_after_ms: None });
    for (failure, expected) in [
        (Failure::Cancelled, Code::Cancelled),
        (Failure::Timeout, Code::Timeout),
        (Failure::Connect(String::new()), Code::ServerUnavailable),
        (Failure::Closed, Code::ServerUnavailable),
        (Failure::Exited(None), Code::ServerUnavailable),
        (http(401, false, false), Code::NeedsAuth),
        (http(403, false, true), Code::NeedsAuth),
        (http(403, true, false), Code::RpcError),
        (http(400, true, false), Code::ServerUnavailable),
        (http(404, true, false), Code::ServerUnavailable),
        (http(400, false, false), Code::RpcError),
        (http(404, false, true), Code::RpcError),
        (http(418, true, true), Code::RpcError),
        (http(429, false, false), Code::ServerUnavailable),
        (http(500, false, false), Code::ServerUnavailable),
        (http(599, false, false), Code::ServerUnavailable),
        (http(600, false, false), Code::RpcError),
        (Failure::Rpc(RpcFailure { code: 1, message: String::new() }), Code::RpcError),
        (Failure::Protocol(String::new()), Code::RpcError),
        (Failure::QueueFull(String::new()), Code::QueueFull),
        (Failure::NeedsAuth(String::new()), Code::NeedsAuth),
        (Failure::RestartInProgress, Code::RestartInProgress),
        (Failure::RestartFailed(String::new()), Code::RestartFailed),
        (Failure::RulesUnavailable(String::new()), Code::NotAllowed),
    ] {
        assert_eq!(outcome::code(&failure), expected, "{failure:?}");
    }
}

#[test]
fn each_failure_has_its_words() {
    let rpc = |message: &str| Failure::Rpc(RpcFailure { code: -32000, message: message.into() });
    for (failure, expected) in [
        (Failure::Cancelled, "the call was cancelled"),
        (Failure::Timeout, "no answer from server \"s\" in time"),
        (Failure::Connect(String::new()), "cannot connect to server \"s\""),
        (Failure::Connect("refused".into()), "cannot connect to server \"s\": refused"),
        (Failure::Closed, "the connection to server \"s\" ended"),
        (Failure::Exited(Some(3)), "the process of server \"s\" ended with exit code 3"),
        (Failure::Exited(None), "the process of server \"s\" was killed"),
        (http(502), "server \"s\" answered with HTTP status 502"),
        (rpc(""), "server \"s\" answered with error -32000"),
        (rpc("no such pod"), "no such pod (code -32000)"),
        (Failure::Protocol("no id".into()), "server \"s\" broke the protocol: no id"),
        (Failure::QueueFull("64".into()), "too many calls are waiting for server \"s\": 64"),
        (Failure::NeedsAuth("log in".into()), "server \"s\" needs authorization: log in"),
        (Failure::RestartInProgress, "mcp_restart_in_progress: server \"s\" is being restarted"),
        (Failure::RulesUnavailable("x".into()), "its rules cannot be applied, so it was not sent: x"),
        (Failure::RestartFailed("exit 1".into()), "mcp_restart_failed: server \"s\" did not restart: exit 1"),
    ] {
        assert_eq!(outcome::describe(&failure, "s"), expected);
    }
}

#[test]
fn a_retry_waits_as_long_as_the_server_asked() {
    for (retry_after_ms, min_ms, max_ms) in [(Some(5_000), 5_000, 5_000), (None, 250, 750)] {
        let failure = Failure::Http(HttpFailure { status: 429, session: false, challenge: false, retry_after_ms });
        let (_, last) = play(&gate(settings()), call("k8s.set", ""), vec![failed(failure, Phase::NotSent)]);
        assert_eq!(last, Directive::Wait(WaitRange { min_ms, max_ms }));
    }
}

#[test]
fn a_wait_that_is_longer_than_the_call_names_who_asks_for_it() {
    let timeout = || failed(Failure::Timeout, Phase::NotSent);
    for (retry_after_ms, text) in [
        (Some(3_600_000), "server \"k8s\" asks to wait 3600 s before the next request"),
        (Some(1), "server \"k8s\" asks to wait 1 s before the next request"),
        (Some(u64::MAX), "server \"k8s\" asks to wait more than a year before the next request"),
        (None, "no answer from server \"k8s\" in time"),
    ] {
        for status in [429, 503] {
            let busy = Failure::Http(HttpFailure { status, session: false, challenge: false, retry_after_ms });
            let events = vec![failed(busy, Phase::Sent), timeout()];
            let result = result(play(&gate(settings()), call("k8s.get", ""), events).1);
            assert_eq!(result.code, Code::Timeout, "{status} {retry_after_ms:?}");
            assert!(result.text.contains(text), "{status}: {}", result.text);
        }
    }
}

/// Every state but `Done`, with the events that lead to it, and every event, where it is out of place.
#[test]
fn a_report_out_of_place_is_named_with_what_was_to_happen_instead() {
    let asking =
        || Settings { policy: Policy { destructive: DestructivePolicy::Ask, ..settings().policy }, ..settings() };
    let summarizing = || Settings { summarize_above_tokens: Some(0), ..settings() };
    let closed = || failed(Failure::Closed, Phase::NotSent);
    let condensed = || Event::Condensed(Condensed::default());
    let forwarded = || Event::Forwarded(Summary { is_error: false });
    for (settings, name, events, expected) in [
        (settings(), "lazy.run", vec![Event::Waited], "waited while connecting servers"),
        (asking(), "k8s.set", vec![Event::Connected], "connected while waiting for approval"),
        (asking(), "k8s.set", vec![Event::Answered("{}".into())], "answered while waiting for approval"),
        (settings(), "k8s.get", vec![Event::Approved(true)], "approved while waiting for a response"),
        (settings(), "k8s.get", vec![Event::Unasked], "unasked while waiting for a response"),
        (settings(), "k8s.get", vec![condensed()], "condensed while waiting for a response"),
        (settings(), "k8s.get", vec![closed(), Event::Reconnected], "reconnected while waiting to retry"),
        (
            settings(),
            "k8s.get",
            vec![closed(), Event::Waited, Event::Authenticated],
            "authenticated while opening a new session",
        ),
        (
            settings(),
            "k8s.get",
            vec![failed(http(401), Phase::Sent), forwarded()],
            "forwarded while getting a new authorization",
        ),
        (
            summarizing(),
            "k8s.get",
            vec![Event::Answered(ANSWER.into()), Event::Waited],
            "waited while waiting for a long text to be saved or summarized",
        ),
    ] {
        let result = result(play(&gate(settings), call(name, ""), events).1);
        assert_eq!((result.code, result.text), (Code::Internal, format!("the host reported {expected}")));
    }
}
