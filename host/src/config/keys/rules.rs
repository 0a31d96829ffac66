//! The keys of `rules`, `results` and `context`.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::document::{NodeValue, ScalarKind};
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{ConditionPlace, ContextRules, ContextScope, ResultConfig, RuleConfig};
use super::super::section::{ChoiceForm, ConfigKey, KeyForm, read_keys, read_limit_in, schema};
use crate::config::duration::DurationUnit;
use crate::logic::types::rules::{CallLimit, Effect, LimitScope, ResultRule, Rule};

/// A rule as written, before it is known to be complete.
#[derive(Default)]
pub(crate) struct RuleDraft {
    name: String,
    tools: Option<Vec<String>>,
    condition: Option<(String, ConditionPlace)>,
    effect: Option<Effect>,
    limit: Option<CallLimit>,
    because: Option<String>,
}

type RuleKey = ConfigKey<RuleDraft>;

/// The keys of a rule.
pub(crate) const RULE: &[RuleKey] = &[
    RuleKey::rule("name", KeyForm::Text(|draft, text| draft.name = text))
        .about("A name for messages and logs, which no other rule has."),
    RuleKey::rule("tools", KeyForm::Patterns(|draft, patterns| draft.tools = Some(patterns)))
        .about("The tools that the rule is for: names and globs of the form `server.tool`; in a server, of its tools."),
    RuleKey::rule("when", KeyForm::Custom(schema::text, read_condition))
        .about("A condition on the call, in CEL; default: every call."),
    RuleKey::rule("then", KeyForm::Custom(effect_schema, read_effect))
        .about("What happens: `deny`, `ask` a person, `allow` (no later rule is looked at), or `label: [...]`."),
    RuleKey::rule(
        "limit",
        KeyForm::Custom(
            || schema::object(LIMIT),
            |draft, field, context| {
                let mut limit = LimitDraft::default();
                read_keys(LIMIT, &mut limit, field, context);
                limit.finish(field).map(|limit| draft.limit = Some(limit))
            },
        ),
    )
    .about("How many calls may fit before the rule has its effect; without `then`, more are denied."),
    RuleKey::new("because", KeyForm::Text(|draft, text| draft.because = Some(text)))
        .about("The reason, for the model and the log."),
];

/// A limit as written, before it is known to be complete.
#[derive(PartialEq)]
pub(crate) struct LimitDraft {
    calls: Option<u32>,
    per: Option<Duration>,
    by: LimitScope,
}

impl Default for LimitDraft {
    fn default() -> Self {
        LimitDraft { calls: None, per: None, by: LimitScope::Principal }
    }
}

type LimitKey = ConfigKey<LimitDraft>;

/// The keys of a rule's `limit`.
pub(crate) const LIMIT: &[LimitKey] = &[
    LimitKey::rule(
        "calls",
        KeyForm::Number(0, 1_000_000_000, |limit, number| limit.calls = u32::try_from(number).ok()),
    )
    .about("The number of calls."),
    LimitKey::rule(
        "per",
        KeyForm::Custom(schema::span, |limit, field, _| {
            read_limit_in(field, DurationUnit::Seconds).map(|span| limit.per = Some(span))
        }),
    )
    .about("The time in which they are counted, such as 1h; it begins with the first call."),
    LimitKey::rule("by", KeyForm::choice(&ChoiceForm(SCOPES, |limit, choice| limit.by = choice)))
        .about("Whether the calls of each `principal` are counted alone, or those of `everybody` together.")
        .default("\"principal\""),
];

const SCOPES: &[(&str, LimitScope)] = &[("principal", LimitScope::Principal), ("everybody", LimitScope::Everybody)];

impl LimitDraft {
    fn finish(self, field: &ConfigField<'_>) -> Result<CallLimit, FieldError> {
        let calls = self.calls.ok_or_else(|| field.error("a number of `calls` is missing"))?;
        let per = self.per.ok_or_else(|| field.error("a time is missing, such as `per: 1h`"))?;
        let per_ms = u64::try_from(per.as_millis()).unwrap_or(u64::MAX);
        Ok(CallLimit { calls, per_ms, by: self.by })
    }
}

