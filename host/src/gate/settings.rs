//! The configuration in the words of the component.

use crate::config::is_id;
use crate::config::model::{
    Config, DestructiveRule, GatewayNames, Masking, NamesStyle, Problem, RetryRule, ServerConfig, TokenRules,
};
use crate::decide::{Decide, LogicResult};
use crate::logic::types::{Annotations, execution, filtering, masking, naming, recovery};
use crate::words::ErrorText;

/// What one gate is to see of the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GateView {
    /// The servers and tools that it may use; `None` means all, and an empty list none: all that it names are switched off.
    pub selection: Option<Vec<filtering::SelectedServer>>,
    /// What the principal has been granted; `None` means that no principal is given.
    pub capabilities: Option<Vec<String>>,
    /// What `{{.SESSION_ID}}` stands for in the configuration; servers that use it get a connection for this session.
    pub session: Option<String>,
    /// Answers are wanted as their servers wrote them, and not as text for a model.
    pub pass_through: bool,
    /// The most bytes of text in a result, in place of the configured limit; zero means no limit.
    pub max_result_bytes: Option<u64>,
}

/// The settings of a gate.
pub fn settings(logic: &mut impl Decide, config: &Config, view: &GateView) -> LogicResult<execution::Settings> {
    let mut settings = logic.default_settings(&[])?;
    let of_file = &config.settings;
    // To the component a selection names a server at least, and a gate without servers has none to select from.
    let none = view.selection.as_ref().is_some_and(Vec::is_empty);
    let usable: Vec<_> = config.servers.iter().filter(|server| is_usable(server) && !none).collect();
    settings.policy = filtering::Policy {
        servers: usable.iter().copied().map(rules).collect(),
        selection: view.selection.clone().filter(|_| !none),
        read_only: of_file.read_only,
        destructive: match of_file.destructive {
            DestructiveRule::Allow => filtering::DestructivePolicy::Allow,
            DestructiveRule::Ask => filtering::DestructivePolicy::Ask,
            DestructiveRule::Deny => filtering::DestructivePolicy::Deny,
        },
        capabilities: view.capabilities.clone(),
    };
    settings.style = style(of_file.names);
    settings.bare_names = of_file.bare_names;
    settings.describe_server = of_file.describe_server;
    settings.check_arguments = of_file.check_arguments;
    settings.retry = match of_file.retry {
        RetryRule::Safe => recovery::RetryPolicy::Safe,
        RetryRule::Always => recovery::RetryPolicy::Always,
        RetryRule::Never => recovery::RetryPolicy::Never,
    };
    settings.masks = to_masks(&of_file.masking);
    settings.server_masks = usable
        .iter()
        .filter(|server| server.problem.is_none() && server.masking != Masking::default())
        .map(|server| execution::ServerMasks { server: server.id.clone(), masks: to_masks(&server.masking) })
        .collect();
    if view.pass_through {
        settings.form = execution::ResultForm::PassThrough;
    }
    settings.spill = of_file.spill.is_some();
    settings.summarize_above_tokens = of_file.summarizer.as_ref().map(|_| of_file.summarize_above_tokens);
    settings.ask_max_bytes = of_file.ask_max_bytes;
    settings.max_result_bytes = view.max_result_bytes.unwrap_or(of_file.max_result_bytes);
    Ok(settings)
}

/// Finds what only the component can see to be wrong with single servers, so that the others can be used.
pub fn find_problems(logic: &mut impl Decide, config: &mut Config) -> LogicResult<()> {
    for server in &mut config.servers {
        if server.problem.is_some() || server.masking == Masking::default() {
            continue;
        }
        if let Err(error) = logic.mask(&to_masks(&server.masking), "")? {
            let field = Some(format!("servers.{}.masking", server.id));
            server.problem = Some(Problem { place: server.place.clone(), field, text: error.error_text() });
        }
    }
    Ok(())
}

