//! How two ways to decide one call differ: the first directive that is not the same, and what that means.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::access::is_refusal;
use crate::logic::types::execution::{Code, Directive, Question, Request, ToolResult};
use crate::words::Named;

/// What two ways to decide a call differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The candidate keeps out what was let through.
    Denied,
    /// The candidate lets through what was kept out.
    Allowed,
    /// A person is asked by one of them alone.
    Approval,
    /// Another tool is called.
    Rerouted,
    /// The arguments are read otherwise, or refused by one of them.
    Arguments,
    /// The result says something else: it is masked or cut otherwise.
    Result,
    /// A failure is met in another way.
    Retry,
    /// The call ends in another way.
    Outcome,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 8] = [
        Kind::Denied,
        Kind::Allowed,
        Kind::Approval,
        Kind::Rerouted,
        Kind::Arguments,
        Kind::Result,
        Kind::Retry,
        Kind::Outcome,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Denied => "denied",
            Kind::Allowed => "allowed",
            Kind::Approval => "approval",
            Kind::Rerouted => "rerouted",
            Kind::Arguments => "arguments",
            Kind::Result => "result",
            Kind::Retry => "retry",
            Kind::Outcome => "outcome",
        }
    }
}

/// A difference, and why; never a word of arguments or results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub kind: Kind,
    /// The rule that decided, or what is not the same.
    pub rule: String,
}

/// How the second way differs from the first; none where it does not, as far as it goes. Which servers are asked to connect
/// is no difference, nor is how often.
pub fn compare<'d>(
    live: impl IntoIterator<Item = &'d Directive>,
    candidate: impl IntoIterator<Item = &'d Directive>,
) -> Option<Difference> {
    let decides = |directive: &&Directive| !matches!(directive, Directive::Connect(_));
    let mut requested = false;
    for (live, candidate) in live.into_iter().filter(decides).zip(candidate.into_iter().filter(decides)) {
        if !is_same(live, candidate) {
            return Some(difference(live, candidate, requested));
        }
        requested |= matches!(live, Directive::Request(_));
    }
    None
}

/// Whether two directives want the same done.
pub fn is_same(one: &Directive, other: &Directive) -> bool {
    match (one, other) {
        (Directive::Request(one), Directive::Request(other)) => {
            (&one.server, &one.method) == (&other.server, &other.method) && same_json(&one.params, &other.params)
        }
        (Directive::Ask(one), Directive::Ask(other)) => {
            one.tool == other.tool && same_json(&one.arguments, &other.arguments)
        }
        (Directive::Done(one), Directive::Done(other)) => ending(one, other).is_none(),
        (one, other) => one == other,
    }
}

fn difference(live: &Directive, candidate: &Directive, requested: bool) -> Difference {
    use Directive::{Ask, Condense, Done, Reauthenticate, Reconnect, Request, Wait};
    let (kind, rule) = match (live, candidate) {
        (Done(live), Done(candidate)) => return ending(live, candidate).unwrap_or_else(nothing),
        (Condense(_), Condense(_) | Done(_)) | (Done(_), Condense(_)) => (Kind::Result, "its text is another"),
        (Wait(_) | Reconnect(_) | Reauthenticate(_), _) | (_, Wait(_) | Reconnect(_) | Reauthenticate(_)) => {
            (Kind::Retry, "the failure is met in another way")
        }
        (Request(_), Done(_)) | (Done(_), Request(_)) if requested => {
            (Kind::Retry, "it is tried again by one of them alone")
        }
        (Request(_) | Ask(_), Done(result)) => return refusal(Kind::Denied, result),
        (Done(result), Request(_) | Ask(_)) => return refusal(Kind::Allowed, result),
        (Request(live), Request(candidate)) => match target(live) == target(candidate) {
            true => (Kind::Arguments, "they are read otherwise"),
            false => (Kind::Rerouted, "another tool is called"),
        },
        (Ask(live), Ask(candidate)) => match live.tool == candidate.tool {
            true => (Kind::Arguments, "they are read otherwise"),
            false => (Kind::Rerouted, "another tool is called"),
        },
        (Ask(Question { reason, .. }), Request(_)) | (Request(_), Ask(Question { reason, .. })) => {
            (Kind::Approval, reason.as_str())
        }
        _ => (Kind::Outcome, "something else is done"),
    };
    Difference { kind, rule: rule.to_owned() }
}

