//! The table of failures and contexts, cell by cell.

use super::{Action::*, *};
use crate::types::RpcFailure;
use proptest::prelude::*;

/// The action for each context, in this order of columns.
fn columns(failure: &Failure) -> [Action; 7] {
    let unsafe_sent =
        Context { phase: Phase::Sent, attempt: 1, read_only: false, idempotent: false, retry: RetryPolicy::Safe };
    let safe_sent = Context { read_only: true, ..unsafe_sent };
    [
        Context { phase: Phase::NotSent, ..unsafe_sent },
        unsafe_sent,
        safe_sent,
        Context { retry: RetryPolicy::Always, ..unsafe_sent },
        Context { retry: RetryPolicy::Never, ..unsafe_sent },
        Context { attempt: 2, retry: RetryPolicy::Always, ..unsafe_sent },
        Context { attempt: 2, ..safe_sent },
    ]
    .map(|context| classify(failure, &context).action)
}

fn http(status: u16) -> HttpFailure {
    HttpFailure { status, session: false, challenge: false, retry_after_ms: None }
}

fn with_session(status: u16) -> Failure {
    Failure::Http(HttpFailure { session: true, ..http(status) })
}

fn with_challenge(status: u16) -> Failure {
    Failure::Http(HttpFailure { challenge: true, ..http(status) })
}

fn plain(status: u16) -> Failure {
    Failure::Http(http(status))
}

fn rpc(code: i64, message: &str) -> Failure {
    Failure::Rpc(RpcFailure { code, message: message.into() })
}

/// Contexts: not sent, sent, sent and safe, sent under `always`, under `never`; second attempt under `always`, and safe.
const FINAL: [Action; 7] = [Surface; 7];
const LOST: [Action; 7] = repeatable(RetryNewSession);
const TOO_MANY: [Action; 7] = repeatable(RetrySameSession);
const UNAUTHORIZED: [Action; 7] = repeatable(Reauthenticate);
const UNANSWERED: [Action; 7] =
    [Surface, OutcomeUnknown, Surface, OutcomeUnknown, OutcomeUnknown, OutcomeUnknown, Surface];

/// The row of a failure after which this action helps: once sent, only a tool that is safe to repeat is repeated.
const fn repeatable(retry: Action) -> [Action; 7] {
    [retry, OutcomeUnknown, retry, retry, OutcomeUnknown, OutcomeUnknown, Surface]
}

#[test]
fn every_failure_has_its_row_of_the_table() {
    for (failure, expected) in [
        (Failure::Cancelled, FINAL),
        (Failure::Timeout, UNANSWERED),
        (Failure::Connect("refused".into()), LOST),
        (Failure::Closed, LOST),
        (Failure::Exited(Some(1)), LOST),
        (Failure::Exited(None), LOST),
        (with_session(404), LOST),
        (with_session(400), LOST),
        (plain(404), FINAL),
        (plain(400), FINAL),
        (with_session(410), FINAL),
        (plain(408), FINAL),
        (plain(429), TOO_MANY),
        (with_session(429), TOO_MANY),
        (plain(500), LOST),
        (plain(502), LOST),
        (plain(503), LOST),
        (with_session(504), LOST),
        (plain(599), LOST),
        (plain(401), UNAUTHORIZED),
        (with_challenge(401), UNAUTHORIZED),
        (with_challenge(403), UNAUTHORIZED),
        (plain(403), FINAL),
        (plain(100), UNANSWERED),
        (plain(204), UNANSWERED),
        (with_challenge(302), UNANSWERED),
        (plain(0), UNANSWERED),
        (plain(600), UNANSWERED),
        (rpc(-32603, "internal error"), FINAL),
        (Failure::Protocol("no JSON".into()), UNANSWERED),
        (Failure::QueueFull(String::new()), FINAL),
        (Failure::NeedsAuth("no token".into()), FINAL),
        (Failure::RestartInProgress, FINAL),
        (Failure::RestartFailed("exit code 1".into()), FINAL),
        (Failure::RulesUnavailable("no store".into()), FINAL),
    ] {
        assert_eq!(columns(&failure), expected, "{failure:?}");
        assert_eq!(may_have_run(&failure, Phase::Sent), expected != FINAL, "{failure:?}");
        assert!(!may_have_run(&failure, Phase::NotSent), "{failure:?}");
    }
}

#[test]
fn what_the_first_project_retried_is_retried_where_the_tool_cannot_have_run_or_is_safe() {
    // The seed's NoRetry is `false`, its RetryNewSession is `true`; text that only looks like an error of another kind
    // (`connection refused` in a JSON-RPC message) decides nothing.
    for (failure, retried_there) in [
        (Failure::Cancelled, false),
        (Failure::Timeout, false),
        (Failure::Closed, true),
        (Failure::Connect("connection refused".into()), true),
        (rpc(-32601, "method not found"), false),
        (rpc(-32602, "invalid params"), false),
        (rpc(-32700, "parse error"), false),
        (rpc(-32600, "invalid request"), false),
        (rpc(-32000, "connection refused"), false),
        (Failure::Protocol("something unexpected happened".into()), false),
        (with_session(404), true),
        (plain(500), true),
        (plain(502), true),
        (plain(503), true),
        (plain(504), true),
        (plain(400), false),
        (plain(403), false),
    ] {
        let [not_sent, _, safe, ..] = columns(&failure);
        assert_eq!([not_sent, safe].map(|action| action == RetryNewSession), [retried_there; 2], "{failure:?}");
    }
}

