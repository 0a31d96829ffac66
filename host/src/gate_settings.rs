//! Converts the configuration to the component's settings.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};

use crate::agent::Agent;
use crate::config::is_id;
use crate::config::model::{
    Config, GatewayNames, ListMode, Masking, NamesStyle, Problem, RuleConfig, SearchRules, ServerConfig,
    ServerSummarizer, Settings, TokenRules,
};
use crate::decide::{Decide, LogicResult};
use crate::logic::types::{execution, filtering, masking, naming, rules, search};
use crate::words::ErrorText;

/// One gate's view of the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GateView {
    /// The servers and tools it may use; `None` means all, and an empty list means none, because all named servers are
    /// disabled.
    pub selection: Option<Vec<filtering::SelectedServer>>,
    /// The servers and tools that the agent chose for itself, of those that it may use; `None` means all.
    pub choice: Option<Vec<filtering::SelectedServer>>,
    /// The capabilities of the principal; `None` means that there is no principal.
    pub capabilities: Option<Vec<String>>,
    /// The value of `{{.SESSION_ID}}` in the configuration; servers that use it get a connection for this session.
    pub session: Option<String>,
    /// Whether results are wanted as their servers wrote them, not as text for a model.
    pub pass_through: bool,
    /// Whether the gate has no tools that list and read resources, whatever the configuration says.
    pub without_resource_tools: bool,
    /// The maximum size of a result's text in bytes, instead of the configured limit; zero means no limit.
    pub max_result_bytes: Option<u64>,
    /// Which tools are listed, and under which names others are found; `None` means that all are listed.
    pub listing: Option<Listing>,
    /// The rules for its principal alone.
    pub rules: Vec<rules::Rule>,
    /// Who uses the gate.
    pub agent: Agent,
    /// Whether the gate only says what its agent may use: it starts no server for the agent alone, and its questions do
    /// not count as the agent's activity.
    pub only_looks: bool,
}

/// Returns the ids of selected servers, for looking up many.
pub(crate) fn server_ids(selection: &[filtering::SelectedServer]) -> HashSet<&str> {
    selection.iter().map(|selected| selected.id.as_str()).collect()
}

/// Which tools are listed for an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Whether there are any that are not.
    pub mode: ListMode,
    /// The naming style of tools that are found; `None` means that they have their own names.
    pub style: Option<naming::NamingStyle>,
}

impl GateView {
    /// Returns what of the view decides its settings: all but its session, and who uses it for what. Many principals
    /// may have the same.
    #[must_use]
    pub(crate) fn anonymous(&self) -> Self {
        GateView { session: None, agent: Agent::default(), only_looks: false, ..self.clone() }
    }

    /// Returns the view for a new session, with a random id.
    #[must_use]
    pub fn in_new_session(self) -> Self {
        // `RandomState` takes its keys from the system's random numbers.
        let draw = || RandomState::new().build_hasher().finish();
        GateView { session: Some(format!("{:016x}{:016x}", draw(), draw())), ..self }
    }
}

/// Builds the settings of a gate.
pub(crate) fn settings(logic: &mut impl Decide, config: &Config, view: &GateView) -> LogicResult<execution::Settings> {
    let mut settings = logic.default_settings(&[])?;
    let of_file = &config.settings;
    // The component rejects an empty selection, so a gate that may use no server gets no servers instead.
    let none = view.selection.as_ref().is_some_and(Vec::is_empty);
    let usable: Vec<_> = config.servers.iter().filter(|server| is_usable(server) && !none).collect();
    settings.policy = filtering::Policy {
        servers: usable.iter().copied().map(filter_rules).collect(),
        selection: view.selection.clone().filter(|_| !none),
        choice: view.choice.clone(),
        read_only: of_file.read_only,
        destructive: of_file.destructive,
        capabilities: view.capabilities.clone(),
    };
    let resource_tools = offers_resource_tools(config, view) && !none;
    if resource_tools {
        add_resource_server(&mut settings.policy);
    }
    settings.style = style(of_file.names);
    settings.bare_names = of_file.bare_names;
    settings.describe_server = of_file.describe_server;
    settings.check_arguments = of_file.check_arguments;
    settings.retry = of_file.retry;
    settings.masks = to_masks(&of_file.masking);
    settings.summarize_above_tokens = of_file.summarizer.as_ref().map(|_| of_file.summarize_above_tokens);
    let own = |server: &&ServerConfig| server_settings(server, of_file);
    settings.server_settings = usable.iter().filter(|server| server.problem.is_none()).filter_map(own).collect();
    if resource_tools && settings.summarize_above_tokens.is_some() {
        // The server of the resource may have no summarizer, or its own.
        settings.server_settings.push(never_summarized(RESOURCE_SERVER));
    }
    if view.pass_through {
        settings.form = execution::ResultForm::PassThrough;
    }
    settings.spill = of_file.spill.is_some();
    settings.ask_max_bytes = of_file.ask_max_bytes;
    settings.max_result_bytes = view.max_result_bytes.unwrap_or(of_file.max_result_bytes);
    settings.search = search_settings(config, view);
    // Tools that are found under their own names are called by them.
    settings.bare_names |= view.listing.as_ref().is_some_and(|listing| listing.style.is_none());
    settings.rules = rule_set(config, &usable, view);
    if resource_tools {
        label_resources(&mut settings.rules.results);
    }
    Ok(settings)
}