/// A server with a problem is known to the component, so that a call to it hears of the problem; one whose id is none
/// cannot be called at all.
fn is_usable(server: &ServerConfig) -> bool {
    server.enabled && is_id(&server.id)
}

/// A style of names in the words of the component.
pub fn style(names: NamesStyle) -> naming::NamingStyle {
    match names {
        NamesStyle::Dot => naming::NamingStyle::Dot,
        NamesStyle::DoubleUnderscore => naming::NamingStyle::DoubleUnderscore,
        NamesStyle::McpPrefix => naming::NamingStyle::McpPrefix,
    }
}

/// The style of the names that the clients of a gateway are shown, in the words of the component.
pub fn shown_style(names: GatewayNames) -> naming::NamingStyle {
    let fitted = |target| naming::NamingStyle::Fitted(naming::Audience { target, prefix: String::new() });
    match names {
        GatewayNames::Dot => naming::NamingStyle::Dot,
        GatewayNames::DoubleUnderscore => naming::NamingStyle::DoubleUnderscore,
        GatewayNames::McpPrefix => naming::NamingStyle::McpPrefix,
        GatewayNames::Openai => fitted(naming::Target::Openai),
        GatewayNames::Anthropic => fitted(naming::Target::Anthropic),
        GatewayNames::Gemini => fitted(naming::Target::Gemini),
        GatewayNames::Cursor => fitted(naming::Target::Cursor),
    }
}

/// Whether anything is masked in what a server says.
pub fn masks(config: &Config, server: &str) -> bool {
    let own = config.servers.iter().find(|known| known.id == server).map(|server| &server.masking);
    [Some(&config.settings.masking), own].into_iter().flatten().any(|masking| *masking != Masking::default())
}

fn rules(server: &ServerConfig) -> filtering::ServerRules {
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
                annotations: Annotations {
                    read_only: rules.annotations.read_only,
                    destructive: rules.annotations.destructive,
                    idempotent: rules.annotations.idempotent,
                    open_world: rules.annotations.open_world,
                },
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

/// What is said about one server, for whoever wants to know whether it fits: the rules for all, and for each token what it
/// may use of the server, with its principal.
pub fn policies_about(config: &Config, server: &str) -> Vec<(Option<String>, filtering::Policy)> {
    let policy = |rules, view: GateView| filtering::Policy {
        servers: vec![rules],
        selection: view.selection,
        read_only: false,
        destructive: filtering::DestructivePolicy::Allow,
        capabilities: view.capabilities,
    };
    let Some(found) = config.servers.iter().find(|known| known.id == server) else { return Vec::new() };
    let all = (None, policy(rules(found), GateView::default()));
    let bare = rules(&ServerConfig::new(server, found.place.clone(), found.kind));
    let of_tokens =
        views(config).into_iter().filter(|(_, view)| view.selection.is_some() || view.capabilities.is_some());
    std::iter::once(all).chain(of_tokens.map(|(name, view)| (Some(name), policy(bare.clone(), view)))).collect()
}

/// The principal who comes over standard input and output, or where no token is asked for: the user who runs toolgate.
pub const LOCAL: &str = "local";

/// What the tokens of a configuration let their principals use, in its order. The component knows no server that is
/// switched off in the configuration.
pub fn views(config: &Config) -> Vec<(String, GateView)> {
    let usable = |id: &str| config.servers.iter().any(|server| server.id == id && server.enabled);
    let selected =
        |(id, tools): &(String, Vec<String>)| filtering::SelectedServer { id: id.clone(), tools: tools.clone() };
    let view = |token: &TokenRules| GateView {
        selection: token
            .selection
            .as_ref()
            .map(|servers| servers.iter().filter(|(id, _)| usable(id)).map(selected).collect()),
        capabilities: token.capabilities.clone(),
        ..GateView::default()
    };
    config.settings.gateway.tokens.iter().map(|token| (token.principal.clone(), view(token))).collect()
}