#[test]
fn either_declaration_makes_a_tool_safe() {
    for (read_only, idempotent, expected) in [
        (false, false, OutcomeUnknown),
        (true, false, RetryNewSession),
        (false, true, RetryNewSession),
        (true, true, RetryNewSession),
    ] {
        let context = Context { phase: Phase::Sent, attempt: 1, read_only, idempotent, retry: RetryPolicy::Safe };
        assert_eq!(classify(&Failure::Closed, &context).action, expected, "{read_only} {idempotent}");
    }
}

#[test]
fn the_trace_tells_the_reasoning_without_the_texts_of_others() {
    let context =
        Context { phase: Phase::Sent, attempt: 1, read_only: false, idempotent: false, retry: RetryPolicy::Safe };
    for (failure, expected) in [
        (
            Failure::Closed,
            &[
                "the connection closed",
                "the request was sent and the response was lost: the tool may have run",
                "the tool is neither read-only nor idempotent: not safe to repeat",
                "attempt 1 with `retry: safe`: outcome-unknown",
            ][..],
        ),
        (
            with_session(404),
            &[
                "HTTP 404 to a request with a session",
                "the request was sent before the server turned it away: the tool may have run",
                "the tool is neither read-only nor idempotent: not safe to repeat",
                "attempt 1 with `retry: safe`: outcome-unknown",
            ],
        ),
        (
            rpc(-32602, "token=hunter2"),
            &["JSON-RPC error -32602", "a retry would not help", "attempt 1 with `retry: safe`: surface"],
        ),
    ] {
        assert_eq!(classify(&failure, &context).trace, expected);
    }
    let unread = Context { phase: Phase::NotSent, ..context };
    assert_eq!(
        classify(&with_session(404), &unread).trace,
        [
            "HTTP 404 to a request with a session",
            "the server turned the request away: the tool did not run",
            "attempt 1 with `retry: safe`: retry-new-session",
        ]
    );
}

#[test]
fn missing_authorizations_are_told_from_other_failures() {
    for (failure, expected) in [
        (Failure::NeedsAuth("no token".into()), true),
        (plain(401), true),
        (with_challenge(403), true),
        (plain(403), false),
        (with_challenge(404), false),
        (Failure::Closed, false),
    ] {
        assert_eq!(wants_authorization(&failure), expected, "{failure:?}");
    }
}

fn any_failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        Just(Failure::Cancelled),
        Just(Failure::Timeout),
        Just(Failure::Connect(String::new())),
        Just(Failure::Closed),
        any::<Option<i32>>().prop_map(Failure::Exited),
        (0u16..700, any::<bool>(), any::<bool>()).prop_map(|(status, session, challenge)| {
            Failure::Http(HttpFailure { session, challenge, ..http(status) })
        }),
        any::<i64>().prop_map(|code| rpc(code, "")),
        Just(Failure::Protocol(String::new())),
        Just(Failure::QueueFull(String::new())),
        Just(Failure::RestartInProgress),
    ]
}

proptest! {
    #[test]
    fn what_was_sent_is_repeated_only_where_the_operator_says_so_and_then_once(failure in any_failure(), attempt in 0u32..4, always in any::<bool>()) {
        let retry = if always { RetryPolicy::Always } else { RetryPolicy::Safe };
        let context = Context { phase: Phase::Sent, attempt, read_only: false, idempotent: false, retry };
        let decision = classify(&failure, &context);
        let repeats = matches!(decision.action, RetrySameSession | RetryNewSession | Reauthenticate);
        prop_assert!(!repeats || attempt < 2);
        if matches!(failure, Failure::Timeout | Failure::Protocol(_)) {
            prop_assert_eq!(decision.action, OutcomeUnknown);
        }
        prop_assert!(!repeats || always, "a tool that is not safe was sent again after {failure:?}");
        if matches!(failure, Failure::Connect(_) | Failure::Closed | Failure::Exited(_)) && !always {
            prop_assert_eq!(decision.action, OutcomeUnknown);
        }
        prop_assert!((2..=4).contains(&decision.trace.len()));
    }

    #[test]
    fn a_safe_tool_never_has_an_unknown_outcome(failure in any_failure(), attempt in 0u32..4, sent in any::<bool>()) {
        let phase = if sent { Phase::Sent } else { Phase::NotSent };
        for retry in [RetryPolicy::Safe, RetryPolicy::Always, RetryPolicy::Never] {
            let context = Context { phase, attempt, read_only: false, idempotent: true, retry };
            prop_assert_ne!(classify(&failure, &context).action, OutcomeUnknown);
        }
    }
}