/// Returns when tools are found by searching.
fn search_settings(config: &Config, view: &GateView) -> Option<search::SearchSettings> {
    let Listing { mode, style } = view.listing.as_ref()?;
    let SearchRules { above_tools, above_tokens, always } = config.settings.search.clone();
    let (above_tools, above_tokens) = match mode {
        ListMode::All => return None,
        ListMode::Search => (0, 0),
        ListMode::Auto => (above_tools, above_tokens),
    };
    Some(search::SearchSettings { above_tools, above_tokens, always, style: style.clone() })
}

/// Returns the rules of all servers, of each server, and of the principal, each list on its own.
fn rule_set(config: &Config, servers: &[&ServerConfig], view: &GateView) -> rules::RuleSet {
    let plain = |rules: &[RuleConfig]| rules.iter().map(|rule| rule.rule.clone()).collect::<Vec<_>>();
    let of_servers = servers.iter().filter(|server| server.problem.is_none()).map(|server| server_rules(server));
    let lists = [plain(&config.settings.rules)].into_iter().chain(of_servers).chain([view.rules.clone()]);
    rules::RuleSet {
        lists: lists.filter(|list| !list.is_empty()).collect(),
        results: config.settings.results.iter().map(|result| result.rule.clone()).collect(),
        known: config.settings.known.clone(),
    }
}

/// Gives results of the resource tools all labels that results have, unless the configuration says what they mean: they
/// may come from any server.
fn label_resources(results: &mut Vec<rules::ResultRule>) {
    let own = format!("{RESOURCE_SERVER}.");
    let mut labels: Vec<String> = results.iter().flat_map(|rule| rule.labels.iter().cloned()).collect();
    labels.sort();
    labels.dedup();
    if !labels.is_empty() && !results.iter().any(|rule| rule.tools.starts_with(&own)) {
        let tools = format!("{own}*");
        results.push(rules::ResultRule { tools, labels, trusted: false, trusted_fields: Vec::new() });
    }
}

/// Returns settings with all rules of a configuration, also those of single principals, to check them.
pub(crate) fn check_settings(logic: &mut impl Decide, config: &Config) -> LogicResult<execution::Settings> {
    let of_tokens = config.settings.gateway.tokens.iter().flat_map(|token| &token.rules);
    let mut names = HashSet::new();
    // Several tokens may have the same rule.
    let rules = of_tokens.map(|rule| &rule.rule).filter(|rule| names.insert(&rule.name)).cloned().collect();
    settings(logic, config, &GateView { rules, ..GateView::default() })
}

/// Returns the rules of a server, with the names of its tools in full.
fn server_rules(server: &ServerConfig) -> Vec<rules::Rule> {
    let full = |rule: &RuleConfig| {
        let tools = rule.rule.tools.iter().map(|pattern| format!("{}.{pattern}", server.id)).collect();
        rules::Rule { tools, ..rule.rule.clone() }
    };
    server.rules.iter().map(full).collect()
}

/// Describes why settings cannot be used, with the position of a rule that is wrong.
pub(crate) fn settings_error(config: &Config, error: &execution::SettingsError) -> String {
    let wrong = match (error, &config.settings.masking_place.0) {
        (execution::SettingsError::Rules(wrong), _) => wrong,
        // Those of servers were looked at before.
        (execution::SettingsError::Masks(wrong), Some(place)) => {
            return format!("{place}: masking: {}", wrong.error_text());
        }
        _ => return error.error_text(),
    };
    let found = all_rules(config).find(|rule| rule.is_meant_by(wrong));
    found.map_or_else(|| error.error_text(), |rule| format!("{}: {}", rule.position_of(wrong.at), error.error_text()))
}

