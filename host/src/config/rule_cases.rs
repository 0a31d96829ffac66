//! Cases for `toolgate rules test`: calls, what surrounds each of them, and what rules must say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::document;
use super::error::ConfigError;
use super::field::{ConfigField, FieldError, ReadContext};
use super::model::{FilePosition, FileShape};
use super::section::{ConfigKey, KeyForm, read_keys, schema};

/// A file of cases.
#[derive(Debug, Default)]
pub struct RuleCases {
    /// The configuration whose rules are tested, relative to the file; `None` means the one of the command.
    pub config: Option<PathBuf>,
    /// Servers and their tools, as JSON in the shape of `eval`.
    pub servers: Option<Value>,
    /// The cases.
    pub cases: Vec<RuleCase>,
}

/// A call, what surrounds it, and what rules must say.
#[derive(Debug, Default)]
pub struct RuleCase {
    /// Where the case is written.
    pub place: Option<FilePosition>,
    /// What the case shows, for people.
    pub name: Option<String>,
    /// The name of the tool, as a model writes it.
    pub call: String,
    /// The arguments, as a model writes them.
    pub arguments: String,
    /// Who calls; `None` means the user who runs toolgate.
    pub principal: Option<String>,
    /// The name of the client program.
    pub client: String,
    /// What the agent has seen before.
    pub context: CaseContext,
    /// How often calls fitted rules with limits, with this one.
    pub counts: Vec<(String, u32)>,
    /// The verdict: `allow`, `ask`, `deny`, or the code of another end.
    pub expect: String,
    /// The rule that must decide.
    pub rule: Option<String>,
}

/// What an agent has seen before, and when it calls.
#[derive(Debug, Default)]
pub struct CaseContext {
    /// The labels of what it has seen.
    pub labels: Vec<String>,
    /// Values that it knows, as texts.
    pub known: Vec<String>,
    /// The time of the call, as RFC 3339 writes it.
    pub now: Option<String>,
}

type FileKey = ConfigKey<RuleCases>;
type CaseKey = ConfigKey<RuleCase>;
type ContextKey = ConfigKey<CaseContext>;

const FILE: &[FileKey] = &[
    FileKey::new("config", KeyForm::Text(|cases, text| cases.config = Some(text.into())))
        .about("The configuration whose rules are tested, relative to this file."),
    FileKey::new(
        "servers",
        KeyForm::Custom(schema::text_map, |cases, field, _| {
            cases.servers = Some(field.node.to_json());
            Ok(())
        }),
    )
    .about("Servers and their tools, in the shape of `eval`; other tools have no schema."),
    FileKey::new("cases", KeyForm::Custom(schema::texts, read_cases)).about("The cases."),
];

const CASE: &[CaseKey] = &[
    CaseKey::new("name", KeyForm::Text(|case, text| case.name = Some(text))),
    CaseKey::new("call", KeyForm::Text(|case, text| case.call = text)),
    CaseKey::new(
        "arguments",
        KeyForm::Custom(schema::text, |case, field, _| {
            case.arguments = match field.node.to_json() {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Ok(())
        }),
    ),
    CaseKey::new("principal", KeyForm::Text(|case, text| case.principal = Some(text))),
    CaseKey::new("client", KeyForm::Text(|case, text| case.client = text)),
    CaseKey::new(
        "context",
        KeyForm::Custom(schema::text_map, |case, field, context| {
            read_keys(CONTEXT, &mut case.context, field, context);
            Ok(())
        }),
    ),
    CaseKey::new(
        "counts",
        KeyForm::Custom(schema::text_map, |case, field, _| {
            let count = |(rule, value): (&str, ConfigField<'_>)| {
                let calls = value.number(0, u64::from(u32::MAX))?;
                Ok((rule.to_owned(), u32::try_from(calls).unwrap_or(u32::MAX)))
            };
            case.counts = field.entries()?.into_iter().map(count).collect::<Result<_, FieldError>>()?;
            Ok(())
        }),
    ),
    CaseKey::new("expect", KeyForm::Text(|case, text| case.expect = text)),
    CaseKey::new("rule", KeyForm::Text(|case, text| case.rule = Some(text))),
];

const CONTEXT: &[ContextKey] = &[
    ContextKey::new("labels", KeyForm::Texts(|context, texts| context.labels = texts)),
    ContextKey::new("known", KeyForm::Texts(|context, texts| context.known = texts)),
    ContextKey::new("now", KeyForm::Text(|context, text| context.now = Some(text))),
];

/// Reads a file of cases.
pub fn read_cases_file(file: &Path) -> Result<RuleCases, ConfigError> {
    let text = super::read_text(file)?;
    let document = document::read(&text, &Arc::from(file))?;
    let mut context = ReadContext::new(FileShape::Native);
    let mut cases = RuleCases::default();
    let root = ConfigField { node: &document.root, field: String::new() };
    read_keys(FILE, &mut cases, &root, &mut context);
    if let Some(problem) = context.problems.into_iter().next() {
        return Err(ConfigError::Invalid(problem));
    }
    if cases.cases.is_empty() {
        let text = "there are no cases; list them under `cases`, each with `call` and `expect`";
        return Err(ConfigError::invalid(document.root.place.clone(), text));
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    cases.config = cases.config.map(|config| folder.join(config));
    Ok(cases)
}

fn read_cases(cases: &mut RuleCases, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError> {
    for item in field.items()? {
        let mut case = RuleCase { place: Some(item.node.place.clone()), ..RuleCase::default() };
        read_keys(CASE, &mut case, &item, context);
        if case.call.is_empty() {
            return Err(item.error("does not say which tool is called; write `call: server.tool`"));
        }
        if case.expect.is_empty() {
            return Err(item.error("does not say what to expect; write `expect: deny`, for example"));
        }
        cases.cases.push(case);
    }
    Ok(())
}
