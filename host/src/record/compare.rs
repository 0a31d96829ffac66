//! How what is decided now differs from what was decided then: a pure function over two lists of directives.

use super::said::{Asked, Ended, Long, Said, Sent, is_answer};

/// What became of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It was let through, and is refused now.
    Denied,
    /// It was refused, and is let through now.
    Allowed,
    /// A person is asked now, or no longer is.
    Asked,
    /// It goes to another tool.
    Rerouted,
    /// Its arguments are read otherwise.
    Arguments,
    /// Other parts of its answer are masked.
    Masking,
    /// After a failure it goes on otherwise.
    Retry,
    /// Its answer passed unread, and is read now; what would be masked in it is not known, since it was not kept.
    Unread,
    /// It ends otherwise.
    Result,
    /// It ends alike, for other reasons.
    Trace,
}

impl Kind {
    /// All of them, gravest first, with their names.
    pub const ALL: [(Kind, &'static str, &'static str); 10] = [
        (Kind::Denied, "denied", "newly denied"),
        (Kind::Allowed, "allowed", "newly allowed"),
        (Kind::Asked, "asked", "approval differs"),
        (Kind::Rerouted, "rerouted", "re-routed"),
        (Kind::Arguments, "arguments", "arguments read differently"),
        (Kind::Masking, "masking", "masked differently"),
        (Kind::Retry, "retry", "retried differently"),
        (Kind::Unread, "unread", "answer read now"),
        (Kind::Result, "result", "ends differently"),
        (Kind::Trace, "trace", "other reasons"),
    ];

    /// Its name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// The kind of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }
}

/// One way in which a decision differs, with both sides in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What became of it.
    pub kind: Kind,
    /// The rule that decided, or what is not the same; no word of arguments or answers, which the sides may quote.
    pub rule: String,
    /// What was decided then.
    pub was: String,
    /// What is decided now.
    pub now: String,
}

/// All ways in which the second list of directives differs from the first; none where they come to the same.
///
/// Either may end before `done`: what was not recorded cannot be played.
pub fn compare<'a>(
    was: impl IntoIterator<Item = &'a Said>,
    now: impl IntoIterator<Item = &'a Said>,
) -> Vec<Difference> {
    let (was, now) = (Course::of(was), Course::of(now));
    let whole = |kind| {
        let rule = match kind {
            Kind::Denied => now.last_note(),
            Kind::Allowed => was.last_note(),
            Kind::Rerouted => "another tool is called".to_owned(),
            Kind::Arguments if now.has_bad_arguments() => "they are refused".to_owned(),
            Kind::Arguments => "they are no longer refused".to_owned(),
            Kind::Trace => OTHER_REASONS.to_owned(),
            _ => other_end(was.code(), now.code()),
        };
        vec![Difference { kind, rule, was: was.say(), now: now.say() }]
    };
    match (was.is_refused(), now.is_refused()) {
        (false, true) => return whole(Kind::Denied),
        (true, false) if now.is_through() || now.has_bad_arguments() => return whole(Kind::Allowed),
        // What a server would have offered that was not connected then, nobody knows.
        (true, false) => return whole(Kind::Result),
        // The same refusal may name other tools that there are.
        (true, true) if was.code() == now.code() && was.ended == now.ended => return Vec::new(),
        (true, true) if was.code() == now.code() => return whole(Kind::Trace),
        (true, true) => return whole(Kind::Result),
        (false, false) => {}
    }
    match (was.is_through(), now.is_through()) {
        (true, true) if was.place() != now.place() => return whole(Kind::Rerouted),
        (true, false) | (false, true) if was.has_bad_arguments() || now.has_bad_arguments() => {
            return whole(Kind::Arguments);
        }
        (true, false) | (false, true) => return whole(Kind::Result),
        _ => {}
    }
    let mut found = Vec::new();
    let asks = |course: &Course<'_>| match course.asked {
        Some(asked) => format!("asks a person: {}", asked.reason),
        None => "asks nobody".to_owned(),
    };
    match (was.asked, now.asked) {
        (Some(_), None) if was.sent.is_empty() && was.code() == Some("declined") => return whole(Kind::Allowed),
        (Some(asked), None) | (None, Some(asked)) => {
            found.push(differ(Kind::Asked, &asked.reason, asks(&was), asks(&now)));
        }
        _ => {}
    }
    if let (Some(before), Some(after)) = (was.arguments(), now.arguments())
        && before != after
    {
        found.push(differ(Kind::Arguments, "they are read otherwise", before, after));
    }
    if was.after != now.after {
        found.push(differ(Kind::Retry, "the failure is met in another way", was.say_after(), now.say_after()));
        return found;
    }
    let unread = |course: &Course<'_>| course.sent.first().is_some_and(|sent| sent.forward_up_to.is_some());
    let content = |course: &Course<'_>| course.ended.is_some_and(|ended| ended.content.is_some());
    if unread(&was) && !unread(&now) && !content(&now) {
        let now = "the answer would be read, and masked where anything is found in it".to_owned();
        found.push(differ(Kind::Unread, "its answer is read", "the answer passed unread".to_owned(), now));
    }
    // Where more than the reasons differ, nobody needs to be told that these do.
    let end = compare_ends(&was, &now).filter(|end| found.is_empty() || end.kind != Kind::Trace);
    found.extend(end);
    found
}