/// Returns the schema of a list of rules.
pub(crate) fn rules_schema() -> Value {
    schema::list(schema::object(RULE))
}

/// Reads rules whose tools are named with their servers.
pub(crate) fn read_rules(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<RuleConfig>, FieldError> {
    read_list(field, context, |item, draft| match draft.tools.as_deref().unwrap_or_default() {
        [] => Err(item.error("names no `tools`; write [\"*\"] to mean all")),
        patterns => patterns.iter().try_for_each(|pattern| check_full_pattern(item, pattern)),
    })
}

/// Reads the rules of one server, whose tools are named without it; without `tools`, a rule is for all of them.
pub(crate) fn read_server_rules(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<Vec<RuleConfig>, FieldError> {
    read_list(field, context, |_, draft| {
        draft.tools.get_or_insert_with(|| vec!["*".to_owned()]);
        Ok(())
    })
}

fn read_list(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
    check_tools: fn(&ConfigField<'_>, &mut RuleDraft) -> Result<(), FieldError>,
) -> Result<Vec<RuleConfig>, FieldError> {
    let mut rules: Vec<RuleConfig> = Vec::new();
    for item in field.items()? {
        let mut draft = RuleDraft::default();
        let problems = context.problems.len();
        context.read_strictly(|context| read_keys(RULE, &mut draft, &item, context));
        // What is missing because it could not be read was reported already.
        if context.problems.len() > problems {
            continue;
        }
        check_tools(&item, &mut draft)?;
        let rule = draft.finish(&item)?;
        if rules.iter().any(|earlier| earlier.rule.name == rule.rule.name) {
            return Err(item.error(format!("the rule {:?} is given twice", rule.rule.name)));
        }
        rules.push(rule);
    }
    Ok(rules)
}

impl RuleDraft {
    fn finish(self, field: &ConfigField<'_>) -> Result<RuleConfig, FieldError> {
        if self.name.trim().is_empty() {
            return Err(field.error("a `name` is missing"));
        }
        let effect = match (self.effect, self.limit) {
            (Some(Effect::Allow | Effect::Label(_)), Some(_)) => {
                return Err(field.error("a `limit` goes with `then: deny` or `then: ask`"));
            }
            (Some(effect), _) => effect,
            (None, Some(_)) => Effect::Deny,
            (None, None) => return Err(field.error("does not say what happens; write `then: deny`, for example")),
        };
        let (condition, place) = self.condition.unzip();
        let rule = Rule {
            name: self.name,
            tools: self.tools.unwrap_or_default(),
            condition,
            effect,
            limit: self.limit,
            because: self.because,
        };
        Ok(RuleConfig { rule, place: field.node.place.clone(), condition: place })
    }
}

fn check_full_pattern(field: &ConfigField<'_>, pattern: &str) -> Result<(), FieldError> {
    match pattern.contains('.') || pattern.starts_with('*') {
        true => Ok(()),
        false => Err(field.error(format!("{pattern:?} is not of the form server.tool, such as files.read_*"))),
    }
}

fn read_condition(draft: &mut RuleDraft, field: &ConfigField<'_>, _: &mut ReadContext) -> Result<(), FieldError> {
    let quotes = match &field.node.value {
        NodeValue::Scalar(scalar) => scalar.quotes,
        _ => None,
    };
    let text = field.text()?;
    if text.trim().is_empty() {
        return Err(field.error("is empty; leave it out to mean every call"));
    }
    draft.condition = Some((text, ConditionPlace { place: field.node.place.clone(), quotes }));
    Ok(())
}

fn read_effect(draft: &mut RuleDraft, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError> {
    draft.effect = Some(match &field.node.value {
        NodeValue::Map(_) => {
            let mut labels: Option<Vec<String>> = None;
            read_keys(LABEL, &mut labels, field, context);
            match labels {
                Some(labels) if !labels.is_empty() => Effect::Label(labels),
                _ => return Err(field.error("names no label; write `label: [private]`, for example")),
            }
        }
        NodeValue::Scalar(scalar) if scalar.kind == ScalarKind::Text => match field.choice(EFFECTS)? {
            PlainEffect::Deny => Effect::Deny,
            PlainEffect::Ask => Effect::Ask,
            PlainEffect::Allow => Effect::Allow,
        },
        _ => return Err(field.error("expected deny, ask, allow, or label with a list")),
    });
    Ok(())
}

#[derive(Clone, Copy)]
enum PlainEffect {
    Deny,
    Ask,
    Allow,
}

const EFFECTS: &[(&str, PlainEffect)] =
    &[("deny", PlainEffect::Deny), ("ask", PlainEffect::Ask), ("allow", PlainEffect::Allow)];

const LABEL: &[ConfigKey<Option<Vec<String>>>] = &[ConfigKey::rule(
    "label",
    KeyForm::Custom(schema::texts, |labels, field, _| read_labels(field).map(|read| *labels = Some(read))),
)
.about("The labels that the agent gets by such a call.")];

fn effect_schema() -> Value {
    let label = schema::object(LABEL);
    json!({"type": ["string", "object"], "pattern": "^(deny|ask|allow)$", "properties": label["properties"],
        "additionalProperties": false})
}

fn read_labels(field: &ConfigField<'_>) -> Result<Vec<String>, FieldError> {
    field.each(|item| {
        let label = item.text()?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        match !label.is_empty() && label.len() <= 64 && label.bytes().all(allowed) {
            true => Ok(label),
            false => Err(item.error(format!("a label such as {label:?} must be letters, digits, `_`, `.` and `-`"))),
        }
    })
}

type ResultKey = ConfigKey<ResultRule>;

/// The keys of an entry of `results`.
pub(crate) const RESULT: &[ResultKey] = &[
    ResultKey::rule(
        "labels",
        KeyForm::Custom(schema::texts, |rule, field, _| read_labels(field).map(|labels| rule.labels = labels)),
    )
    .about("The labels that an agent gets by such a result, such as `untrusted` or `private`.")
    .default("[]"),
    ResultKey::rule("trusted", KeyForm::Flag(|rule, flag| rule.trusted = flag))
        .about("Whether the agent may send all values of such a result from then on.")
        .default("false"),
    ResultKey::rule("trusted_fields", KeyForm::Texts(|rule, texts| rule.trusted_fields = texts))
        .about("The members whose values it may send, as paths such as `owner.mail`; lists are passed through.")
        .default("[]"),
];

/// Reads `results`: what results mean, by names and globs of tools.
pub(crate) fn read_results(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<Vec<ResultConfig>, FieldError> {
    let mut results = Vec::new();
    for (pattern, value) in field.entries()? {
        check_full_pattern(&value, pattern)?;
        let mut rule =
            ResultRule { tools: pattern.to_owned(), labels: Vec::new(), trusted: false, trusted_fields: Vec::new() };
        context.read_strictly(|context| read_keys(RESULT, &mut rule, &value, context));
        results.push(ResultConfig { rule, place: value.node.place.clone() });
    }
    Ok(results)
}

type ContextKey = ConfigKey<ContextRules>;

/// The keys of `context`.
pub(crate) const CONTEXT: &[ContextKey] = &[
    ContextKey::rule("scope", KeyForm::choice(&ChoiceForm(CONTEXT_SCOPES, |rules, choice| rules.scope = choice)))
        .about(
            "Whose calls share what has been seen: those of a `principal`, of a `session` (a new session forgets), or \
             with one `trace` id, where clients keep one for each conversation.",
        )
        .default("\"principal\""),
    ContextKey::rule("idle", KeyForm::RetentionAboveZero("must be longer than 0", |rules, span| rules.idle = span))
        .about("How long it is remembered after the last call.")
        .default("\"30m\""),
];

/// The values of `context.scope`, from the strictest to the loosest.
pub(crate) const CONTEXT_SCOPES: &[(&str, ContextScope)] =
    &[("principal", ContextScope::Principal), ("session", ContextScope::Session), ("trace", ContextScope::Trace)];
