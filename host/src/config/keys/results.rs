//! The keys of `summarizer` and `spill`.

use std::time::Duration;

use super::super::command;
use super::super::document::NodeValue;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{
    ServerConfig, ServerSummarizer, SpillSettings, SummarizerKind, SummarizerRules, TransportKind, UnexpandedText,
};
use super::super::section::{ConfigKey, KeyForm, read_keys, read_section, schema};

/// The value of `summarizer` as written, before its kind is known.
#[derive(Debug, PartialEq)]
pub(crate) struct SummarizerDraft {
    command: Option<UnexpandedText>,
    command_args: Vec<UnexpandedText>,
    args: Vec<UnexpandedText>,
    url: Option<UnexpandedText>,
    model: Option<UnexpandedText>,
    api_key: Option<UnexpandedText>,
    timeout: Duration,
    max_input_bytes: u64,
}

impl Default for SummarizerDraft {
    fn default() -> Self {
        SummarizerDraft {
            command: None,
            command_args: Vec::new(),
            args: Vec::new(),
            url: None,
            model: None,
            api_key: None,
            timeout: Duration::from_secs(30),
            max_input_bytes: 1024 * 1024,
        }
    }
}

type SummarizerKey = ConfigKey<SummarizerDraft>;

/// The keys of `summarizer`.
pub(crate) const SUMMARIZER: &[SummarizerKey] = &[
    SummarizerKey::new(
        "command",
        KeyForm::Custom(schema::command, |draft, field, _| {
            let mut words = match &field.node.value {
                NodeValue::List(_) => field.unexpanded_texts()?,
                _ => vec![field.unexpanded_text()?],
            };
            draft.command_args = words.split_off(words.len().min(1));
            draft.command = words.pop().filter(|program| !program.text.trim().is_empty());
            Ok(())
        }),
    )
    .about("A program, or a list of the program and its arguments, that reads the text and writes the summary."),
    SummarizerKey::new("args", KeyForm::UnexpandedTexts(|draft, texts| draft.args = texts))
        .about("The program's arguments.")
        .default("[]"),
    SummarizerKey::new(
        "url",
        KeyForm::UnexpandedText(|draft, text| draft.url = Some(text).filter(|url| !url.text.trim().is_empty())),
    )
    .about("Instead of a program: the base URL of an OpenAI-compatible API."),
    SummarizerKey::new("model", KeyForm::UnexpandedText(|draft, text| draft.model = Some(text)))
        .about("For url: the model to ask."),
    SummarizerKey::new("api_key", KeyForm::UnexpandedText(|draft, text| draft.api_key = Some(text)))
        .about("For url: the API key, if one is needed."),
    SummarizerKey::new("timeout", KeyForm::Limit(|draft, limit| draft.timeout = limit))
        .about("How long a summary may take before the text is cut instead.")
        .default("\"30s\""),
    SummarizerKey::new(
        "max_input_bytes",
        KeyForm::BytesFrom(1024, "expected at least 1KiB; less needs no summary", |draft, bytes| {
            draft.max_input_bytes = bytes
        }),
    )
    .about("The most bytes of text to pass to the summarizer.")
    .default("\"1MiB\""),
];

type SpillKey = ConfigKey<SpillSettings>;

/// The keys of `spill`.
pub(crate) const SPILL: &[SpillKey] = &[
    SpillKey::new("dir", KeyForm::UnexpandedText(|spill, text| spill.dir = Some(text)))
        .about("The folder, relative to this file; default: ~/.cache/toolgate/results.")
        .aliased(&["folder", "directory"]),
    SpillKey::new(
        "max_bytes",
        KeyForm::BytesFrom(1024, "expected at least 1KiB; to keep no files, leave `spill` out", |spill, bytes| {
            spill.max_bytes = bytes
        }),
    )
    .about("The largest size of all files together; the oldest are deleted.")
    .default("\"256MiB\""),
    SpillKey::new(
        "max_age",
        KeyForm::RetentionAboveZero("must be longer than 0; to keep no files, leave `spill` out", |spill, span| {
            spill.max_age = span
        }),
    )
    .about("How long to keep each file.")
    .default("\"24h\""),
];

/// Reads `summarizer`.
pub(crate) fn read_summarizer(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<SummarizerRules, FieldError> {
    read_section(field, context, |field, context| {
        let mut draft = SummarizerDraft::default();
        read_keys(SUMMARIZER, &mut draft, field, context);
        draft.finish(field, context)
    })
}

/// Reads the `summarizer` of a server, which may be `false`.
pub(super) fn read_server_summarizer(
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<ServerSummarizer, FieldError> {
    match field.node.value {
        NodeValue::Scalar(_) if !field.node.is_null() => match field.flag()? {
            false => Ok(ServerSummarizer::Off),
            true => Ok(ServerSummarizer::Shared),
        },
        _ => read_summarizer(field, context).map(|rules| ServerSummarizer::Own(Box::new(rules))),
    }
}

/// Returns the schema of a server's `summarizer`.
pub(super) fn schema_of_server() -> serde_json::Value {
    schema::object_or("boolean", SUMMARIZER)
}

impl SummarizerDraft {
    fn finish(self, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<SummarizerRules, FieldError> {
        let stray = |part: &str, owner: &str| Err(field.error(format!("`{part}` is only for `{owner}`; remove it")));
        let how = match (self.command, self.url) {
            (Some(_), Some(_)) => return Err(field.error("both command and url are given; keep one of them")),
            (None, None) => {
                return Err(field.error("needs a `command` to run, or the `url` of an endpoint and a `model`"));
            }
            (Some(_), None) if self.model.is_some() => return stray("model", "url"),
            (Some(_), None) if self.api_key.is_some() => return stray("api_key", "url"),
            (None, Some(_)) if !self.args.is_empty() => return stray("args", "command"),
            (Some(command), None) => program(command, [self.command_args, self.args].concat(), field, context),
            (None, Some(url)) => {
                let model = self.model.filter(|model| !model.text.trim().is_empty());
                let model = model.ok_or_else(|| field.error("url needs a `model`"))?;
                SummarizerKind::Http { url, model, api_key: self.api_key }
            }
        };
        let position = field.node.place.clone();
        Ok(SummarizerRules { place: position, how, timeout: self.timeout, max_input_bytes: self.max_input_bytes })
    }
}

/// Splits the summarizer's command the way a server's command is split.
fn program(
    command: UnexpandedText,
    args: Vec<UnexpandedText>,
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> SummarizerKind {
    let mut server = ServerConfig::new("", field.node.place.clone(), TransportKind::Stdio);
    server.command = Some(command.clone());
    server.args = args;
    command::split(&mut server, context);
    SummarizerKind::Command { program: server.command.unwrap_or(command), args: server.args }
}

/// The largest number of tokens that a key accepts.
pub(super) const MAX_TOKENS: u64 = 1_000_000_000;