/// How the ends differ of two courses that went alike until then.
fn compare_ends(was: &Course<'_>, now: &Course<'_>) -> Option<Difference> {
    let differ = |kind, rule: &str, was, now| Some(differ(kind, rule, was, now));
    let (Some(before), Some(after)) = (was.ended, now.ended) else {
        if was.ended.is_some() == now.ended.is_some() {
            return None;
        }
        // What becomes of a text that was not too long then, nobody knows.
        if wants(was.long) != wants(now.long) {
            return differ(Kind::Result, OTHERWISE_LONG, wants(was.long), wants(now.long));
        }
        return differ(Kind::Result, &other_end(was.code(), now.code()), was.say_end(), now.say_end());
    };
    match (was.long, now.long) {
        (Some(long), Some(other)) if long.text != other.text => {
            let text = |long: &Long| format!("a text of {} bytes, {}", long.text.bytes, short(&long.text.sha256));
            return differ(Kind::Masking, "its text is masked otherwise", text(long), text(other));
        }
        (long, other) if wants(long) != wants(other) => {
            return differ(Kind::Result, OTHERWISE_LONG, wants(long), wants(other));
        }
        _ => {}
    }
    if before.code != after.code {
        let masked = [before, after].iter().any(|ended| ended.code == "masking-failed");
        let kind = if masked { Kind::Masking } else { Kind::Result };
        return differ(kind, &other_end(was.code(), now.code()), say_end(before), say_end(after));
    }
    if before.truncated != after.truncated || before.text != after.text || before.attempts != after.attempts {
        return differ(Kind::Result, "its result is another", say_end(before), say_end(after));
    }
    // What passed unread then is compared by whoever has the answer.
    if before.content != after.content && before.content.is_some() && is_answer(&after.code) {
        return differ(Kind::Masking, "its answer is masked otherwise", say_end(before), say_end(after));
    }
    (before.trace != after.trace).then(|| {
        let news = |of: &Ended, other: &Ended| {
            let notes = of.trace.iter().filter(|note| !other.trace.contains(note));
            notes.map(String::as_str).collect::<Vec<_>>().join("; ")
        };
        Difference {
            kind: Kind::Trace,
            rule: OTHER_REASONS.to_owned(),
            was: news(before, after),
            now: news(after, before),
        }
    })
}

fn differ(kind: Kind, rule: &str, was: String, now: String) -> Difference {
    Difference { kind, rule: rule.to_owned(), was, now }
}

/// How two calls end that end with these codes.
fn other_end(was: Option<&str>, now: Option<&str>) -> String {
    match (was, now) {
        (Some(was), Some(now)) if was != now => format!("it ends with {now} and not with {was}"),
        (Some(was), None) => format!("it does not end with {was}"),
        (None, Some(now)) => format!("it ends with {now}"),
        _ => "it ends otherwise".to_owned(),
    }
}