/// One of them ends the call before it is made.
fn refusal(kind: Kind, result: &ToolResult) -> Difference {
    match result.code {
        code if is_refusal(code) => Difference { kind, rule: last_note(result) },
        Code::InvalidArguments => {
            let rule = if kind == Kind::Denied { "they are refused" } else { "they are no longer refused" };
            Difference { kind: Kind::Arguments, rule: rule.to_owned() }
        }
        code => Difference { kind: Kind::Outcome, rule: format!("it ends with {}", code.name()) },
    }
}

/// How two ends of a call differ.
fn ending(live: &ToolResult, candidate: &ToolResult) -> Option<Difference> {
    let found = |kind, rule: String| Some(Difference { kind, rule });
    let name = |result: &ToolResult| result.code.name();
    match (is_refusal(live.code), is_refusal(candidate.code)) {
        (true, true) => return None,
        (false, true) => return found(Kind::Denied, last_note(candidate)),
        (true, false) => return found(Kind::Allowed, last_note(live)),
        (false, false) => {}
    }
    if live.code != candidate.code {
        return found(Kind::Outcome, format!("it ends with {} and not with {}", name(candidate), name(live)));
    }
    if live.tool != candidate.tool {
        return found(Kind::Rerouted, "another tool was called".to_owned());
    }
    let json = |one: &Option<String>, other: &Option<String>| match (one, other) {
        (Some(one), Some(other)) => same_json(one, other),
        (one, other) => one == other,
    };
    let parts = [
        ("its text is another", live.text == candidate.text),
        ("its content is another", {
            live.content.len() == candidate.content.len()
                && live.content.iter().zip(&candidate.content).all(|(one, other)| same_json(one, other))
        }),
        ("its structured content is another", json(&live.structured, &candidate.structured)),
        ("its other members are others", json(&live.more, &candidate.more)),
        ("the answer is another", json(&live.answer, &candidate.answer)),
        ("it is cut by one of them alone", live.truncated == candidate.truncated),
    ];
    let (what, _) = parts.into_iter().find(|(_, same)| !same)?;
    found(Kind::Result, what.to_owned())
}

fn nothing() -> Difference {
    Difference { kind: Kind::Outcome, rule: String::new() }
}

fn last_note(result: &ToolResult) -> String {
    result.trace.last().cloned().unwrap_or_default()
}

/// Whose tool a request is for.
fn target(request: &Request) -> (&str, Option<String>) {
    #[derive(Deserialize)]
    struct Params {
        name: String,
    }
    (&request.server, serde_json::from_str(&request.params).ok().map(|Params { name }| name))
}

/// Whether two texts are the same JSON, however it is written.
fn same_json(one: &str, other: &str) -> bool {
    let tidy = |text: &str| serde_json::from_str::<&RawValue>(text).ok().and_then(|raw| compact(raw.get()));
    one == other || tidy(one).is_some_and(|one| tidy(other) == Some(one))
}

