//! Compares what is decided now with what was decided then: a pure function of two lists of directives.

use super::difference::{Difference, DifferenceKind};
use super::directive::{RecordedDirective, RecordedLongText, RecordedRequest, RecordedResult, is_answer};
use crate::logic::types::execution::{Code, Question};
use crate::logic::types::{ToolRef, WaitRange};
use crate::words::NamedCase;

/// Returns all ways in which the second list of directives differs from the first.
///
/// Either list may end before `done`, because events that were not recorded cannot be replayed.
pub fn compare<'a>(
    was: impl IntoIterator<Item = &'a RecordedDirective>,
    now: impl IntoIterator<Item = &'a RecordedDirective>,
) -> Vec<Difference> {
    let (was, now) = (Course::of(was), Course::of(now));
    let whole = |kind| {
        let rule = match kind {
            DifferenceKind::Denied => now.last_note(),
            DifferenceKind::Allowed => was.last_note(),
            DifferenceKind::Rerouted => "a different tool is called".to_owned(),
            DifferenceKind::Arguments if now.has_bad_arguments() => "the arguments are refused".to_owned(),
            DifferenceKind::Arguments => "the arguments are no longer refused".to_owned(),
            DifferenceKind::Trace => OTHER_REASONS.to_owned(),
            _ => other_end(&was, &now),
        };
        vec![Difference::new(kind, &rule, was.describe(), now.describe())]
    };
    match (was.is_refused(), now.is_refused()) {
        (false, true) => return whole(DifferenceKind::Denied),
        (true, false) if now.is_admitted() || now.has_bad_arguments() => return whole(DifferenceKind::Allowed),
        // The tools of a server that was not connected then are unknown.
        (true, false) => return whole(DifferenceKind::Result),
        // The same refusal may list other available tools.
        (true, true) if was.code() == now.code() && was.result == now.result => return Vec::new(),
        (true, true) if was.code() == now.code() => return whole(DifferenceKind::Trace),
        (true, true) => return whole(DifferenceKind::Result),
        (false, false) => {}
    }
    match (was.is_admitted(), now.is_admitted()) {
        (true, true) if was.target_tool() != now.target_tool() => return whole(DifferenceKind::Rerouted),
        (true, false) | (false, true) if was.has_bad_arguments() || now.has_bad_arguments() => {
            return whole(DifferenceKind::Arguments);
        }
        (true, false) | (false, true) => return whole(DifferenceKind::Result),
        _ => {}
    }
    let mut found = Vec::new();
    let asks = |course: &Course<'_>| match course.question {
        Some(asked) => format!("asks a person: {}", asked.reason),
        None => "asks nobody".to_owned(),
    };
    match (was.question, now.question) {
        (Some(_), None) if was.requests.is_empty() && was.code() == Some(Code::Declined) => {
            return whole(DifferenceKind::Allowed);
        }
        (Some(asked), None) | (None, Some(asked)) => {
            found.push(Difference::new(DifferenceKind::Approval, &asked.reason, asks(&was), asks(&now)));
        }
        _ => {}
    }
    if let (Some(before), Some(after)) = (was.arguments(), now.arguments())
        && before != after
    {
        found.push(Difference::new(DifferenceKind::Arguments, "the arguments are read differently", before, after));
    }
    if was.later_steps != now.later_steps {
        found.push(Difference::new(
            DifferenceKind::Retry,
            "the failure is handled differently",
            was.describe_later_steps(),
            now.describe_later_steps(),
        ));
        return found;
    }
    let unread = |course: &Course<'_>| course.requests.first().is_some_and(|sent| sent.forward_up_to.is_some());
    let content = |course: &Course<'_>| course.result.is_some_and(|ended| ended.content.is_some());
    if unread(&was) && !unread(&now) && !content(&now) {
        let (rule, before) = ("the result is read", "the result was passed through");
        found.push(Difference::new(DifferenceKind::Unread, rule, before, "the result is read and masked"));
    }
    // If anything else differs, a difference in the reasons is not worth reporting.
    let end = compare_ends(&was, &now).filter(|end| found.is_empty() || end.kind != DifferenceKind::Trace);
    found.extend(end);
    found
}