/// What happens to a text that is too long.
fn wants(long: Option<&Long>) -> String {
    match long {
        None => "the text is given out as it is, or cut".to_owned(),
        Some(Long { spill: true, summarize: true, .. }) => "the text is kept and summarized".to_owned(),
        Some(Long { spill: true, .. }) => "the text is kept".to_owned(),
        Some(_) => "the text is summarized".to_owned(),
    }
}

/// The course that a call took.
#[derive(Default)]
struct Course<'a> {
    asked: Option<&'a Asked>,
    sent: Vec<&'a Sent>,
    /// What was done after the first request, in words.
    after: Vec<String>,
    long: Option<&'a Long>,
    ended: Option<&'a Ended>,
}

impl<'a> Course<'a> {
    fn of(said: impl IntoIterator<Item = &'a Said>) -> Self {
        let mut course = Course::default();
        for said in said {
            let first = course.sent.is_empty();
            let after = match said {
                Said::Connect(_) => None,
                Said::Ask(asked) => {
                    course.asked = Some(asked);
                    None
                }
                Said::Request(sent) => {
                    course.sent.push(sent);
                    Some("request".to_owned())
                }
                Said::Wait { min_ms, max_ms } => Some(format!("wait {min_ms}–{max_ms} ms")),
                Said::Reconnect(_) => Some("new session".to_owned()),
                Said::Reauthenticate(_) => Some("new authorization".to_owned()),
                Said::Condense(long) => {
                    course.long = Some(long);
                    None
                }
                Said::Done(ended) => {
                    course.ended = Some(ended);
                    None
                }
            };
            course.after.extend(after.filter(|_| !first));
        }
        course
    }

    fn code(&self) -> Option<&'a str> {
        self.ended.map(|ended| ended.code.as_str())
    }

    fn last_note(&self) -> String {
        self.ended.and_then(|ended| ended.trace.last()).cloned().unwrap_or_default()
    }

    /// The rules let it through, to its server or to a person.
    fn is_through(&self) -> bool {
        self.asked.is_some() || !self.sent.is_empty()
    }

    fn is_refused(&self) -> bool {
        matches!(self.code(), Some("not-allowed" | "unknown-server" | "unknown-tool" | "invalid-name"))
    }

    fn has_bad_arguments(&self) -> bool {
        self.code() == Some("invalid-arguments")
    }

    fn place(&self) -> Option<(String, String)> {
        let asked = self.asked.map(|asked| (asked.server.clone(), asked.tool.clone()));
        asked.or_else(|| self.sent.first().and_then(|sent| Some((sent.server.clone(), sent.call()?.0))))
    }

    fn arguments(&self) -> Option<String> {
        let asked = self.asked.map(|asked| asked.arguments.0.clone());
        asked.or_else(|| self.sent.first().and_then(|sent| Some(sent.call()?.1)))
    }

    fn say(&self) -> String {
        match (self.place(), self.ended) {
            (Some((server, tool)), _) if self.asked.is_some() => format!("asks before {server}.{tool}"),
            (Some((server, tool)), _) => format!("calls {server}.{tool}"),
            (None, Some(ended)) => say_end(ended),
            (None, None) => "was not decided".to_owned(),
        }
    }

    /// How it ends, where another one that went alike until then does not.
    fn say_end(&self) -> String {
        if self.is_through() { self.say_after() } else { self.say() }
    }

    fn say_after(&self) -> String {
        let end = self.code().map(|code| format!("ends as {code}"));
        let words: Vec<&str> = self.after.iter().map(String::as_str).chain(end.as_deref()).collect();
        if words.is_empty() { "waits for the answer".to_owned() } else { words.join(", ") }
    }
}

/// How a call ended, in words.
pub fn say_end(ended: &Ended) -> String {
    let cut = if ended.truncated { ", cut" } else { "" };
    match (&ended.text, &ended.content) {
        (Some(text), _) => format!("{}{cut}: {text}", ended.code),
        (None, Some(content)) => format!("{}{cut}, {} bytes, {}", ended.code, content.bytes, short(&content.sha256)),
        (None, None) => format!("{}{cut}", ended.code),
    }
}

/// As much of a digest as tells it from others.
pub fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

