//! The gateway's settings, from the configuration and the command line.

use std::net::ToSocketAddrs;

use crate::config::model::{Config, GatewayRules, TokenRules};
use crate::config::resolve::{
    ResolvedGateway, ResolvedShadow, ResolvedToken, StoreUrl, resolve_gateway, resolve_shadow,
};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::failure::format_chain;
use crate::gate;
use crate::gateway;
use crate::gateway::GatewayLimits;
use crate::gateway::client::Principal;
use crate::gateway::http::{self, HttpServer, Tokens};

use super::args::Args;
use crate::cli::context::check_configured;
use crate::cli::error::CliError;
use crate::cli::signals::StopTimes;

/// The settings of a gateway.
pub(in crate::cli) struct GatewaySetup {
    /// The configuration.
    pub config: Config,
    /// How tools are named, and what each principal may use.
    pub options: gateway::GatewayOptions,
    /// Limits on sizes, counts and times.
    pub limits: GatewayLimits,
    /// How long the gateway takes to stop.
    pub stop_times: StopTimes,
    /// The settings of the HTTP listener, if there is one.
    pub http: Option<http::HttpOptions>,
    /// The store that replicas share; `None` means the memory of this process.
    pub store: Option<StoreUrl>,
    /// The tokens of its clients.
    pub tokens: Vec<ResolvedToken>,
    /// The shadow policy to try, if there is one.
    pub shadow: Option<ResolvedShadow>,
    /// The secrets to hide.
    pub secrets: Secrets,
}

impl GatewaySetup {
    /// Resolves the settings of a gateway that serves HTTP where the configuration says, and fails where `serve` would;
    /// nothing is opened.
    pub(in crate::cli) fn checked(config: &Config, variables: &Variables) -> Result<Self, CliError> {
        let args = Args { http: Some(None), ..Args::default() };
        let setup = GatewaySetup::new(&args, config.clone(), variables)?;
        let checked = setup.http.as_ref().map(HttpServer::check).transpose();
        checked.map_err(|error| CliError::Usage(format_chain(&error)))?;
        Ok(setup)
    }

    /// Resolves the gateway's settings.
    pub(super) fn new(args: &Args, config: Config, variables: &Variables) -> Result<Self, CliError> {
        if let Some(server) = &args.expose {
            check_configured(&config, server)?;
        }
        let filled = resolve_gateway(&config, variables).map_err(CliError::usage)?;
        let shadow = resolve_shadow(&config, variables).map_err(CliError::usage)?;
        let limits = limits(&config.settings.gateway);
        let http = match &args.http {
            Some(address) => Some(http_options(address.as_deref(), &config, &filled, limits.clone())?),
            None => None,
        };
        // Nobody chooses between gateways on standard input and output.
        let drain_delay = http.as_ref().map(|_| config.settings.gateway.drain_delay).unwrap_or_default();
        let stop_times = StopTimes { drain_delay, grace: limits.grace };
        let views = gate::views(&config).into_iter().collect();
        let names = args.names.or(config.settings.gateway.names).map(gate::shown_style);
        let gateway = &config.settings.gateway;
        let list = |token: &TokenRules| Some((token.principal.clone(), token.list?));
        let lists = (gateway.tokens.iter().filter_map(list).collect(), gateway.list);
        let session_keys = filled.session_keys.clone();
        let records = args.record.iter().skip(1).cloned().collect();
        let expose = args.expose.clone();
        let options = gateway::GatewayOptions { names, lists, expose, views, session_keys, records };
        let ResolvedGateway { tokens, store, secrets, .. } = filled;
        Ok(GatewaySetup { config, options, limits, stop_times, http, store, tokens, shadow, secrets })
    }
}

/// Returns the limits of a listener.
fn limits(rules: &GatewayRules) -> GatewayLimits {
    GatewayLimits {
        max_body_bytes: usize::try_from(rules.max_body_bytes).unwrap_or(usize::MAX),
        max_connections: rules.max_connections,
        max_requests: rules.max_in_flight,
        max_inflight_bytes: usize::try_from(rules.max_inflight_bytes).unwrap_or(usize::MAX),
        max_sessions: rules.max_sessions,
        session_idle: rules.session_idle,
        grace: rules.grace,
        ..GatewayLimits::default()
    }
}

/// Returns the settings of the HTTP listener.
fn http_options(
    address: Option<&str>,
    config: &Config,
    filled: &ResolvedGateway,
    limits: GatewayLimits,
) -> Result<http::HttpOptions, CliError> {
    let rules = &config.settings.gateway;
    let text = address.or(rules.http.as_deref()).unwrap_or(DEFAULT_ADDRESS);
    let address = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    let address =
        address.ok_or_else(|| CliError::Usage(format!("{text:?} is not an address; write it as 127.0.0.1:8808")))?;
    let tokens = filled
        .tokens
        .iter()
        .map(|token| (token.token.clone(), Principal { name: token.principal.clone(), admin: token.admin }));
    let tokens = Tokens::new(tokens).map_err(|error| CliError::Usage(format_chain(&error)))?;
    Ok(http::HttpOptions {
        hosts: rules.hosts.iter().chain(&rules.origins).cloned().collect(),
        tokens,
        tls: filled.tls.clone().map(|(certificate, key)| http::CertificateFiles { certificate, key }),
        rate: rules.rate.map(|per_second| http::RateLimit { per_second, burst: per_second.saturating_mul(2) }),
        on_store_failure: rules.on_store_failure,
        limits,
        ..http::HttpOptions::new(address)
    })
}

const DEFAULT_ADDRESS: &str = "127.0.0.1:8808";
