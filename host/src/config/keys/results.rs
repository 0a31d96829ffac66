//! The keys of `summarizer` and `spill`.

use std::time::Duration;

use super::super::command;
use super::super::document::NodeValue;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{
    ServerConfig, SpillSettings, SummarizerKind, SummarizerRules, TransportKind, UnexpandedText,
};
use super::lifecycle::read_retention;
use super::server::read_limit;
use super::{ConfigKey, KeyForm, read_keys, read_section};

/// The value of `summarizer` as written, before its kind is known.
#[derive(Debug, PartialEq)]
pub struct SummarizerDraft {
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

/// The keys of `summarizer`.
pub const SUMMARIZER: &[ConfigKey<SummarizerDraft>] = &[
    ConfigKey::new(
        "command",
        KeyForm::Command,
        "",
        "A program, or a list of the program and its arguments, that reads the text and writes the summary.",
        |draft, field, _| {
            let mut words = match &field.node.value {
                NodeValue::List(_) => {
                    field.items()?.iter().map(ConfigField::unexpanded_text).collect::<Result<Vec<_>, _>>()?
                }
                _ => vec![field.unexpanded_text()?],
            };
            let args = words.split_off(words.len().min(1));
            draft.command_args = args;
            draft.command = words.pop().filter(|program| !program.text.trim().is_empty());
            Ok(())
        },
    ),
    ConfigKey::new("args", KeyForm::Texts, "[]", "The program's arguments.", |draft, field, _| {
        draft.args = field.items()?.iter().map(ConfigField::unexpanded_text).collect::<Result<_, _>>()?;
        Ok(())
    }),
    ConfigKey::new(
        "url",
        KeyForm::Text,
        "",
        "Instead of a program: the base URL of an OpenAI-compatible API.",
        |draft, field, _| {
            draft.url = Some(field.unexpanded_text()?).filter(|url| !url.text.trim().is_empty());
            Ok(())
        },
    ),
    ConfigKey::new("model", KeyForm::Text, "", "For url: the model to ask.", |draft, field, _| {
        draft.model = Some(field.unexpanded_text()?);
        Ok(())
    }),
    ConfigKey::new("api_key", KeyForm::Text, "", "For url: the API key, if one is needed.", |draft, field, _| {
        draft.api_key = Some(field.unexpanded_text()?);
        Ok(())
    }),
    ConfigKey::new(
        "timeout",
        KeyForm::Span,
        "\"30s\"",
        "How long a summary may take before the text is cut instead.",
        |draft, field, context| {
            draft.timeout = read_limit(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_input_bytes",
        KeyForm::Bytes,
        "\"1MiB\"",
        "The most bytes of text to pass to the summarizer.",
        |draft, field, _| {
            draft.max_input_bytes = field.bytes()?;
            if draft.max_input_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; less needs no summary"));
            }
            Ok(())
        },
    ),
];

/// The keys of `spill`.
pub const SPILL: &[ConfigKey<SpillSettings>] = &[
    ConfigKey::aliased(
        &["folder", "directory"],
        ConfigKey::new(
            "dir",
            KeyForm::Text,
            "",
            "The folder, relative to this file; default: ~/.cache/toolgate/results.",
            |spill, field, _| {
                spill.dir = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "max_bytes",
        KeyForm::Bytes,
        "\"256MiB\"",
        "The largest size of all files together; the oldest are deleted.",
        |spill, field, _| {
            spill.max_bytes = field.bytes()?;
            if spill.max_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; to keep no files, leave `spill` out"));
            }
            Ok(())
        },
    ),
    ConfigKey::new("max_age", KeyForm::Span, "\"24h\"", "How long to keep each file.", |spill, field, context| {
        spill.max_age = read_retention(field, context)?;
        if spill.max_age.is_zero() {
            return Err(field.error("must be longer than 0; to keep no files, leave `spill` out"));
        }
        Ok(())
    }),
];

/// Reads `summarizer`.
pub fn read_summarizer(field: &ConfigField<'_>, context: &mut ReadContext) -> Option<SummarizerRules> {
    read_section(field, context, |field, context| {
        let mut draft = SummarizerDraft::default();
        read_keys(SUMMARIZER, &mut draft, field, context);
        draft.finish(field, context)
    })
}

/// Reads `spill`, which may also be `true` or `false`.
pub fn read_spill(field: &ConfigField<'_>, context: &mut ReadContext) -> Option<SpillSettings> {
    if let Ok(flag) = field.flag() {
        return flag.then(SpillSettings::default);
    }
    read_section(field, context, |field, context| {
        let mut spill = SpillSettings::default();
        read_keys(SPILL, &mut spill, field, context);
        Ok(spill)
    })
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
