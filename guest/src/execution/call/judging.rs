//! What rules do with a call, once its arguments are read and its circumstances are known.

use std::borrow::Cow;
use std::rc::Rc;

use super::{Approval, Execution, State, describe_tool};
use crate::execution::{Code, Directive};
use crate::json;
use crate::rules::{AgentContext, CallCount, Circumstances, CompiledRules, Judgement, Rule, Ruling, Subject};
use crate::schema::Document;

impl Execution {
    /// Looks at the rules that concern the call.
    pub(super) fn judge(&mut self, seen: Circumstances) -> Directive {
        let (State::Judging(waiting), Some(plan), Some(meant)) = (&mut self.state, &mut self.plan, &self.tool) else {
            return self.fail(Code::Internal, "there is no call to judge");
        };
        let seen = match waiting.first.take() {
            Some(first) => with_known(first, seen.context),
            None => seen,
        };
        let concerns = Rc::clone(&waiting.concerns);
        let Ok(arguments) = json::parse(&plan.arguments) else {
            return self.fail(Code::Internal, "the arguments cannot be read again");
        };
        let (rules, annotations) = {
            let gate = self.gate.borrow();
            let tool = &meant.entry.tool;
            (Rc::clone(&gate.rules), gate.access.annotations(&meant.server, &tool.name, tool.annotations))
        };
        let tool = &*meant.entry.tool.name;
        let schema = meant.entry.schema().map(Document::root);
        let subject = Subject { server: &meant.server, tool, annotations, arguments: Some(&arguments), schema };
        if !waiting.has_known && rules.needs_known(&concerns, subject, &seen.context.labels) {
            waiting.has_known = true;
            waiting.first = Some(seen);
            return Directive::Circumstances(true);
        }
        let reason = waiting.reason.take();
        let mut notes = Vec::new();
        let mut judgement = rules.judge(&concerns, subject, &seen, &mut notes);
        // Notes quote arguments, and the trace is logged.
        let masker = &plan.results.masker;
        self.notes.extend(notes.into_iter().map(|note| match masker.mask(&note) {
            Cow::Borrowed(same) if same == note => note,
            masked => Cow::Owned(masked.into_owned()),
        }));
        plan.lesson = rules.lesson(&concerns, subject, &seen, &mut judgement);
        let reason = match &judgement.ruling {
            Some(ruling) if ruling.denies => return self.refuse_by(&rules, ruling, None),
            Some(ruling) => {
                let reason = approval_reason(&rules, ruling, None);
                self.blame(rules.rule(ruling.rule), None);
                Some(reason)
            }
            None => reason,
        };
        self.note_labels();
        match (judgement.limits.is_empty(), reason) {
            (true, reason) => self.ask_or_request(reason),
            (false, None) => self.count(judgement, Approval::NotNeeded),
            (false, reason) => {
                self.uncounted = Some(judgement);
                self.ask_or_request(reason)
            }
        }
    }

    /// Has the call counted for the rules with limits that fit.
    pub(super) fn count(&mut self, judgement: Judgement, approval: Approval) -> Directive {
        let rules = Rc::clone(&self.gate.borrow().rules);
        let names = judgement.limits.iter().map(|number| rules.rule(*number).name.clone()).collect();
        self.state = State::Counting(judgement, approval);
        Directive::Count(names)
    }

    /// Looks at the limits of the rules that fit.
    pub(super) fn counted(&mut self, counts: &[CallCount]) -> Directive {
        let State::Counting(judgement, approval) = &mut self.state else {
            return self.fail(Code::Internal, "there is no call to count");
        };
        let (judgement, approval) = (std::mem::take(judgement), *approval);
        let rules = Rc::clone(&self.gate.borrow().rules);
        for (number, count) in judgement.limits.iter().zip(counts) {
            let Rule { name, limit, .. } = rules.rule(*number);
            let most = limit.map_or(0, |limit| limit.calls);
            self.notes.push(format!("rule {name:?}: call {} of {most} in its time", count.calls).into());
        }
        match (judgement.over_limit(&rules, counts), approval) {
            (Some((ruling, ends)), _) if ruling.denies => self.refuse_by(&rules, &ruling, ends),
            (Some((ruling, ends)), Approval::NotNeeded) => {
                self.blame(rules.rule(ruling.rule), ends);
                self.ask_or_request(Some(approval_reason(&rules, &ruling, ends)))
            }
            (Some(_), Approval::Given) | (None, _) => self.request(),
        }
    }

    fn refuse_by(&mut self, rules: &CompiledRules, ruling: &Ruling, ends_in_ms: Option<u64>) -> Directive {
        let rule = rules.rule(ruling.rule);
        let whom = self.tool.as_ref().map(describe_tool).unwrap_or_default();
        self.note(format!("denied by rule {:?}", rule.name));
        let why = explain(rule, ruling, ends_in_ms);
        self.blame(rule, ends_in_ms);
        self.fail(Code::NotAllowed, &format!("{whom} is refused: {why}"))
    }

    fn note_labels(&mut self) {
        if let Some(labels) = self.plan.as_ref().map(|plan| plan.lesson.labels()).filter(|labels| !labels.is_empty()) {
            let labels = labels.join(", ");
            self.note(format!("the agent gets labels: {labels}"));
        }
    }
}

/// Adds the context of a second report, which has the known values, to the first one.
fn with_known(mut first: Circumstances, second: AgentContext) -> Circumstances {
    for label in second.labels {
        if !first.context.labels.contains(&label) {
            first.context.labels.push(label);
        }
    }
    first.context.known = second.known;
    first
}

/// Says why a person is asked.
fn approval_reason(rules: &CompiledRules, ruling: &Ruling, ends_in_ms: Option<u64>) -> String {
    format!("needs approval: {}", explain(rules.rule(ruling.rule), ruling, ends_in_ms))
}

/// Explains why a rule restricts a call, for the model or the person who is asked.
fn explain(rule: &Rule, ruling: &Ruling, ends_in_ms: Option<u64>) -> String {
    let Rule { name, because, limit, .. } = rule;
    let mut why = match because {
        Some(because) => format!("{because} (rule {name:?})"),
        None => format!("rule {name:?}"),
    };
    if let Some(limit) = limit {
        why += &format!(": more than {} calls in {}", limit.calls, in_words(limit.per_ms));
    }
    if let Some(ends) = ends_in_ms {
        why += &format!("; try again in {}", in_words(ends));
    }
    if let Some(failure) = &ruling.failure {
        why += &format!("; {failure}");
    }
    why
}

/// Says how long a time is: in seconds, rounded up, or in larger units if it is a whole number of them.
fn in_words(ms: u64) -> String {
    let seconds = ms.div_ceil(1000);
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let (length, unit) =
        *units.iter().find(|(length, _)| seconds > 0 && seconds.is_multiple_of(*length)).unwrap_or(&(1, "second"));
    match seconds / length {
        1 => format!("1 {unit}"),
        many => format!("{many} {unit}s"),
    }
}