/// Compares the ends of two calls that went the same way until then.
fn compare_ends(was: &Course<'_>, now: &Course<'_>) -> Option<Difference> {
    let differ = |kind, rule: &str, was: &str, now: &str| Some(Difference::new(kind, rule, was, now));
    let long_texts = (describe_long_text(was.long), describe_long_text(now.long));
    let handled_otherwise =
        |(was, now): (&str, &str)| differ(DifferenceKind::Result, "a long text is handled differently", was, now);
    let (Some(before), Some(after)) = (was.result, now.result) else {
        return match was.result.is_some() == now.result.is_some() {
            true => None,
            // The end is not recorded, so compare how the long text is handled.
            false if long_texts.0 != long_texts.1 => handled_otherwise(long_texts),
            false => differ(DifferenceKind::Result, &other_end(was, now), &was.describe_end(), &now.describe_end()),
        };
    };
    let differ_at_end = |kind, rule: &str| differ(kind, rule, &describe_end(before), &describe_end(after));
    if let (Some(was), Some(now)) = (was.long, now.long)
        && was.text != now.text
    {
        let text = |long: &RecordedLongText| format!("a text of {}", long.text.describe());
        return differ(DifferenceKind::Masking, "the text is masked differently", &text(was), &text(now));
    }
    if long_texts.0 != long_texts.1 {
        return handled_otherwise(long_texts);
    }
    if before.code != after.code {
        let masked = [before.code, after.code].contains(&Code::MaskingFailed);
        let kind = if masked { DifferenceKind::Masking } else { DifferenceKind::Result };
        return differ_at_end(kind, &other_end(was, now));
    }
    if before.truncated != after.truncated || before.text != after.text || before.attempts != after.attempts {
        return differ_at_end(DifferenceKind::Result, "the result differs");
    }
    // A result that was passed through has no recorded content here; `Replayer::differences` compares it.
    if before.content != after.content && before.content.is_some() && is_answer(after.code) {
        return differ_at_end(DifferenceKind::Masking, "the result is masked differently");
    }
    let new_notes = |of: &RecordedResult, other: &RecordedResult| {
        let notes = of.trace.iter().filter(|note| !other.trace.contains(note));
        notes.map(String::as_str).collect::<Vec<_>>().join("; ")
    };
    match before.trace == after.trace {
        true => None,
        false => differ(DifferenceKind::Trace, OTHER_REASONS, &new_notes(before, after), &new_notes(after, before)),
    }
}

/// Describes how the ends of two calls differ.
fn other_end(was: &Course<'_>, now: &Course<'_>) -> String {
    match (was.code().map(Code::name), now.code().map(Code::name)) {
        (Some(was), Some(now)) if was != now => format!("it ends with {now} instead of {was}"),
        (Some(was), None) => format!("it does not end with {was}"),
        (None, Some(now)) => format!("it ends with {now}"),
        _ => "it ends differently".to_owned(),
    }
}

/// Describes what happens to a text that is too long.
fn describe_long_text(long: Option<&RecordedLongText>) -> &'static str {
    match long {
        None => "the text is returned whole, or cut",
        Some(RecordedLongText { spill: true, summarize: true, .. }) => "the text is kept and summarized",
        Some(RecordedLongText { spill: true, .. }) => "the text is kept",
        Some(_) => "the text is summarized",
    }
}

/// The steps of a call, sorted by what they are for.
#[derive(Default)]
struct Course<'a> {
    question: Option<&'a Question>,
    requests: Vec<&'a RecordedRequest>,
    /// The steps after the first request, in words.
    later_steps: Vec<String>,
    long: Option<&'a RecordedLongText>,
    result: Option<&'a RecordedResult>,
}

