//! The keys of `toolgate.yaml` outside its servers.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{
    ConfigInput, CustomMask, DestructiveRule, Masking, NamesStyle, ReadinessRule, RetryRule, Settings,
};
use super::super::schema;
use super::{ConfigKey, KeyForm, gateway, lifecycle, queues, read_keys, record, results, server, shadow};

/// The keys at the top; `servers` is read by itself.
pub const TOP: &[ConfigKey<Settings>] = &[
    ConfigKey::new("version", KeyForm::Number(1, 1), "1", "The version of this format.", |_, field, _| {
        match field.text()?.as_str() {
            "1" => Ok(()),
            other => Err(field.error(format!("version {other:?} is not known; this toolgate reads version 1"))),
        }
    }),
    ConfigKey::new(
        "servers",
        KeyForm::NamedSections(|| schema::object(server::SERVER)),
        "{}",
        "The servers by their ids, which are letters, digits, `_` and `-`.",
        |_, _, _| Ok(()),
    ),
    ConfigKey::new(
        "names",
        KeyForm::Choice(&["dot", "double-underscore", "mcp-prefix"]),
        "\"double-underscore\"",
        "How tools are named: `server.tool`, `server__tool` or `mcp__server__tool`.",
        |settings, field, _| {
            settings.names = field.choice(NAMES)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "bare_names",
        KeyForm::Flag,
        "false",
        "A tool's own name suffices where only one server has it.",
        |settings, field, _| {
            settings.bare_names = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "describe_server",
        KeyForm::Flag,
        "false",
        "Descriptions of tools begin with `[MCP:server]`.",
        |settings, field, _| {
            settings.describe_server = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::new(
        "check_arguments",
        KeyForm::Flag,
        "true",
        "Arguments that do not satisfy a tool's schema are refused.",
        |settings, field, _| {
            settings.check_arguments = field.flag()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "retry",
        KeyForm::Choice(&["safe", "always", "never"]),
        "\"safe\"",
        "Which calls may be repeated after a lost connection: those that are safe to repeat, all, or none.",
        |settings, field, _| {
            settings.retry = field.choice(RETRY)?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "read_only",
        KeyForm::Flag,
        "false",
        "Only tools that say that they change nothing.",
        |settings, field, _| {
            settings.read_only = field.flag()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "destructive",
        KeyForm::Choice(&["allow", "ask", "deny"]),
        "\"allow\"",
        "What happens to tools that may delete or overwrite.",
        |settings, field, _| {
            settings.destructive = field.choice(DESTRUCTIVE)?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "ask_max_bytes",
        KeyForm::Bytes,
        "\"64KiB\"",
        "The most arguments that a person is asked about, who is shown them whole; a call with more is declined.",
        |settings, field, _| {
            settings.ask_max_bytes = field.bytes()?;
            if settings.ask_max_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; to refuse all calls of a tool, name it under `deny`"));
            }
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "masking",
        KeyForm::Section(|| schema::object(MASKING)),
        "{}",
        "What is masked in the answers of all servers.",
        |settings, field, context| {
            read_keys(MASKING, &mut settings.masking, field, context);
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "max_result_bytes",
        KeyForm::Bytes,
        "\"1MiB\"",
        "The most text of a result; what is more is cut. 0 means no limit.",
        |settings, field, _| {
            settings.max_result_bytes = field.bytes()?;
            Ok(())
        },
    )),
    ConfigKey::new(
        "summarize_above_tokens",
        KeyForm::Number(1, MAX_TOKENS),
        "5000",
        "A result with more tokens than this is summarized, if there is a `summarizer`.",
        |settings, field, _| {
            settings.summarize_above_tokens = field.number(1, MAX_TOKENS)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "summarizer",
        KeyForm::Section(|| schema::object(results::SUMMARIZER)),
        "",
        "Who makes a long result short: a program or an endpoint; without it, what is too long is cut.",
        |settings, field, context| {
            settings.summarizer = results::read_summarizer(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "spill",
        KeyForm::Section(|| schema::object_or("boolean", results::SPILL)),
        "",
        "Results that are cut or summarized are kept whole in files, and the model is told which; true says it too.",
        |settings, field, context| {
            settings.spill = results::read_spill(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "record",
        KeyForm::Section(|| schema::object_or("boolean", record::RECORD)),
        "",
        "Calls are recorded in files, to be replayed, explained, and tried on other rules; true says it too.",
        |settings, field, context| {
            settings.record = record::read_record(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "lifecycle",
        KeyForm::Section(|| schema::object(lifecycle::LIFECYCLE)),
        "{}",
        "When servers are started, watched, restarted and stopped; what a server says itself wins.",
        |settings, field, context| {
            read_keys(lifecycle::LIFECYCLE, &mut settings.lifecycle, field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "queues",
        KeyForm::NamedSections(queues::schema),
        "{}",
        "Queues by their names, each with its number of slots or a map; one that is not here is of the usual size.",
        |settings, field, context| {
            settings.queues = queues::read_queues(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "gateway",
        KeyForm::Section(|| schema::object(gateway::GATEWAY)),
        "{}",
        "How `toolgate serve` is reached, by whom, and how much of it one may use.",
        |settings, field, context| {
            settings.gateway = gateway::read_gateway(field, context).unwrap_or_default();
            Ok(())
        },
    ),
    ConfigKey::new(
        "shadow",
        KeyForm::Section(|| schema::object(shadow::SHADOW)),
        "",
        "A candidate that `toolgate serve` asks beside the logic that decides, to see what it would have decided.",
        |settings, field, context| {
            settings.shadow = shadow::read_shadow(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "readiness",
        KeyForm::Choice(&["all", "any"]),
        "\"any\"",
        "When toolgate is ready: all (when every enabled server is) or any (at once, with warnings).",
        |settings, field, _| {
            settings.readiness = field.choice(READINESS)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "allow_commands",
        KeyForm::Flag,
        "false",
        "`${cmd:…}` in a value runs a command and stands for its output.",
        |settings, field, _| {
            settings.allow_commands = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "start_concurrency",
        KeyForm::Number(1, 1000),
        "",
        "How many servers start at the same time; four times the number of cores and at least 32, if not given.",
        |settings, field, _| {
            settings.start_concurrency = Some(field.count(1, 1000)?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_servers",
        KeyForm::Number(1, 10_000),
        "200",
        "The most servers that this file may have.",
        |settings, field, _| {
            settings.max_servers = field.count(1, 10_000)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "inputs",
        KeyForm::Sections(|| schema::object(INPUT)),
        "[]",
        "What is asked of a person, for `${input:ID}`; the variable TOOLGATE_INPUT_<ID> answers too.",
        |settings, field, context| {
            settings.inputs = read_inputs(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::hidden("$schema", |_, _, _| Ok(())),
];

/// What is masked in answers.
pub const MASKING: &[ConfigKey<Masking>] = &[
    ConfigKey::as_rule(ConfigKey::new(
        "groups",
        KeyForm::Texts,
        "[]",
        "Names of built-in groups: basic, secrets, security, kubernetes, cloud, all.",
        |masking, field, _| {
            masking.groups = field.texts()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "patterns",
        KeyForm::Texts,
        "[]",
        "Names of built-in patterns, such as email or github_token.",
        |masking, field, _| {
            masking.patterns = field.texts()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "custom",
        KeyForm::Sections(|| schema::object(CUSTOM)),
        "[]",
        "Patterns of your own.",
        |masking, field, context| {
            for item in field.items()? {
                let mut mask = CustomMask { name: None, pattern: String::new(), replacement: MASKED.to_owned() };
                read_keys(CUSTOM, &mut mask, &item, context);
                if mask.pattern.is_empty() {
                    return Err(item.error("a `pattern` is missing"));
                }
                masking.custom.push(mask);
            }
            Ok(())
        },
    )),
];

/// A mask of one's own.
pub const CUSTOM: &[ConfigKey<CustomMask>] = &[
    ConfigKey::new(
        "pattern",
        KeyForm::Text,
        "",
        "A regular expression; where it has a group named `value`, only that is replaced.",
        |mask, field, _| {
            mask.pattern = field.text()?;
            Ok(())
        },
    ),
    ConfigKey::new("replacement", KeyForm::Text, "\"[MASKED]\"", "What stands in its place.", |mask, field, _| {
        mask.replacement = field.text()?;
        Ok(())
    }),
    ConfigKey::new("name", KeyForm::Text, "", "A name for people.", |mask, field, _| {
        mask.name = Some(field.text()?);
        Ok(())
    }),
];

/// Something that is asked of a person.
pub const INPUT: &[ConfigKey<ConfigInput>] = &[
    ConfigKey::new("id", KeyForm::Text, "", "The name that `${input:ID}` uses.", |input, field, _| {
        input.id = field.text()?;
        Ok(())
    }),
    ConfigKey::new("description", KeyForm::Text, "", "The question.", |input, field, _| {
        input.description = Some(field.text()?);
        Ok(())
    }),
    ConfigKey::new(
        "password",
        KeyForm::Flag,
        "false",
        "The answer is not shown while it is typed.",
        |input, field, _| {
            input.password = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::new("default", KeyForm::Text, "", "The answer where none is given.", |input, field, _| {
        input.default = Some(field.text()?);
        Ok(())
    }),
    ConfigKey::new("options", KeyForm::Texts, "[]", "The answers that there are; any, if empty.", |input, field, _| {
        // VS Code also writes an option as a label and a value.
        let option = |item: &ConfigField<'_>| match item.node.at("value") {
            Some(node) => ConfigField { node, field: item.field.clone() }.text(),
            None => item.text(),
        };
        input.options = field.items()?.iter().map(option).collect::<Result<_, _>>()?;
        Ok(())
    }),
    // VS Code's `promptString` and `pickString`; the options say the same.
    ConfigKey::hidden("type", |_, field, context| {
        if field.text()? == "command" {
            context.add_notice(
                &field.node.place,
                "an input of type \"command\" belongs to the editor; it is asked like any other",
            );
        }
        Ok(())
    }),
    ConfigKey::hidden("command", |_, _, _| Ok(())),
    ConfigKey::hidden("args", |_, _, _| Ok(())),
];

/// Reads the `inputs` of our own files and of VS Code's.
pub fn read_inputs(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<ConfigInput>, FieldError> {
    let mut inputs: Vec<ConfigInput> = Vec::new();
    for item in field.items()? {
        let mut input = ConfigInput::default();
        read_keys(INPUT, &mut input, &item, context);
        if input.id.is_empty() {
            return Err(item.error("an `id` is missing"));
        }
        if inputs.iter().any(|earlier| earlier.id == input.id) {
            return Err(item.error(format!("the id {:?} is given twice", input.id)));
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
const RETRY: &[(&str, RetryRule)] =
    &[("safe", RetryRule::Safe), ("always", RetryRule::Always), ("never", RetryRule::Never)];
const DESTRUCTIVE: &[(&str, DestructiveRule)] =
    &[("allow", DestructiveRule::Allow), ("ask", DestructiveRule::Ask), ("deny", DestructiveRule::Deny)];
const READINESS: &[(&str, ReadinessRule)] = &[("all", ReadinessRule::All), ("any", ReadinessRule::Any)];
const MAX_TOKENS: u64 = 1_000_000_000;
const MASKED: &str = "[MASKED]";
