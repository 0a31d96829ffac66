//! What an agent learns by a call: labels, and values that it may send from then on.

use std::collections::BTreeSet;

use super::brought::brings_text;
use super::values::learned;
use super::{
    AgentContext, Circumstances, CompiledRules, Judgement, KnownValue, MAX_KNOWN, ResultRule, Subject, ToolConcerns,
    is_name,
};
use crate::cel::Value;
use crate::content::{self, Extracted};
use crate::json;
use crate::ordered;

/// What an agent learns by a call, as far as that is known before it is sent.
#[derive(Debug, Default)]
pub(crate) struct Lesson {
    labels: Vec<String>,
    /// The values that it uses, and those of its arguments if they teach.
    known: Vec<KnownValue>,
    /// What an agent may use of the result.
    result: Option<TaughtByResult>,
}

/// Which values of a result an agent may use.
#[derive(Debug)]
struct TaughtByResult {
    /// The members, as paths; `None` means all.
    fields: Option<Vec<String>>,
    /// The values of the call's own arguments, which teach nothing when they come back.
    sent: Vec<KnownValue>,
}

impl CompiledRules {
    /// Reports whether what an agent with these labels learns by a call depends on the values that it knows.
    pub(crate) fn needs_known(&self, concerns: &ToolConcerns, subject: Subject<'_>, labels: &[String]) -> bool {
        if !self.teaches || !has_label(labels, UNTRUSTED) {
            return false;
        }
        let teacher = self.teacher(concerns);
        if !reads(subject, teacher) {
            return false;
        }
        let has_written = has_label(labels, &written_label(subject.server));
        if has_written && teacher.is_none_or(|rule| rule.trusted_fields.is_empty()) {
            return false;
        }
        subject.arguments.is_none_or(|arguments| brings_text(arguments, subject.schema, &|_| false))
    }

    /// Returns what an agent learns by a call that was judged.
    pub(crate) fn lesson(
        &self,
        concerns: &ToolConcerns,
        subject: Subject<'_>,
        seen: &Circumstances,
        judgement: &mut Judgement,
    ) -> Lesson {
        let mut labels = std::mem::take(&mut judgement.labels);
        for number in &concerns.results {
            labels.extend(self.results[*number].0.labels.iter().cloned());
        }
        let teacher = self.teacher(concerns);
        let is_untrusted = has_label(&seen.context.labels, UNTRUSTED);
        let reads = reads(subject, teacher);
        let own_text = self.teaches && is_untrusted && self.has_own_text(subject, &seen.context);
        let written = written_label(subject.server);
        let mut has_written = has_label(&seen.context.labels, &written);
        if self.teaches && is_untrusted && (own_text || !reads) {
            has_written = true;
            labels.push(written);
        }
        let mut new = Vec::new();
        for label in labels {
            if !seen.context.labels.contains(&label) && !new.contains(&label) {
                new.push(label);
            }
        }
        let mut lesson = Lesson { labels: new, known: std::mem::take(&mut judgement.used), result: None };
        if !self.teaches {
            return lesson;
        }
        let fields = teacher.filter(|_| reads && !own_text).and_then(|rule| taught_fields(rule, has_written));
        // What an untrusted agent sends matters only if it may come back.
        let arguments = subject.arguments.filter(|_| !is_untrusted || fields.is_some()).map(Value::from_json);
        let sent = arguments.map(|arguments| learned(&arguments)).unwrap_or_default();
        if !is_untrusted {
            lesson.known.extend(&sent);
        }
        lesson.result = fields.map(|fields| TaughtByResult { fields, sent });
        lesson
    }

    /// Returns the entry by which results of a tool are trusted, as a whole or in part.
    fn teacher(&self, concerns: &ToolConcerns) -> Option<&ResultRule> {
        let closest = concerns.closest.map(|number| &self.results[number].0);
        closest.filter(|rule| rule.trusted || !rule.trusted_fields.is_empty())
    }

    /// Reports whether the arguments of a call have text that neither the tool's schema lists nor the agent knows. A
    /// domain or the beginning of a URL that is known says nothing about the rest: that is the agent's own text.
    fn has_own_text(&self, subject: Subject<'_>, context: &AgentContext) -> bool {
        let Some(arguments) = subject.arguments else { return true };
        let learned = ordered::set(context.known.iter().copied());
        let is_known =
            |text: &str| self.known.has_whole(text) || KnownValue::all_of(text).any(|value| learned.contains(&value));
        brings_text(arguments, subject.schema, &is_known)
    }
}