const OTHER_REASONS: &str = "for other reasons";
const OTHERWISE_LONG: &str = "a long text is met in another way";

#[cfg(test)]
mod tests {
    use super::super::said::Digest;
    use super::super::text::Text;
    use super::*;

    fn sent(server: &str, tool: &str, arguments: &str) -> Said {
        let params = Text(format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#));
        Said::Request(Sent { server: server.to_owned(), method: "tools/call".to_owned(), params, forward_up_to: None })
    }

    fn unread() -> Said {
        let Said::Request(sent) = sent("a", "x", "{}") else { unreachable!("it is one") };
        Said::Request(Sent { forward_up_to: Some(9), ..sent })
    }

    fn done(code: &str, content: Option<&str>) -> Said {
        Said::Done(Box::new(Ended {
            code: code.to_owned(),
            server: None,
            tool: None,
            text: (!is_answer(code)).then(|| "why".to_owned()),
            content: content.map(Digest::of),
            attempts: 1,
            truncated: false,
            trace: Vec::new(),
        }))
    }

    fn changed(said: Said, change: impl FnOnce(&mut Ended)) -> Said {
        let Said::Done(mut ended) = said else { panic!("it is not over") };
        change(&mut ended);
        Said::Done(ended)
    }

    fn ask() -> Said {
        Said::Ask(Asked {
            server: "a".to_owned(),
            tool: "x".to_owned(),
            arguments: Text("{}".to_owned()),
            reason: "a rule".to_owned(),
        })
    }

    fn long(text: &str, summarize: bool) -> Said {
        let text = Digest::of(text);
        Said::Condense(Long { server: "a".to_owned(), tool: "x".to_owned(), text, spill: true, summarize })
    }

    #[test]
    fn each_kind_of_difference_has_its_name() {
        let x = || sent("a", "x", "{}");
        let wait = |min_ms| Said::Wait { min_ms, max_ms: 750 };
        let ok = || done("ok", Some("answer"));
        let rows: Vec<(&str, Vec<Said>, Vec<Said>)> = vec![
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
        let rows: Vec<(&str, Vec<Said>, Vec<Said>)> = vec![
            ("rule", vec![x(), ok()], vec![noted("not-allowed")]),
            ("rule", vec![noted("unknown-tool")], vec![x()]),
            ("a rule", vec![x(), ok()], vec![ask(), x(), ok()]),
            ("another tool is called", vec![x(), ok()], vec![sent("a", "y", "{}")]),
            ("they are read otherwise", vec![x(), ok()], vec![sent("a", "x", r#"{"key":"s3cret 2"}"#), ok()]),
            ("they are refused", vec![x(), ok()], vec![done("invalid-arguments", None)]),
            ("they are no longer refused", vec![done("invalid-arguments", None)], vec![x()]),
            ("its answer is masked otherwise", vec![x(), ok()], vec![x(), done("ok", Some("[MASKED]"))]),
            ("the failure is met in another way", vec![x(), x(), ok()], vec![x(), done("timeout", None)]),
            ("its answer is read", vec![unread(), done("ok", None)], vec![sent("a", "x", "{}"), done("ok", None)]),
            ("it ends with timeout and not with ok", vec![x(), ok()], vec![x(), done("timeout", None)]),
            ("it does not end with ok", vec![x(), ok()], vec![x()]),
            ("a long text is met in another way", vec![x(), ok()], vec![x(), long("s3cret", true)]),
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
        let rows: Vec<(Vec<Said>, Vec<Said>, &str)> = vec![
            (
                vec![x(), ok()],
                vec![x(), long("a", true)],
                "the text is given out as it is, or cut → the text is kept and summarized",
            ),
            (vec![x(), long("a", false)], vec![x(), ok()], "the text is kept → the text is given out as it is, or cut"),
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
        // The question has the arguments of before.
        assert_eq!(kinds, [Kind::Asked, Kind::Masking], "{found:?}");
    }

    #[test]
    fn kinds_are_known_by_their_names() {
        for (at, (kind, name, title)) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.name(), kind.title()), (at, name, title));
            assert_eq!(Kind::parse(name), Some(kind));
        }
        assert_eq!(Kind::parse("other"), None);
    }
}
