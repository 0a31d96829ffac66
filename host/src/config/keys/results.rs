//! The keys of `summarizer` and `spill`.

use std::time::Duration;

use super::super::command;
use super::super::document::Value;
use super::super::model::{Kind, Located, Server, Spill, SummarizeWith, Summarizer};
use super::super::reading::{Given, Misfit, Reading};
use super::lifecycle::kept;
use super::server::limit;
use super::{Form, Key, part, read};

/// What `summarizer` says, before it is clear how it is reached.
#[derive(Debug, PartialEq)]
pub struct Draft {
    command: Option<Located>,
    command_args: Vec<Located>,
    args: Vec<Located>,
    url: Option<Located>,
    model: Option<Located>,
    api_key: Option<Located>,
    timeout: Duration,
    max_input_bytes: u64,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
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
pub const SUMMARIZER: &[Key<Draft>] = &[
    Key::new(
        "command",
        Form::Command,
        "",
        "A program, with its arguments where it is a list; it reads the text and writes the summary.",
        |draft, given, _| {
            let mut words = match &given.node.value {
                Value::List(_) => given.items()?.iter().map(Given::located).collect::<Result<Vec<_>, _>>()?,
                _ => vec![given.located()?],
            };
            let args = words.split_off(words.len().min(1));
            draft.command_args = args;
            draft.command = words.pop().filter(|program| !program.text.trim().is_empty());
            Ok(())
        },
    ),
    Key::new("args", Form::Texts, "[]", "The arguments of the program.", |draft, given, _| {
        draft.args = given.items()?.iter().map(Given::located).collect::<Result<_, _>>()?;
        Ok(())
    }),
    Key::new(
        "url",
        Form::Text,
        "",
        "In place of a program: the address of an endpoint that speaks the API of OpenAI.",
        |draft, given, _| {
            draft.url = Some(given.located()?).filter(|url| !url.text.trim().is_empty());
            Ok(())
        },
    ),
    Key::new("model", Form::Text, "", "For url: the model to ask.", |draft, given, _| {
        draft.model = Some(given.located()?);
        Ok(())
    }),
    Key::new("api_key", Form::Text, "", "For url: the key, if it wants one.", |draft, given, _| {
        draft.api_key = Some(given.located()?);
        Ok(())
    }),
    Key::new(
        "timeout",
        Form::Span,
        "\"30s\"",
        "How long a summary may take; then the text is cut.",
        |draft, given, reading| {
            draft.timeout = limit(given, reading)?;
            Ok(())
        },
    ),
    Key::new(
        "max_input_bytes",
        Form::Bytes,
        "\"1MiB\"",
        "The most text that the summarizer is given.",
        |draft, given, _| {
            draft.max_input_bytes = given.bytes()?;
            if draft.max_input_bytes < 1024 {
                return Err(given.misfit("expected at least 1KiB; less needs no summary"));
            }
            Ok(())
        },
    ),
];

/// The keys of `spill`.
pub const SPILL: &[Key<Spill>] = &[
    Key::or(
        &["folder", "directory"],
        Key::new(
            "dir",
            Form::Text,
            "",
            "The folder, relative to this file; one of the user's own, if not given.",
            |spill, given, _| {
                spill.dir = Some(given.located()?);
                Ok(())
            },
        ),
    ),
    Key::new(
        "max_bytes",
        Form::Bytes,
        "\"256MiB\"",
        "The most bytes of all files in the folder; the oldest make room.",
        |spill, given, _| {
            spill.max_bytes = given.bytes()?;
            if spill.max_bytes < 1024 {
                return Err(given.misfit("expected at least 1KiB; to keep no files, leave `spill` out"));
            }
            Ok(())
        },
    ),
    Key::new("max_age", Form::Span, "\"24h\"", "How long a file is kept.", |spill, given, reading| {
        spill.max_age = kept(given, reading)?;
        if spill.max_age.is_zero() {
            return Err(given.misfit("must be longer than nothing; to keep no files, leave `spill` out"));
        }
        Ok(())
    }),
];

/// Reads `summarizer`.
pub fn summarizer(given: &Given<'_>, reading: &mut Reading) -> Option<Summarizer> {
    part(given, reading, |given, reading| {
        let mut draft = Draft::default();
        read(SUMMARIZER, &mut draft, given, reading);
        draft.finish(given, reading)
    })
}

/// Reads `spill`, which may also be `true` or `false`.
pub fn spill(given: &Given<'_>, reading: &mut Reading) -> Option<Spill> {
    if let Ok(flag) = given.flag() {
        return flag.then(Spill::default);
    }
    part(given, reading, |given, reading| {
        let mut spill = Spill::default();
        read(SPILL, &mut spill, given, reading);
        Ok(spill)
    })
}

impl Draft {
    fn finish(self, given: &Given<'_>, reading: &mut Reading) -> Result<Summarizer, Misfit> {
        let stray =
            |part: &str, owner: &str| Err(given.misfit(format!("`{part}` is a key for {owner} alone; leave it out")));
        let how = match (self.command, self.url) {
            (Some(_), Some(_)) => return Err(given.misfit("both command and url are given; keep one of them")),
            (None, None) => {
                return Err(given.misfit("needs a `command` to run, or the `url` of an endpoint and a `model`"));
            }
            (Some(_), None) if self.model.is_some() => return stray("model", "url"),
            (Some(_), None) if self.api_key.is_some() => return stray("api_key", "url"),
            (None, Some(_)) if !self.args.is_empty() => return stray("args", "command"),
            (Some(command), None) => program(command, [self.command_args, self.args].concat(), given, reading),
            (None, Some(url)) => {
                let model = self.model.filter(|model| !model.text.trim().is_empty());
                let model = model.ok_or_else(|| given.misfit("url needs a `model`"))?;
                SummarizeWith::Http { url, model, api_key: self.api_key }
            }
        };
        let place = given.node.place.clone();
        Ok(Summarizer { place, how, timeout: self.timeout, max_input_bytes: self.max_input_bytes })
    }
}

/// The program, understood as that of a server is.
fn program(command: Located, args: Vec<Located>, given: &Given<'_>, reading: &mut Reading) -> SummarizeWith {
    let mut server = Server::new("", given.node.place.clone(), Kind::Stdio);
    server.command = Some(command.clone());
    server.args = args;
    command::split(&mut server, reading);
    SummarizeWith::Command { program: server.command.unwrap_or(command), args: server.args }
}
