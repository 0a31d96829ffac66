//! The keys of `toolgate.yaml` outside its servers.

use super::super::model::{CustomMask, Destructive, Input, Masking, NamesStyle, Readiness, Retry, Settings};
use super::super::reading::{Given, Misfit, Reading};
use super::super::schema;
use super::{Form, Key, gateway, lifecycle, queues, read, record, results, server, shadow};

/// The keys at the top; `servers` is read by itself.
pub const TOP: &[Key<Settings>] = &[
    Key::new("version", Form::Number(1, 1), "1", "The version of this format.", |_, given, _| {
        match given.text()?.as_str() {
            "1" => Ok(()),
            other => Err(given.misfit(format!("version {other:?} is not known; this toolgate reads version 1"))),
        }
    }),
    Key::new(
        "servers",
        Form::NamedSections(|| schema::object(server::SERVER)),
        "{}",
        "The servers by their ids, which are letters, digits, `_` and `-`.",
        |_, _, _| Ok(()),
    ),
    Key::new(
        "names",
        Form::Choice(&["dot", "double-underscore", "mcp-prefix"]),
        "\"double-underscore\"",
        "How tools are named: `server.tool`, `server__tool` or `mcp__server__tool`.",
        |settings, given, _| {
            settings.names = given.choice(NAMES)?;
            Ok(())
        },
    ),
    Key::new(
        "bare_names",
        Form::Flag,
        "false",
        "A tool's own name suffices where only one server has it.",
        |settings, given, _| {
            settings.bare_names = given.flag()?;
            Ok(())
        },
    ),
    Key::new(
        "describe_server",
        Form::Flag,
        "false",
        "Descriptions of tools begin with `[MCP:server]`.",
        |settings, given, _| {
            settings.describe_server = given.flag()?;
            Ok(())
        },
    ),
    Key::rule(Key::new(
        "check_arguments",
        Form::Flag,
        "true",
        "Arguments that do not satisfy a tool's schema are refused.",
        |settings, given, _| {
            settings.check_arguments = given.flag()?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "retry",
        Form::Choice(&["safe", "always", "never"]),
        "\"safe\"",
        "Which calls may be repeated after a lost connection: those that are safe to repeat, all, or none.",
        |settings, given, _| {
            settings.retry = given.choice(RETRY)?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "read_only",
        Form::Flag,
        "false",
        "Only tools that say that they change nothing.",
        |settings, given, _| {
            settings.read_only = given.flag()?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "destructive",
        Form::Choice(&["allow", "ask", "deny"]),
        "\"allow\"",
        "What happens to tools that may delete or overwrite.",
        |settings, given, _| {
            settings.destructive = given.choice(DESTRUCTIVE)?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "ask_max_bytes",
        Form::Bytes,
        "\"64KiB\"",
        "The most arguments that a person is asked about, who is shown them whole; a call with more is declined.",
        |settings, given, _| {
            settings.ask_max_bytes = given.bytes()?;
            if settings.ask_max_bytes < 1024 {
                return Err(given.misfit("expected at least 1KiB; to refuse all calls of a tool, name it under `deny`"));
            }
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "masking",
        Form::Section(|| schema::object(MASKING)),
        "{}",
        "What is masked in the answers of all servers.",
        |settings, given, reading| {
            read(MASKING, &mut settings.masking, given, reading);
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "max_result_bytes",
        Form::Bytes,
        "\"1MiB\"",
        "The most text of a result; what is more is cut. 0 means no limit.",
        |settings, given, _| {
            settings.max_result_bytes = given.bytes()?;
            Ok(())
        },
    )),
    Key::new(
        "summarize_above_tokens",
        Form::Number(1, MAX_TOKENS),
        "5000",
        "A result with more tokens than this is summarized, if there is a `summarizer`.",
        |settings, given, _| {
            settings.summarize_above_tokens = given.number(1, MAX_TOKENS)?;
            Ok(())
        },
    ),
    Key::new(
        "summarizer",
        Form::Section(|| schema::object(results::SUMMARIZER)),
        "",
        "Who makes a long result short: a program or an endpoint; without it, what is too long is cut.",
        |settings, given, reading| {
            settings.summarizer = results::summarizer(given, reading);
            Ok(())
        },
    ),
    Key::new(
        "spill",
        Form::Section(|| schema::object_or("boolean", results::SPILL)),
        "",
        "Results that are cut or summarized are kept whole in files, and the model is told which; true says it too.",
        |settings, given, reading| {
            settings.spill = results::spill(given, reading);
            Ok(())
        },
    ),
    Key::new(
        "record",
        Form::Section(|| schema::object_or("boolean", record::RECORD)),
        "",
        "Calls are recorded in files, to be replayed, explained, and tried on other rules; true says it too.",
        |settings, given, reading| {
            settings.record = record::record(given, reading);
            Ok(())
        },
    ),
    Key::new(
        "lifecycle",
        Form::Section(|| schema::object(lifecycle::LIFECYCLE)),
        "{}",
        "When servers are started, watched, restarted and stopped; what a server says itself wins.",
        |settings, given, reading| {
            read(lifecycle::LIFECYCLE, &mut settings.lifecycle, given, reading);
            Ok(())
        },
    ),
    Key::new(
        "queues",
        Form::NamedSections(queues::schema),
        "{}",
        "Queues by their names, each with its number of slots or a map; one that is not here is of the usual size.",
        |settings, given, reading| {
            settings.queues = queues::queues(given, reading)?;
            Ok(())
        },
    ),
    Key::new(
        "gateway",
        Form::Section(|| schema::object(gateway::GATEWAY)),
        "{}",
        "How `toolgate serve` is reached, by whom, and how much of it one may use.",
        |settings, given, reading| {
            settings.gateway = gateway::gateway(given, reading).unwrap_or_default();
            Ok(())
        },
    ),
    Key::new(
        "shadow",
        Form::Section(|| schema::object(shadow::SHADOW)),
        "",
        "A candidate that `toolgate serve` asks beside the logic that decides, to see what it would have decided.",
        |settings, given, reading| {
            settings.shadow = shadow::shadow(given, reading);
            Ok(())
        },
    ),
    Key::new(
        "readiness",
        Form::Choice(&["all", "any"]),
        "\"any\"",
        "When toolgate is ready: all (when every enabled server is) or any (at once, with warnings).",
        |settings, given, _| {
            settings.readiness = given.choice(READINESS)?;
            Ok(())
        },
    ),
    Key::new(
        "allow_commands",
        Form::Flag,
        "false",
        "`${cmd:…}` in a value runs a command and stands for its output.",
        |settings, given, _| {
            settings.allow_commands = given.flag()?;
            Ok(())
        },
    ),
    Key::new(
        "start_concurrency",
        Form::Number(1, 1000),
        "",
        "How many servers start at the same time; four times the number of cores and at least 32, if not given.",
        |settings, given, _| {
            settings.start_concurrency = Some(given.count(1, 1000)?);
            Ok(())
        },
    ),
    Key::new(
        "max_servers",
        Form::Number(1, 10_000),
        "200",
        "The most servers that this file may have.",
        |settings, given, _| {
            settings.max_servers = given.count(1, 10_000)?;
            Ok(())
        },
    ),
    Key::new(
        "inputs",
        Form::Sections(|| schema::object(INPUT)),
        "[]",
        "What is asked of a person, for `${input:ID}`; the variable TOOLGATE_INPUT_<ID> answers too.",
        |settings, given, reading| {
            settings.inputs = inputs(given, reading)?;
            Ok(())
        },
    ),
    Key::hidden("$schema", |_, _, _| Ok(())),
];

/// What is masked in answers.
pub const MASKING: &[Key<Masking>] = &[
    Key::rule(Key::new(
        "groups",
        Form::Texts,
        "[]",
        "Names of built-in groups: basic, secrets, security, kubernetes, cloud, all.",
        |masking, given, _| {
            masking.groups = given.texts()?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "patterns",
        Form::Texts,
        "[]",
        "Names of built-in patterns, such as email or github_token.",
        |masking, given, _| {
            masking.patterns = given.texts()?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "custom",
        Form::Sections(|| schema::object(CUSTOM)),
        "[]",
        "Patterns of your own.",
        |masking, given, reading| {
            for item in given.items()? {
                let mut mask = CustomMask { name: None, pattern: String::new(), replacement: MASKED.to_owned() };
                read(CUSTOM, &mut mask, &item, reading);
                if mask.pattern.is_empty() {
                    return Err(item.misfit("a `pattern` is missing"));
                }
                masking.custom.push(mask);
            }
            Ok(())
        },
    )),
];

/// A mask of one's own.
pub const CUSTOM: &[Key<CustomMask>] = &[
    Key::new(
        "pattern",
        Form::Text,
        "",
        "A regular expression; where it has a group named `value`, only that is replaced.",
        |mask, given, _| {
            mask.pattern = given.text()?;
            Ok(())
        },
    ),
    Key::new("replacement", Form::Text, "\"[MASKED]\"", "What stands in its place.", |mask, given, _| {
        mask.replacement = given.text()?;
        Ok(())
    }),
    Key::new("name", Form::Text, "", "A name for people.", |mask, given, _| {
        mask.name = Some(given.text()?);
        Ok(())
    }),
];

/// Something that is asked of a person.
pub const INPUT: &[Key<Input>] = &[
    Key::new("id", Form::Text, "", "The name that `${input:ID}` uses.", |input, given, _| {
        input.id = given.text()?;
        Ok(())
    }),
    Key::new("description", Form::Text, "", "The question.", |input, given, _| {
        input.description = Some(given.text()?);
        Ok(())
    }),
    Key::new("password", Form::Flag, "false", "The answer is not shown while it is typed.", |input, given, _| {
        input.password = given.flag()?;
        Ok(())
    }),
    Key::new("default", Form::Text, "", "The answer where none is given.", |input, given, _| {
        input.default = Some(given.text()?);
        Ok(())
    }),
    Key::new("options", Form::Texts, "[]", "The answers that there are; any, if empty.", |input, given, _| {
        // VS Code also writes an option as a label and a value.
        let option = |item: &Given<'_>| match item.node.at("value") {
            Some(node) => Given { node, field: item.field.clone() }.text(),
            None => item.text(),
        };
        input.options = given.items()?.iter().map(option).collect::<Result<_, _>>()?;
        Ok(())
    }),
    // VS Code's `promptString` and `pickString`; the options say the same.
    Key::hidden("type", |_, given, reading| {
        if given.text()? == "command" {
            reading.notice(
                &given.node.place,
                "an input of type \"command\" belongs to the editor; it is asked like any other",
            );
        }
        Ok(())
    }),
    Key::hidden("command", |_, _, _| Ok(())),
    Key::hidden("args", |_, _, _| Ok(())),
];

/// Reads the `inputs` of our own files and of VS Code's.
pub fn inputs(given: &Given<'_>, reading: &mut Reading) -> Result<Vec<Input>, Misfit> {
    let mut inputs: Vec<Input> = Vec::new();
    for item in given.items()? {
        let mut input = Input::default();
        read(INPUT, &mut input, &item, reading);
        if input.id.is_empty() {
            return Err(item.misfit("an `id` is missing"));
        }
        if inputs.iter().any(|earlier| earlier.id == input.id) {
            return Err(item.misfit(format!("the id {:?} is given twice", input.id)));
        }
        inputs.push(input);
    }
    Ok(inputs)
}

/// The names of the styles of names.
pub const NAMES: &[(&str, NamesStyle)] = &[
    ("dot", NamesStyle::Dot),
    ("double-underscore", NamesStyle::DoubleUnderscore),
    ("mcp-prefix", NamesStyle::McpPrefix),
];
const RETRY: &[(&str, Retry)] = &[("safe", Retry::Safe), ("always", Retry::Always), ("never", Retry::Never)];
const DESTRUCTIVE: &[(&str, Destructive)] =
    &[("allow", Destructive::Allow), ("ask", Destructive::Ask), ("deny", Destructive::Deny)];
const READINESS: &[(&str, Readiness)] = &[("all", Readiness::All), ("any", Readiness::Any)];
const MAX_TOKENS: u64 = 1_000_000_000;
const MASKED: &str = "[MASKED]";