impl<'a> Course<'a> {
    fn of(directives: impl IntoIterator<Item = &'a RecordedDirective>) -> Self {
        let mut course = Course::default();
        for directive in directives {
            let first = course.requests.is_empty();
            let after = match directive {
                RecordedDirective::Connect(_) | RecordedDirective::Circumstances(_) | RecordedDirective::Count(_) => {
                    None
                }
                RecordedDirective::Ask(asked) => {
                    course.question = Some(asked);
                    None
                }
                RecordedDirective::Request(sent) => {
                    course.requests.push(sent);
                    Some("request".to_owned())
                }
                RecordedDirective::Wait(WaitRange { min_ms, max_ms }) => Some(format!("wait {min_ms}–{max_ms} ms")),
                RecordedDirective::Reconnect(_) => Some("new session".to_owned()),
                RecordedDirective::Reauthenticate(_) => Some("new authorization".to_owned()),
                RecordedDirective::Condense(long) => {
                    course.long = Some(long);
                    None
                }
                RecordedDirective::Done(ended) => {
                    course.result = Some(ended);
                    None
                }
            };
            course.later_steps.extend(after.filter(|_| !first));
        }
        course
    }

    fn code(&self) -> Option<Code> {
        self.result.map(|ended| ended.code)
    }

    fn last_note(&self) -> String {
        self.result.and_then(|ended| ended.trace.last()).cloned().unwrap_or_default()
    }

    /// Reports whether the rules let the call through, to its server or to a person.
    fn is_admitted(&self) -> bool {
        self.question.is_some() || !self.requests.is_empty()
    }

    fn is_refused(&self) -> bool {
        matches!(self.code(), Some(Code::NotAllowed | Code::UnknownServer | Code::UnknownTool | Code::InvalidName))
    }

    fn has_bad_arguments(&self) -> bool {
        self.code() == Some(Code::InvalidArguments)
    }

    fn target_tool(&self) -> Option<&'a ToolRef> {
        let asked = self.question.map(|asked| &asked.tool);
        asked.or_else(|| self.requests.first().map(|sent| &sent.tool))
    }

    fn arguments(&self) -> Option<&'a str> {
        let asked = self.question.map(|asked| asked.arguments.as_str());
        asked.or_else(|| self.requests.first().map(|sent| sent.arguments.as_str()))
    }

    fn describe(&self) -> String {
        match (self.target_tool(), self.result) {
            (Some(ToolRef { server, tool }), _) if self.question.is_some() => format!("asks before {server}.{tool}"),
            (Some(ToolRef { server, tool }), _) => format!("calls {server}.{tool}"),
            (None, Some(ended)) => describe_end(ended),
            (None, None) => "was not decided".to_owned(),
        }
    }

    /// Describes the end of a call when another call went the same way until then and ended differently.
    fn describe_end(&self) -> String {
        if self.is_admitted() { self.describe_later_steps() } else { self.describe() }
    }

    fn describe_later_steps(&self) -> String {
        let end = self.code().map(|code| format!("ends as {}", code.name()));
        let words: Vec<&str> = self.later_steps.iter().map(String::as_str).chain(end.as_deref()).collect();
        if words.is_empty() { "waits for the answer".to_owned() } else { words.join(", ") }
    }
}

/// Describes in words how a call ended.
pub fn describe_end(ended: &RecordedResult) -> String {
    let cut = if ended.truncated { ", cut" } else { "" };
    let end = format!("{}{cut}", ended.code.name());
    match (&ended.text, &ended.content) {
        (Some(text), _) => format!("{end}: {text}"),
        (None, Some(content)) => format!("{end}, {}", content.describe()),
        (None, None) => end,
    }
}

const OTHER_REASONS: &str = "for other reasons";

#[cfg(test)]
mod tests {
    use super::super::digest::ContentDigest;
    use super::*;

    fn tool_ref(server: &str, tool: &str) -> ToolRef {
        ToolRef { server: server.to_owned(), tool: tool.to_owned() }
    }

    fn sent(server: &str, tool: &str, arguments: &str) -> RecordedDirective {
        let (tool, arguments) = (tool_ref(server, tool), arguments.to_owned());
        RecordedDirective::Request(RecordedRequest { tool, arguments, forward_up_to: None, learned: None })
    }

    fn unread() -> RecordedDirective {
        let RecordedDirective::Request(sent) = sent("a", "x", "{}") else { unreachable!("it is one") };
        RecordedDirective::Request(RecordedRequest { forward_up_to: Some(9), ..sent })
    }