/// Returns all rules of a configuration.
pub(crate) fn all_rules(config: &Config) -> impl Iterator<Item = &RuleConfig> {
    let of_servers = config.servers.iter().flat_map(|server| &server.rules);
    let of_tokens = config.settings.gateway.tokens.iter().flat_map(|token| &token.rules);
    config.settings.rules.iter().chain(of_servers).chain(of_tokens)
}

/// The server of the tools that list and read resources.
pub(crate) const RESOURCE_SERVER: &str = "toolgate";

/// Reports whether a gate has tools that list and read resources; a configured server may have taken their name.
pub(crate) fn offers_resource_tools(config: &Config, view: &GateView) -> bool {
    let is_free = || config.servers.iter().all(|server| server.id != RESOURCE_SERVER);
    config.settings.resource_tools && !view.without_resource_tools && is_free()
}

/// Returns the capability for the resource tools.
pub(crate) fn resource_grant() -> String {
    format!("server:{RESOURCE_SERVER}")
}

fn never_summarized(server: &str) -> execution::ServerSettings {
    execution::ServerSettings {
        server: server.to_owned(),
        masks: to_masks(&Masking::default()),
        summarize_above_tokens: Some(u64::MAX),
        structured_text: false,
    }
}

/// Lets every gate use the resource tools: what they may list and read is decided by the rules of each server.
fn add_resource_server(policy: &mut filtering::Policy) {
    let id = RESOURCE_SERVER.to_owned();
    for list in [&mut policy.selection, &mut policy.choice].into_iter().flatten() {
        list.push(filtering::SelectedServer { id: id.clone(), tools: Vec::new() });
    }
    // A principal without any capability may use nothing.
    if let Some(capabilities) = policy.capabilities.as_mut().filter(|capabilities| !capabilities.is_empty()) {
        capabilities.push(resource_grant());
    }
    let rules = filtering::Rules { allow: None, deny: Vec::new() };
    let (ask, requires, tools) = Default::default();
    policy.servers.push(filtering::ServerRules { id, rules, ask, requires, tools });
}

/// Returns what differs for one server, if anything does.
fn server_settings(server: &ServerConfig, of_all: &Settings) -> Option<execution::ServerSettings> {
    let own = server.summarize_above_tokens;
    let summarize_above_tokens = match &server.summarizer {
        ServerSummarizer::Shared => own.filter(|_| of_all.summarizer.is_some()),
        ServerSummarizer::Off => Some(u64::MAX),
        ServerSummarizer::Own(_) => own.or(Some(of_all.summarize_above_tokens)),
    };
    let differs = server.masking != Masking::default() || summarize_above_tokens.is_some() || server.structured_text;
    differs.then(|| execution::ServerSettings {
        server: server.id.clone(),
        masks: to_masks(&server.masking),
        summarize_above_tokens,
        structured_text: server.structured_text,
    })
}

/// Notes problems of single servers that only the component can find, so that the other servers can be used.
pub fn find_problems(logic: &mut impl Decide, config: &mut Config) -> LogicResult<()> {
    for server in config.servers.iter_mut().filter(|server| server.problem.is_none()) {
        if server.masking != Masking::default()
            && let Err(error) = logic.mask(&to_masks(&server.masking), "")?
        {
            let field = Some(format!("servers.{}.masking", server.id));
            server.problem = Some(Problem { place: server.place.clone(), field, text: error.error_text() });
        } else if !server.rules.is_empty() {
            server.problem = find_rule_problem(logic, server)?;
        }
    }
    Ok(())
}

/// Returns what is wrong with the rules of a server.
fn find_rule_problem(logic: &mut impl Decide, server: &ServerConfig) -> LogicResult<Option<Problem>> {
    let mut settings = logic.default_settings(&[])?;
    settings.rules.lists = vec![server_rules(server)];
    let error = match logic.open_gate(&settings)? {
        Ok(gate) => return logic.close_gate(gate).map(|()| None),
        Err(error) => error,
    };
    let place = match &error {
        execution::SettingsError::Rules(wrong) => {
            let rule = server.rules.iter().find(|rule| rule.is_meant_by(wrong));
            rule.map(|rule| rule.position_of(wrong.at))
        }
        _ => None,
    };
    let place = place.unwrap_or_else(|| server.place.clone());
    let field = Some(format!("servers.{}.rules", server.id));
    Ok(Some(Problem { place, field, text: error.error_text() }))
}

