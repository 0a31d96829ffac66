//! What an agent learns by a call: labels, and values that it may send from then on.

use std::collections::BTreeSet;

use super::values::learned;
use super::{
    AgentContext, Circumstances, CompiledRules, Judgement, KnownValue, MAX_KNOWN, Subject, ToolConcerns, is_name,
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
    /// Returns what an agent learns by a call that was judged.
    pub(crate) fn lesson(
        &self,
        concerns: &ToolConcerns,
        subject: Subject<'_>,
        seen: &Circumstances,
        judgement: &mut Judgement,
    ) -> Lesson {
        let is_untrusted = seen.context.labels.iter().any(|label| label == UNTRUSTED);
        let reads = subject.annotations.read_only == Some(true);
        let mut labels = std::mem::take(&mut judgement.labels);
        let written = format!("{WRITTEN}{}", subject.server);
        let rule = concerns.result.map(|number| &self.results[number].0);
        labels.extend(rule.iter().flat_map(|rule| rule.labels.iter().cloned()));
        if is_untrusted && !reads && self.teaches {
            labels.push(written.clone());
        }
        let mut new = Vec::new();
        for label in labels {
            if !seen.context.labels.contains(&label) && !new.contains(&label) {
                new.push(label);
            }
        }
        let mut known = std::mem::take(&mut judgement.used);
        let mut lesson = Lesson { labels: new, known: Vec::new(), result: None };
        if self.teaches {
            // Only what reads can teach; an operator who names a tool that says nothing knows that it reads.
            let may_teach = |pattern: &str| reads || subject.annotations.read_only.is_none() && is_name(pattern);
            let is_safe = !seen.context.labels.contains(&written);
            let teacher = rule
                .filter(|rule| (rule.trusted || !rule.trusted_fields.is_empty()) && may_teach(&rule.tools) && is_safe);
            // What an untrusted agent sends matters only if it may come back.
            let arguments = subject.arguments.filter(|_| !is_untrusted || teacher.is_some()).map(Value::from_json);
            let sent = arguments.map(|arguments| learned(&arguments)).unwrap_or_default();
            if !is_untrusted {
                known.extend(&sent);
            }
            lesson.result = teacher
                .map(|rule| TaughtByResult { fields: (!rule.trusted).then(|| rule.trusted_fields.clone()), sent });
        }
        lesson.known = known;
        lesson
    }
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
/// The beginning of the label of an agent that wrote something to a server after that. What it reads there may be its
/// own words, so it teaches nothing any more.
const WRITTEN: &str = "written:";
