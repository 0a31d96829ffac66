//! `toolgate serve`: one MCP server in front of all configured ones.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use toolgate::config::model::{Config, GatewayNames};
use toolgate::config::resolve::{FilledGateway, FilledToken, resolve_gateway};
use toolgate::config::secrets::Secrets;
use toolgate::config::variables::Variables;
use toolgate::failure::in_full;
use toolgate::gate::View;
use toolgate::gateway::client::Principal;
use toolgate::gateway::http::{self, Door, Tokens};
use toolgate::gateway::pages::Site;
use toolgate::gateway::stdio::{self, standard};
use toolgate::gateway::{self, Gateway, Relay};
use toolgate::logic::types::filtering::SelectedServer;
use toolgate::logic::types::naming;
use toolgate::registry::{self, Registry};

use super::LogicArgs;
use super::desk::{self, Otherwise};
use super::failure::Failure;
use super::signals::Signals;

/// How to be a server.
#[derive(clap::Args)]
pub struct Args {
    /// Listen here for HTTP, in place of standard input and output
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    http: Option<Option<String>>,
    /// Only this server, with its own names
    #[arg(long, value_name = "SERVER")]
    expose: Option<String>,
    /// How tools are named, in place of what the configuration says
    #[arg(long, value_name = "STYLE", value_parser = names)]
    names: Option<GatewayNames>,
}

/// Serves until the client has gone, or a signal comes.
pub fn run(
    logic: &LogicArgs,
    flag: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, Failure> {
    let variables = Variables::of_process();
    let config = desk::configuration(flag, &variables, Otherwise::GiveUp)?;
    if let Some(server) = &args.expose
        && !config.servers.iter().any(|known| &known.id == server)
    {
        let known: Vec<_> = config.servers.iter().map(|server| server.id.as_str()).collect();
        let text = format!("no server {server:?} is configured; there are: {}", known.join(", "));
        return Err(Failure::NoSuchThing(text));
    }
    let filled = resolve_gateway(&config, &variables).map_err(|problem| Failure::Usage(problem.to_string()))?;
    secrets.lock().unwrap_or_else(PoisonError::into_inner).merge(&filled.secrets);
    let door = match &args.http {
        Some(address) => Some(door(address.as_deref(), &config, &filled)?),
        None => None,
    };
    let views = filled.tokens.iter().map(|token| (token.principal.clone(), view(token, &config))).collect();
    let names = args.names.or(config.settings.gateway.names).map(style);
    let options = gateway::Options { names, expose: args.expose.clone(), views };
    let component = logic.component()?;
    let signals = Signals::new()?;
    // One client needs one thread; many get as many as there are.
    let mut builder = match door {
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
        None => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let outcome = runtime.block_on(async {
        let relay = Arc::new(Relay::default());
        let of_registry = registry::Options {
            variables,
            handler: Arc::clone(&relay) as _,
            secrets: Arc::clone(secrets),
            ..registry::Options::default()
        };
        let registry = Registry::new(&component, config, of_registry)?;
        let gateway = Arc::new(Gateway::new(Arc::clone(&registry), relay, options));
        let outcome = match door {
            Some(options) => over_http(&gateway, options, &signals).await,
            None => over_stdio(&gateway, &signals).await,
        };
        registry.close().await;
        outcome
    });
    // A read of standard input cannot be given up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn over_stdio(gateway: &Gateway, signals: &Signals) -> Result<(), Failure> {
    let (input, output) = (standard::input()?, standard::output()?);
    tokio::select! {
        outcome = stdio::serve(gateway, input, output) => outcome.map_err(Failure::from),
        () = signals.interrupted() => Err(Failure::Interrupted),
    }
}

async fn over_http(gateway: &Arc<Gateway>, options: http::Options, signals: &Signals) -> Result<(), Failure> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let door = Door::bind(options).await.map_err(|error| Failure::Usage(in_full(&error)))?;
    desk::note(&format!("listening on {scheme}://{}/mcp", door.address()));
    let pages = Arc::new(Site(Arc::clone(gateway)));
    door.serve(Arc::clone(gateway) as _, pages, signals.interrupted()).await;
    Ok(())
}

/// How the door is to be.
fn door(address: Option<&str>, config: &Config, filled: &FilledGateway) -> Result<http::Options, Failure> {
    let rules = &config.settings.gateway;
    let text = address.or(rules.http.as_deref()).unwrap_or(DEFAULT_ADDRESS);
    let address = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    let address =
        address.ok_or_else(|| Failure::Usage(format!("{text:?} is no address; write it as 127.0.0.1:8808")))?;
    let tokens = filled
        .tokens
        .iter()
        .map(|token| (token.token.clone(), Principal { name: token.principal.clone(), admin: token.admin }));
    let tokens = Tokens::new(tokens).map_err(|error| Failure::Usage(in_full(&error)))?;
    let limits = http::Limits {
        max_body_bytes: usize::try_from(rules.max_body_bytes).unwrap_or(usize::MAX),
        max_connections: rules.max_connections,
        max_requests: rules.max_in_flight,
        max_inflight_bytes: usize::try_from(rules.max_inflight_bytes).unwrap_or(usize::MAX),
        max_sessions: rules.max_sessions,
        session_idle: rules.session_idle,
        grace: rules.grace,
        ..http::Limits::default()
    };
    Ok(http::Options {
        hosts: rules.hosts.iter().chain(&rules.origins).cloned().collect(),
        tokens,
        tls: filled.tls.clone().map(|(certificate, key)| http::TlsFiles { certificate, key }),
        rate: rules.rate.map(|per_second| http::Rate { per_second, burst: per_second.saturating_mul(2) }),
        limits,
        ..http::Options::new(address)
    })
}

/// What a token lets its principal use. The component knows no server that is switched off in the configuration.
fn view(token: &FilledToken, config: &Config) -> View {
    let usable = |id: &str| config.servers.iter().any(|server| server.id == id && server.enabled);
    let selected = |(id, tools): &(String, Vec<String>)| SelectedServer { id: id.clone(), tools: tools.clone() };
    let selection = token.selection.as_ref();
    View {
        selection: selection.map(|servers| servers.iter().filter(|(id, _)| usable(id)).map(selected).collect()),
        capabilities: token.capabilities.clone(),
        ..View::default()
    }
}

/// How tools are named, as the configuration writes it.
fn names(text: &str) -> Result<GatewayNames, String> {
    let known = || GatewayNames::ALL.map(|(name, _)| name).join(", ");
    GatewayNames::read(text).ok_or_else(|| format!("write one of: {}", known()))
}

fn style(names: GatewayNames) -> naming::NamingStyle {
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

const DEFAULT_ADDRESS: &str = "127.0.0.1:8808";