/// Reports whether the component gets this server. It gets servers with a problem too, so that a call reports the
/// problem, but not one with an invalid id, which cannot be called.
fn is_usable(server: &ServerConfig) -> bool {
    server.enabled && is_id(&server.id)
}

/// Converts a style of names.
pub(crate) fn style(names: NamesStyle) -> naming::NamingStyle {
    match names {
        NamesStyle::Dot => naming::NamingStyle::Dot,
        NamesStyle::DoubleUnderscore => naming::NamingStyle::DoubleUnderscore,
        NamesStyle::McpPrefix => naming::NamingStyle::McpPrefix,
        NamesStyle::McpUnderscore => naming::NamingStyle::McpUnderscore,
    }
}

/// Converts the style of names that clients of a gateway see.
pub fn shown_style(names: GatewayNames) -> naming::NamingStyle {
    let fitted = |target| naming::NamingStyle::Fitted(naming::Audience { target, prefix: String::new() });
    match names {
        GatewayNames::Dot => naming::NamingStyle::Dot,
        GatewayNames::DoubleUnderscore => naming::NamingStyle::DoubleUnderscore,
        GatewayNames::McpPrefix => naming::NamingStyle::McpPrefix,
        GatewayNames::McpUnderscore => naming::NamingStyle::McpUnderscore,
        GatewayNames::Openai => fitted(naming::Target::Openai),
        GatewayNames::Anthropic => fitted(naming::Target::Anthropic),
        GatewayNames::Gemini => fitted(naming::Target::Gemini),
        GatewayNames::Cursor => fitted(naming::Target::Cursor),
    }
}

/// Reports whether anything is masked in results of a server.
pub(crate) fn masks(config: &Config, server: &str) -> bool {
    let own = config.servers.iter().find(|known| known.id == server).map(|server| &server.masking);
    [Some(&config.settings.masking), own].into_iter().flatten().any(|masking| *masking != Masking::default())
}

/// Returns the masks of the settings for all servers and of this server together.
pub(crate) fn masks_of(settings: &Settings, server: &ServerConfig) -> masking::Masks {
    let (mut masks, own) = (to_masks(&settings.masking), to_masks(&server.masking));
    masks.groups.extend(own.groups);
    masks.patterns.extend(own.patterns);
    masks.custom.extend(own.custom);
    masks
}

/// Returns the rules of a server that go by the names of its tools.
pub(crate) fn filter_rules(server: &ServerConfig) -> filtering::ServerRules {
    filtering::ServerRules {
        id: server.id.clone(),
        rules: filtering::Rules { allow: server.allow.clone(), deny: server.deny.clone() },
        ask: server.ask.clone(),
        requires: server.requires.clone(),
        tools: server
            .tools
            .iter()
            .map(|rules| filtering::ToolRules {
                tool: rules.tool.clone(),
                annotations: rules.annotations,
                requires: rules.requires.clone(),
            })
            .collect(),
    }
}

fn to_masks(masking: &Masking) -> masking::Masks {
    let custom = |mask: &crate::config::model::CustomMask| masking::CustomMask {
        pattern: mask.pattern.clone(),
        replacement: mask.replacement.clone(),
    };
    masking::Masks {
        groups: masking.groups.clone(),
        patterns: masking.patterns.clone(),
        custom: masking.custom.iter().map(custom).collect(),
    }
}

/// The principal on standard input and output, or if no token is required: the user who runs toolgate.
pub const LOCAL: &str = "local";

/// Returns the view of each token's principal, in the order of the configuration; without disabled servers, which the
/// component does not know.
pub fn views(config: &Config) -> Vec<(String, GateView)> {
    let usable: HashSet<&str> =
        config.servers.iter().filter(|server| server.enabled).map(|server| server.id.as_str()).collect();
    let selected =
        |(id, tools): &(String, Vec<String>)| filtering::SelectedServer { id: id.clone(), tools: tools.clone() };
    let view = |token: &TokenRules| GateView {
        selection: token
            .selection
            .as_ref()
            .map(|servers| servers.iter().filter(|(id, _)| usable.contains(id.as_str())).map(selected).collect()),
        capabilities: token.capabilities.clone(),
        rules: token.rules.iter().map(|rule| rule.rule.clone()).collect(),
        agent: Agent {
            principal: token.principal.as_str().into(),
            groups: token.groups.as_slice().into(),
            admin: token.admin,
        },
        ..GateView::default()
    };
    config.settings.gateway.tokens.iter().map(|token| (token.principal.clone(), view(token))).collect()
}
