//! The keys of `toolgate.yaml` outside `servers`.

use super::super::model::{DestructivePolicy, NamesStyle, ReadinessRule, RetryPolicy, Settings, WrittenAt};
use super::super::section::{ChoiceForm, ConfigKey, KeyForm, OptionalSectionForm, SectionForm, read_keys, schema};
use super::gateway::{self, GATEWAY, SEARCH};
use super::inputs::{INPUT, read_inputs};
use super::lifecycle::LIFECYCLE;
use super::masking::MASKING;
use super::queues;
use super::record::RECORD;
use super::results::{MAX_TOKENS, SPILL, SUMMARIZER, read_summarizer};
use super::rules::{CONTEXT, RESULT, read_results, read_rules, rules_schema};
use super::server::SERVER;
use super::shadow::{SHADOW, read_shadow};

type Key = ConfigKey<Settings>;

/// The top-level keys; `servers` is read separately.
pub(crate) const TOP: &[Key] = &[
    Key::new(
        "version",
        KeyForm::Custom(
            || schema::number(1, 1),
            |_, field, _| match field.text()?.as_str() {
                "1" => Ok(()),
                other => Err(field.error(format!("version {other:?} is not known; this toolgate reads version 1"))),
            },
        ),
    )
    .about("The version of this format.")
    .default("1"),
    Key::new("servers", KeyForm::Custom(|| schema::map(schema::object(SERVER)), |_, _, _| Ok(())))
        .about("The servers, each under an id of letters, digits, `_` and `-`.")
        .default("{}"),
    Key::new("names", KeyForm::choice(&ChoiceForm(NAMES, |settings, choice| settings.names = choice)))
        .about("How tools are named: `server.tool`, `server__tool`, `mcp__server__tool` or `mcp_server_tool`.")
        .default("\"double-underscore\""),
    Key::new("bare_names", KeyForm::Flag(|settings, flag| settings.bare_names = flag))
        .about("Accept a tool's own name, without its server, if only one server has it.")
        .default("false"),
    Key::new("describe_server", KeyForm::Flag(|settings, flag| settings.describe_server = flag))
        .about("Begin the description of each tool with `[MCP:server]`.")
        .default("false"),
    Key::rule("check_arguments", KeyForm::Flag(|settings, flag| settings.check_arguments = flag))
        .about("Refuse arguments that do not match the tool's schema.")
        .default("true"),
    Key::rule("retry", KeyForm::choice(&ChoiceForm(RETRY, |settings, choice| settings.retry = choice)))
        .about("Which calls to retry after a lost connection: those that are safe to repeat, all, or none.")
        .default("\"safe\""),
    Key::rule("read_only", KeyForm::Flag(|settings, flag| settings.read_only = flag))
        .about("Offer only tools that declare that they change nothing.")
        .default("false"),
    Key::rule(
        "destructive",
        KeyForm::choice(&ChoiceForm(DESTRUCTIVE, |settings, choice| settings.destructive = choice)),
    )
    .about("What to do with tools that may delete or overwrite: `allow`, `ask` a person, or `deny`.")
    .default("\"allow\""),
    Key::rule(
        "ask_max_bytes",
        KeyForm::BytesFrom(
            1024,
            "expected at least 1KiB; to refuse all calls of a tool, list it under `deny`",
            |settings, bytes| settings.ask_max_bytes = bytes,
        ),
    )
    .about("The most bytes of arguments that a person is asked to approve; a call with more is declined.")
    .default("\"64KiB\""),
    Key::rule(
        "rules",
        KeyForm::Custom(rules_schema, |settings, field, context| {
            read_rules(field, context).map(|rules| settings.rules = rules)
        }),
    )
    .about("Rules that see the arguments of a call, who makes it, and what happened before it; see the docs.")
    .default("[]"),
    Key::rule(
        "results",
        KeyForm::Custom(
            || schema::map(schema::object(RESULT)),
            |settings, field, context| read_results(field, context).map(|results| settings.results = results),
        ),
    )
    .about(
        "What results mean for rules, by names and globs of the form `server.tool`: the labels of all entries that match add \
         up, and the closest one says what is trusted.",
    )
    .default("{}"),
    Key::rule("known", KeyForm::Texts(|settings, texts| settings.known = texts))
        .about("What every agent may send: whole values, domains as \"@example.com\", addresses up to a slash.")
        .default("[]"),
    Key::rule("context", KeyForm::section(&SectionForm(CONTEXT, |settings| &mut settings.context)))
        .about("Whose calls share what has been seen, for rules, and how long it is remembered.")
        .default("{}"),
    Key::rule(
        "masking",
        KeyForm::Custom(
            || schema::object(MASKING),
            |settings, field, context| {
                settings.masking_place = WrittenAt(Some(field.node.place.clone()));
                read_keys(MASKING, &mut settings.masking, field, context);
                Ok(())
            },
        ),
    )
    .about("What to mask in the results of all servers.")
    .default("{}"),
    Key::rule("max_result_bytes", KeyForm::Bytes(|settings, bytes| settings.max_result_bytes = bytes))
        .about("The longest text of a result; more is cut. 0 means no limit.")
        .default("\"1MiB\""),
    Key::new(
        "summarize_above_tokens",
        KeyForm::Number(1, MAX_TOKENS, |settings, number| settings.summarize_above_tokens = number as u64),
    )
    .about("Summarize results with more tokens than this, if there is a `summarizer`.")
    .default("5000"),
    Key::new(
        "summarizer",
        KeyForm::Custom(
            || schema::object(SUMMARIZER),
            |settings, field, context| read_summarizer(field, context).map(|rules| settings.summarizer = Some(rules)),
        ),
    )
    .about("The program or endpoint that shortens long results; without it, they are cut."),
    Key::new("spill", KeyForm::optional_section(&OptionalSectionForm(SPILL, |settings| &mut settings.spill))).about(
        "Keep the full text of cut or summarized results in files, and tell the model where; `true` for defaults.",
    ),
    Key::new("record", KeyForm::optional_section(&OptionalSectionForm(RECORD, |settings| &mut settings.record)))
        .about("Record calls in files, to replay, explain and try other rules on them; `true` uses the defaults."),
    Key::new("lifecycle", KeyForm::section(&SectionForm(LIFECYCLE, |settings| &mut settings.lifecycle)))
        .about("When servers are started, checked, restarted and stopped; keys of a server override these.")
        .default("{}"),
    Key::new(
        "queues",
        KeyForm::Custom(
            || schema::map(queues::schema()),
            |settings, field, context| queues::read_queues(field, context).map(|queues| settings.queues = queues),
        ),
    )
    .about("Queues by name, each a number of slots or a map; a queue that is not listed gets the defaults.")
    .default("{}"),
    Key::new(
        "gateway",
        KeyForm::Custom(
            || schema::object(GATEWAY),
            |settings, field, context| gateway::read_gateway(field, context).map(|rules| settings.gateway = rules),
        ),
    )
    .about("How clients reach `toolgate serve`, who may use it, and its limits.")
    .default("{}"),
    Key::new("search", KeyForm::section(&SectionForm(SEARCH, |settings| &mut settings.search)))
        .about("When the gateway's clients search for tools instead of seeing all of them, and which they see anyway.")
        .default("{}"),
    Key::new(
        "shadow",
        KeyForm::Custom(
            || schema::object(SHADOW),
            |settings, field, context| read_shadow(field, context).map(|rules| settings.shadow = Some(rules)),
        ),
    )
    .about("A policy that `toolgate serve` tries on live calls, without effect, to show what it would decide."),
    Key::new("readiness", KeyForm::choice(&ChoiceForm(READINESS, |settings, choice| settings.readiness = choice)))
        .about("When toolgate reports ready: `all` (every enabled server is ready) or `any` (at once, with warnings).")
        .default("\"any\""),
    Key::new("allow_commands", KeyForm::Flag(|settings, flag| settings.allow_commands = flag))
        .about("Allow `${cmd:COMMAND}` in values, which runs the command and inserts its output.")
        .default("false"),
    Key::new(
        "start_concurrency",
        KeyForm::Number(1, 1000, |settings, number| settings.start_concurrency = Some(number)),
    )
    .about("How many servers may start at once; default: four times the number of cores, and at least 32."),
    Key::new("resource_tools", KeyForm::Flag(|settings, flag| settings.resource_tools = flag))
        .about("Offer two tools that list and read resources, for models that cannot do so themselves.")
        .default("false"),
    Key::new("max_servers", KeyForm::Number(1, 10_000, |settings, number| settings.max_servers = number))
        .about("The most servers that this file may define.")
        .default("200"),
    Key::new("spin_wait", KeyForm::Flag(|settings, flag| settings.spin_wait = flag))
        .about("Keep a thread awake for up to 200 µs while a quick peer's next message is expected; false saves power.")
        .default("true"),
    Key::new(
        "inputs",
        KeyForm::Custom(
            || schema::list(schema::object(INPUT)),
            |settings, field, context| read_inputs(field, context).map(|inputs| settings.inputs = inputs),
        ),
    )
    .about("Questions to ask a person for `${input:ID}`; the variable TOOLGATE_INPUT_<ID> answers without asking.")
    .default("[]"),
    Key::hidden("$schema", KeyForm::Custom(schema::text, |_, _, _| Ok(()))),
];

/// The values of `names`.
pub(crate) const NAMES: &[(&str, NamesStyle)] = &[
    ("dot", NamesStyle::Dot),
    ("double-underscore", NamesStyle::DoubleUnderscore),
    ("mcp-prefix", NamesStyle::McpPrefix),
    ("mcp-underscore", NamesStyle::McpUnderscore),
];
/// The values of `retry`.
pub(crate) const RETRY: &[(&str, RetryPolicy)] =
    &[("safe", RetryPolicy::Safe), ("always", RetryPolicy::Always), ("never", RetryPolicy::Never)];
/// The values of `destructive`.
pub(crate) const DESTRUCTIVE: &[(&str, DestructivePolicy)] =
    &[("allow", DestructivePolicy::Allow), ("ask", DestructivePolicy::Ask), ("deny", DestructivePolicy::Deny)];
const READINESS: &[(&str, ReadinessRule)] = &[("all", ReadinessRule::All), ("any", ReadinessRule::Any)];
