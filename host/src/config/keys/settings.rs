//! The keys of `toolgate.yaml` outside `servers`.

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{
    ConfigInput, CustomMask, DestructiveRule, Masking, NamesStyle, ReadinessRule, RetryRule, Settings,
};
use super::super::schema;
use super::{ConfigKey, KeyForm, gateway, lifecycle, queues, read_keys, record, results, server, shadow};

/// The top-level keys; `servers` is read separately.
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
        "The servers, each under an id of letters, digits, `_` and `-`.",
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
        "Accept a tool's own name, without its server, if only one server has it.",
        |settings, field, _| {
            settings.bare_names = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "describe_server",
        KeyForm::Flag,
        "false",
        "Begin the description of each tool with `[MCP:server]`.",
        |settings, field, _| {
            settings.describe_server = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::new(
        "check_arguments",
        KeyForm::Flag,
        "true",
        "Refuse arguments that do not match the tool's schema.",
        |settings, field, _| {
            settings.check_arguments = field.flag()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "retry",
        KeyForm::Choice(&["safe", "always", "never"]),
        "\"safe\"",
        "Which calls to retry after a lost connection: those that are safe to repeat, all, or none.",
        |settings, field, _| {
            settings.retry = field.choice(RETRY)?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "read_only",
        KeyForm::Flag,
        "false",
        "Offer only tools that declare that they change nothing.",
        |settings, field, _| {
            settings.read_only = field.flag()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "destructive",
        KeyForm::Choice(&["allow", "ask", "deny"]),
        "\"allow\"",
        "What to do with tools that may delete or overwrite: `allow`, `ask` a person, or `deny`.",
        |settings, field, _| {
            settings.destructive = field.choice(DESTRUCTIVE)?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "ask_max_bytes",
        KeyForm::Bytes,
        "\"64KiB\"",
        "The most bytes of arguments that a person is asked to approve; a call with more is declined.",
        |settings, field, _| {
            settings.ask_max_bytes = field.bytes()?;
            if settings.ask_max_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; to refuse all calls of a tool, list it under `deny`"));
            }
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "masking",
        KeyForm::Section(|| schema::object(MASKING)),
        "{}",
        "What to mask in the results of all servers.",
        |settings, field, context| {
            read_keys(MASKING, &mut settings.masking, field, context);
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "max_result_bytes",
        KeyForm::Bytes,
        "\"1MiB\"",
        "The longest text of a result; more is cut. 0 means no limit.",
        |settings, field, _| {
            settings.max_result_bytes = field.bytes()?;
            Ok(())
        },
    )),
    ConfigKey::new(
        "summarize_above_tokens",
        KeyForm::Number(1, MAX_TOKENS),
        "5000",
        "Summarize results with more tokens than this, if there is a `summarizer`.",
        |settings, field, _| {
            settings.summarize_above_tokens = field.number(1, MAX_TOKENS)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "summarizer",
        KeyForm::Section(|| schema::object(results::SUMMARIZER)),
        "",
        "The program or endpoint that shortens long results; without it, they are cut.",
        |settings, field, context| {
            settings.summarizer = results::read_summarizer(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "spill",
        KeyForm::Section(|| schema::object_or("boolean", results::SPILL)),
        "",
        "Keep the full text of cut or summarized results in files, and tell the model where; `true` uses the defaults.",
        |settings, field, context| {
            settings.spill = results::read_spill(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "record",
        KeyForm::Section(|| schema::object_or("boolean", record::RECORD)),
        "",
        "Record calls in files, to replay and explain them and to try other rules on them; `true` uses the defaults.",
        |settings, field, context| {
            settings.record = record::read_record(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "lifecycle",
        KeyForm::Section(|| schema::object(lifecycle::LIFECYCLE)),
        "{}",
        "When servers are started, checked, restarted and stopped; keys of a server override these.",
        |settings, field, context| {
            read_keys(lifecycle::LIFECYCLE, &mut settings.lifecycle, field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "queues",
        KeyForm::NamedSections(queues::schema),
        "{}",
        "Queues by name, each a number of slots or a map; a queue that is not listed gets the defaults.",
        |settings, field, context| {
            settings.queues = queues::read_queues(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "gateway",
        KeyForm::Section(|| schema::object(gateway::GATEWAY)),
        "{}",
        "How clients reach `toolgate serve`, who may use it, and its limits.",
        |settings, field, context| {
            settings.gateway = gateway::read_gateway(field, context).unwrap_or_default();
            Ok(())
        },
    ),
    ConfigKey::new(
        "shadow",
        KeyForm::Section(|| schema::object(shadow::SHADOW)),
        "",
        "A candidate policy that `toolgate serve` tries on live calls, without effect, to show what it would decide.",
        |settings, field, context| {
            settings.shadow = shadow::read_shadow(field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "readiness",
        KeyForm::Choice(&["all", "any"]),
        "\"any\"",
        "When toolgate reports ready: `all` (every enabled server is ready) or `any` (at once, with warnings).",
        |settings, field, _| {
            settings.readiness = field.choice(READINESS)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "allow_commands",
        KeyForm::Flag,
        "false",
        "Allow `${cmd:COMMAND}` in values, which runs the command and inserts its output.",
        |settings, field, _| {
            settings.allow_commands = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "start_concurrency",
        KeyForm::Number(1, 1000),
        "",
        "How many servers may start at the same time; default: four times the number of cores, and at least 32.",
        |settings, field, _| {
            settings.start_concurrency = Some(field.count(1, 1000)?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_servers",
        KeyForm::Number(1, 10_000),
        "200",
        "The most servers that this file may define.",
        |settings, field, _| {
            settings.max_servers = field.count(1, 10_000)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "inputs",
        KeyForm::Sections(|| schema::object(INPUT)),
        "[]",
        "Questions to ask a person for `${input:ID}`; the variable TOOLGATE_INPUT_<ID> answers without asking.",
        |settings, field, context| {
            settings.inputs = read_inputs(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::hidden("$schema", |_, _, _| Ok(())),
];

/// The keys of `masking`.
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

/// The keys of a custom mask.
pub const CUSTOM: &[ConfigKey<CustomMask>] = &[
    ConfigKey::new(
        "pattern",
        KeyForm::Text,
        "",
        "A regular expression; if it has a group named `value`, only that group is replaced.",
        |mask, field, _| {
            mask.pattern = field.text()?;
            Ok(())
        },
    ),
    ConfigKey::new("replacement", KeyForm::Text, "\"[MASKED]\"", "The text to put in its place.", |mask, field, _| {
        mask.replacement = field.text()?;
        Ok(())
    }),
    ConfigKey::new("name", KeyForm::Text, "", "A name to show to people.", |mask, field, _| {
        mask.name = Some(field.text()?);
        Ok(())
    }),
];

/// The keys of an input.
pub const INPUT: &[ConfigKey<ConfigInput>] = &[
    ConfigKey::new("id", KeyForm::Text, "", "The name that `${input:ID}` uses.", |input, field, _| {
        input.id = field.text()?;
        Ok(())
    }),
    ConfigKey::new("description", KeyForm::Text, "", "The question.", |input, field, _| {
        input.description = Some(field.text()?);
        Ok(())
    }),
    ConfigKey::new("password", KeyForm::Flag, "false", "Hide the answer while it is typed.", |input, field, _| {
        input.password = field.flag()?;
        Ok(())
    }),
    ConfigKey::new("default", KeyForm::Text, "", "The answer if none is given.", |input, field, _| {
        input.default = Some(field.text()?);
        Ok(())
    }),
    ConfigKey::new("options", KeyForm::Texts, "[]", "The allowed answers; empty allows any.", |input, field, _| {
        // VS Code also writes an option as a map with a label and a value.
        let option = |item: &ConfigField<'_>| match item.node.at("value") {
            Some(node) => ConfigField { node, field: item.field.clone() }.text(),
            None => item.text(),
        };
        input.options = field.items()?.iter().map(option).collect::<Result<_, _>>()?;
        Ok(())
    }),
    // VS Code's `promptString` and `pickString`; `options` already tells them apart.
    ConfigKey::hidden("type", |_, field, context| {
        if field.text()? == "command" {
            context.add_notice(
                &field.node.place,
                "an input of type \"command\" only works in the editor; toolgate asks a person instead",
            );
        }
        Ok(())
    }),
    ConfigKey::hidden("command", |_, _, _| Ok(())),
    ConfigKey::hidden("args", |_, _, _| Ok(())),
];

/// Reads the `inputs` of toolgate's own files and of VS Code's.
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

/// The values of `names`.
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