    fn done(code: &str, content: Option<&str>) -> RecordedDirective {
        let code = Code::parse(code).unwrap();
        RecordedDirective::Done(Box::new(RecordedResult {
            code,
            tool: None,
            text: (!is_answer(code)).then(|| "why".to_owned()),
            content: content.map(ContentDigest::of),
            attempts: 1,
            truncated: false,
            trace: Vec::new(),
            learned: None,
        }))
    }

    fn changed(directive: RecordedDirective, change: impl FnOnce(&mut RecordedResult)) -> RecordedDirective {
        let RecordedDirective::Done(mut ended) = directive else { panic!("it is not over") };
        change(&mut ended);
        RecordedDirective::Done(ended)
    }

    fn ask() -> RecordedDirective {
        RecordedDirective::Ask(Question {
            tool: tool_ref("a", "x"),
            arguments: "{}".to_owned(),
            reason: "a rule".to_owned(),
        })
    }

    fn long(text: &str, summarize: bool) -> RecordedDirective {
        let (tool, text) = (tool_ref("a", "x"), ContentDigest::of(text));
        RecordedDirective::Condense(RecordedLongText { tool, text, spill: true, summarize })
    }

    #[test]
    fn each_kind_of_difference_has_its_name() {
        let x = || sent("a", "x", "{}");
        let wait = |min_ms| RecordedDirective::Wait(WaitRange { min_ms, max_ms: 750 });
        let ok = || done("ok", Some("answer"));
        let rows: Vec<(&str, Vec<RecordedDirective>, Vec<RecordedDirective>)> = vec![
            ("", vec![x(), ok()], vec![x(), ok()]),
            ("denied", vec![x(), ok()], vec![done("not-allowed", None)]),
            ("denied", vec![ask(), done("declined", None)], vec![done("unknown-tool", None)]),
            ("denied", vec![done("invalid-arguments", None)], vec![done("not-allowed", None)]),
            ("allowed", vec![done("not-allowed", None)], vec![x()]),
            ("allowed", vec![done("not-allowed", None)], vec![done("invalid-arguments", None)]),
            ("allowed", vec![done("unknown-server", None)], vec![ask()]),
            ("result", vec![done("unknown-server", None)], vec![done("server-unavailable", None)]),
            ("allowed", vec![ask(), done("declined", None)], vec![x()]),
            ("asked", vec![x(), ok()], vec![ask(), x(), ok()]),
            ("asked", vec![ask(), x(), ok()], vec![x(), ok()]),
            ("rerouted", vec![x(), ok()], vec![sent("b", "x", "{}")]),
            ("rerouted", vec![x(), ok()], vec![sent("a", "y", "{}")]),
            ("arguments", vec![x(), ok()], vec![sent("a", "x", r#"{"n":1}"#), ok()]),
            ("arguments", vec![x(), ok()], vec![done("invalid-arguments", None)]),
            ("arguments", vec![done("invalid-arguments", None)], vec![x()]),
            ("masking", vec![x(), ok()], vec![x(), done("ok", Some("[MASKED]"))]),
            ("masking", vec![x(), ok()], vec![x(), done("masking-failed", None)]),
            ("masking", vec![x(), long("a", true), ok()], vec![x(), long("b", true), ok()]),
            ("retry", vec![x(), done("outcome-unknown", None)], vec![x(), wait(250)]),
            ("retry", vec![x(), wait(250), x(), ok()], vec![x(), done("server-unavailable", None)]),
            ("retry", vec![x(), wait(250), x(), ok()], vec![x(), wait(300), x(), ok()]),
            ("unread", vec![unread(), done("ok", None)], vec![x(), done("ok", None)]),
            ("", vec![unread(), done("ok", None)], vec![x(), ok()]),
            ("result", vec![x(), ok()], vec![x(), done("tool-error", Some("answer"))]),
            ("result", vec![x(), ok()], vec![x(), changed(ok(), |ended| ended.truncated = true)]),
            ("result", vec![x(), long("a", true), ok()], vec![x(), long("a", false), ok()]),
            ("result", vec![x(), long("a", true), ok()], vec![x(), ok()]),
            ("result", vec![done("not-allowed", None)], vec![done("unknown-tool", None)]),
            (
                "trace",
                vec![done("unknown-tool", None)],
                vec![changed(done("unknown-tool", None), |ended| ended.text = Some("others".to_owned()))],
            ),
            ("trace", vec![x(), ok()], vec![x(), changed(ok(), |ended| ended.trace.push("a note".to_owned()))]),
            ("", vec![x()], vec![x()]),
        ];
        for (at, (expected, was, now)) in rows.into_iter().enumerate() {
            let found = compare(&was, &now);
            let kinds: Vec<_> = found.iter().map(|difference| difference.kind.name()).collect();
            assert_eq!(kinds.join(" "), expected, "row {at}: {found:?}");
        }
    }

    #[test]
    fn a_difference_names_its_rule_and_no_argument_or_answer() {
        let x = || sent("a", "x", r#"{"key":"s3cret"}"#);
        let noted = |code: &str| changed(done(code, None), |ended| ended.trace = vec!["first".into(), "rule".into()]);
        let ok = || done("ok", Some("s3cret"));
        let rows: Vec<(&str, Vec<RecordedDirective>, Vec<RecordedDirective>)> = vec![
            ("rule", vec![x(), ok()], vec![noted("not-allowed")]),
            ("rule", vec![noted("unknown-tool")], vec![x()]),
            ("a rule", vec![x(), ok()], vec![ask(), x(), ok()]),
            ("a different tool is called", vec![x(), ok()], vec![sent("a", "y", "{}")]),
            (
                "the arguments are read differently",
                vec![x(), ok()],
                vec![sent("a", "x", r#"{"key":"s3cret 2"}"#), ok()],
            ),
            ("the arguments are refused", vec![x(), ok()], vec![done("invalid-arguments", None)]),
            ("the arguments are no longer refused", vec![done("invalid-arguments", None)], vec![x()]),
            ("the result is masked differently", vec![x(), ok()], vec![x(), done("ok", Some("[MASKED]"))]),
            ("the failure is handled differently", vec![x(), x(), ok()], vec![x(), done("timeout", None)]),
            ("the result is read", vec![unread(), done("ok", None)], vec![sent("a", "x", "{}"), done("ok", None)]),
            ("it ends with timeout instead of ok", vec![x(), ok()], vec![x(), done("timeout", None)]),
            ("it does not end with ok", vec![x(), ok()], vec![x()]),
            ("a long text is handled differently", vec![x(), ok()], vec![x(), long("s3cret", true)]),
        ];
        for (at, (expected, was, now)) in rows.into_iter().enumerate() {
            let found = compare(&was, &now);
            assert_eq!(found.first().map(|found| found.rule.as_str()), Some(expected), "row {at}: {found:?}");
        }
    }

    #[test]
    fn the_sides_of_a_difference_are_told_apart() {
        let x = || sent("a", "x", "{}");
        let ok = || done("ok", Some("answer"));
        let rows: Vec<(Vec<RecordedDirective>, Vec<RecordedDirective>, &str)> = vec![
            (
                vec![x(), ok()],
                vec![x(), long("a", true)],
                "the text is returned whole, or cut → the text is kept and summarized",
            ),
            (vec![x(), long("a", false)], vec![x(), ok()], "the text is kept → the text is returned whole, or cut"),
            (vec![x(), ok()], vec![x()], "ends as ok → waits for the answer"),
            (vec![done("timeout", None)], vec![], "timeout: why → was not decided"),
        ];
        for (was, now, expected) in rows {
            let found = compare(&was, &now);
            let sides: Vec<String> = found.iter().map(|found| format!("{} → {}", found.was, found.now)).collect();
            assert_eq!(sides, [expected]);
        }
    }

    #[test]
    fn one_call_can_differ_in_several_ways() {
        let was = [sent("a", "x", "{}"), done("ok", Some("answer"))];
        let now = [ask(), sent("a", "x", r#"{"n":1}"#), done("ok", Some("other"))];
        let found = compare(&was, &now);
        let kinds: Vec<_> = found.iter().map(|difference| difference.kind).collect();
        // The question shows the recorded arguments.
        assert_eq!(kinds, [DifferenceKind::Approval, DifferenceKind::Masking], "{found:?}");
    }
}