/// JSON without blanks between its tokens; numbers keep their digits and members their order.
fn compact(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for letter in text.chars() {
        if !quoted && letter.is_ascii_whitespace() {
            continue;
        }
        out.push(letter);
        match letter {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
    (!quoted).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::execution::Oversize;
    use crate::logic::types::{ToolRef, WaitRange};

    fn tool(name: &str) -> ToolRef {
        ToolRef { server: "s".to_owned(), tool: name.to_owned() }
    }

    fn request(name: &str, arguments: &str) -> Directive {
        let params = format!(r#"{{"name":"{name}","arguments":{arguments}}}"#);
        Directive::Request(Request {
            server: "s".to_owned(),
            method: "tools/call".to_owned(),
            params,
            forward_up_to: None,
        })
    }

    fn ask(name: &str) -> Directive {
        Directive::Ask(Question { tool: tool(name), arguments: "{}".to_owned(), reason: "ask: \"a\"".to_owned() })
    }

    fn done(code: Code, text: &str) -> Directive {
        Directive::Done(ToolResult {
            call_id: "1".to_owned(),
            name: "s.a".to_owned(),
            tool: Some(tool("a")),
            text: text.to_owned(),
            content: Vec::new(),
            structured: None,
            more: None,
            answer: None,
            is_error: code != Code::Ok,
            code,
            attempts: 1,
            truncated: false,
            trace: vec!["first".to_owned(), "the rule".to_owned()],
        })
    }

    fn wait(min_ms: u64) -> Directive {
        Directive::Wait(WaitRange { min_ms, max_ms: 750 })
    }

    fn condense(text: &str) -> Directive {
        Directive::Condense(Oversize { tool: tool("a"), text: text.to_owned(), spill: true, summarize: false })
    }

    #[test]
    fn the_first_difference_says_what_the_candidate_does_otherwise() {
        let a = || request("a", r#"{"n":1}"#);
        let ok = || done(Code::Ok, "fine");
        let rows = [
            (vec![a(), ok()], vec![done(Code::NotAllowed, "")], Some((Kind::Denied, "the rule"))),
            (vec![done(Code::UnknownTool, "")], vec![a()], Some((Kind::Allowed, "the rule"))),
            (vec![done(Code::NotAllowed, "")], vec![done(Code::UnknownServer, "other")], None),
            (vec![a(), ok()], vec![ask("a")], Some((Kind::Approval, "ask: \"a\""))),
            (vec![ask("a"), a(), ok()], vec![a()], Some((Kind::Approval, "ask: \"a\""))),
            (vec![ask("a"), a(), ok()], vec![done(Code::NotAllowed, "")], Some((Kind::Denied, "the rule"))),
            (vec![a(), ok()], vec![request("b", r#"{"n":1}"#)], Some((Kind::Rerouted, "another tool is called"))),
            (vec![ask("a")], vec![ask("b")], Some((Kind::Rerouted, "another tool is called"))),
            (vec![a(), ok()], vec![request("a", r#"{"n":"1"}"#)], Some((Kind::Arguments, "they are read otherwise"))),
            (vec![a(), ok()], vec![request("a", r#"{ "n": 1 }"#), ok()], None),
            (vec![a()], vec![done(Code::InvalidArguments, "")], Some((Kind::Arguments, "they are refused"))),
            (vec![done(Code::InvalidArguments, "")], vec![a()], Some((Kind::Arguments, "they are no longer refused"))),
            (vec![a(), ok()], vec![a(), done(Code::Ok, "f**e")], Some((Kind::Result, "its text is another"))),
            (vec![a(), condense("x"), ok()], vec![a(), condense("y")], Some((Kind::Result, "its text is another"))),
            (vec![a(), condense("x"), ok()], vec![a(), ok()], Some((Kind::Result, "its text is another"))),
            (
                vec![a(), wait(250), a(), ok()],
                vec![a(), done(Code::ServerUnavailable, "")],
                Some((Kind::Retry, "the failure is met in another way")),
            ),
            (vec![a(), wait(250), a()], vec![a(), wait(500)], Some((Kind::Retry, "the failure is met in another way"))),
            (
                vec![a(), done(Code::Timeout, "")],
                vec![a(), done(Code::OutcomeUnknown, "")],
                Some((Kind::Outcome, "it ends with outcome-unknown and not with timeout")),
            ),
            (vec![Directive::Connect(vec!["s".to_owned()]), a(), ok()], vec![a(), ok()], None),
            (vec![a(), ok()], vec![Directive::Connect(vec!["t".to_owned()]), a()], None),
            (vec![a(), ok()], vec![a(), ok()], None),
        ];
        for (at, (live, candidate, expected)) in rows.into_iter().enumerate() {
            let found = compare(&live, &candidate);
            let found = found.as_ref().map(|found| (found.kind, found.rule.as_str()));
            assert_eq!(found, expected, "row {at}");
        }
    }

    #[test]
    fn the_same_json_is_the_same_however_it_is_written() {
        let rows = [
            (r#"{"a": [1, 2.50], "b":"x y"}"#, r#"{"a":[1,2.50],"b":"x y"}"#, true),
            (r#"{"a":"x y"}"#, r#"{"a":"xy"}"#, false),
            (r#"{"a":1.0}"#, r#"{"a":1}"#, false),
            (r#"{"a":"\" \\"}"#, r#"{ "a" : "\" \\" }"#, true),
            ("nonsense", "non sense", false),
        ];
        for (one, other, same) in rows {
            assert_eq!(same_json(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn no_difference_quotes_arguments_or_results() {
        let found = compare(&[request("a", r#"{"key":"s3cret"}"#)], &[request("a", r#"{"key":"other s3cret"}"#)]);
        assert!(!format!("{found:?}").contains("s3cret"));
        let found = compare(&[done(Code::Ok, "s3cret")], &[done(Code::Ok, "[MASKED]")]);
        assert!(!format!("{found:?}").contains("s3cret"));
    }
}