/// Reports whether a tool only reads. An operator who names a tool that says nothing, and trusts it, knows that it does.
fn reads(subject: Subject<'_>, teacher: Option<&ResultRule>) -> bool {
    let is_named = teacher.is_some_and(|rule| is_name(&rule.tools));
    subject.annotations.read_only.unwrap_or(is_named)
}

/// Returns which members of a result teach: `None` in it means all, which what was written to the server may be among.
fn taught_fields(rule: &ResultRule, has_written: bool) -> Option<Option<Vec<String>>> {
    if rule.trusted && !has_written {
        return Some(None);
    }
    if rule.trusted_fields.is_empty() { None } else { Some(Some(rule.trusted_fields.clone())) }
}

/// Returns the label of an agent that sent text of its own to a server after it became untrusted. What it reads there may
/// be this text in another form, so whole results teach nothing any more.
fn written_label(server: &str) -> String {
    format!("written:{server}")
}

fn has_label(labels: &[String], label: &str) -> bool {
    labels.iter().any(|other| other == label)
}

impl Lesson {
    /// Reports whether the result must be read.
    pub(crate) fn reads_result(&self) -> bool {
        self.result.is_some()
    }

    /// Returns the labels that the agent gets.
    pub(crate) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Returns the values that an agent may use of a result, if there are any.
    pub(crate) fn taught_by(&self, result: &Extracted<'_>) -> Option<AgentContext> {
        let taught = self.result.as_ref().filter(|_| !result.is_error)?;
        let mut found = Vec::new();
        if let Some(structured) = &result.structured {
            taught.collect(structured, &mut found);
        }
        // A text that stands beside other content may be the words of a stranger, and look like a record.
        let is_record = result.structured.is_none() && result.blocks.len() == 1;
        let texts = result.blocks.iter().filter(|block| content::is_text(block));
        for block in texts.filter(|_| taught.fields.is_none() || is_record) {
            let text = block.get("text").and_then(json::Value::as_str).unwrap_or_default();
            match json::parse(text.trim()) {
                Ok(value) => taught.collect(&value, &mut found),
                Err(_) => taught.collect(&json::Value::string(text), &mut found),
            }
        }
        let sent = ordered::set(taught.sent.iter().copied());
        context(&[], found.into_iter().filter(|value| !sent.contains(value)))
    }

    /// Returns what the agent learns by sending the call, if it is anything.
    pub(crate) fn learned(&self) -> Option<AgentContext> {
        context(&self.labels, self.known.iter().copied())
    }
}

/// Returns a context with each value once, and with the first ones if there are too many; `None` if it is empty.
fn context(labels: &[String], values: impl Iterator<Item = KnownValue>) -> Option<AgentContext> {
    let mut seen = BTreeSet::new();
    let known: Vec<_> = values.filter(|value| seen.insert(*value)).take(MAX_KNOWN).collect();
    (!known.is_empty() || !labels.is_empty()).then(|| AgentContext { labels: labels.to_vec(), known })
}

impl TaughtByResult {
    fn collect(&self, value: &json::Value<'_>, found: &mut Vec<KnownValue>) {
        match &self.fields {
            None => found.extend(learned(&Value::from_json(value))),
            Some(fields) => fields.iter().for_each(|field| collect_at(value, &mut field.split('.'), found)),
        }
    }
}

/// Collects the values behind a path; a list stands for each of its items.
fn collect_at<'p>(
    value: &json::Value<'_>,
    path: &mut (impl Iterator<Item = &'p str> + Clone),
    found: &mut Vec<KnownValue>,
) {
    if let json::Value::Array(items) = value {
        items.iter().for_each(|item| collect_at(item, &mut path.clone(), found));
        return;
    }
    match path.next() {
        None => found.extend(learned(&Value::from_json(value))),
        Some(name) => {
            if let Some(member) = value.get(name) {
                collect_at(member, path, found);
            }
        }
    }
}

/// The label of an agent that has seen what a stranger may have written.
const UNTRUSTED: &str = "untrusted";
