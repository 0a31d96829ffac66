//! `toolgate serve`: one MCP server in front of all configured ones.

mod reload;
mod setup;
mod shadow_loader;
mod watch;

use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use toolgate::config::lineage::Role;
use toolgate::config::model::GatewayNames;
use toolgate::config::secrets::Secrets;
use toolgate::config::variables::Variables;
use toolgate::failure::format_chain;
use toolgate::gateway::http::{self, HttpServer, Tokens};
use toolgate::gateway::pages::GatewayPages;
use toolgate::gateway::stdio::{self, standard};
use toolgate::gateway::{Gateway, Relay, socket};
use toolgate::registry::{self, Registry};

use super::LogicArgs;
use super::context::{self, ConfigFallback};
use super::error::CliError;
use super::signals::Signals;
use reload::Reloader;
use setup::GatewaySetup;

/// How to be a server.
#[derive(clap::Args, Clone)]
pub struct Args {
    /// Listen here for HTTP, in place of standard input and output; without a value where gateway.http says, else on 127.0.0.1:8808
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1)]
    http: Option<Option<String>>,
    /// Only this server, with its own names
    #[arg(long, value_name = "SERVER")]
    expose: Option<String>,
    /// How tools are named, in place of what the configuration says
    #[arg(long, value_name = "STYLE", value_parser = names)]
    names: Option<GatewayNames>,
    /// Record calls in this folder, for `toolgate replay` and `toolgate explain`
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

/// Serves until the client has gone, or a signal comes.
pub fn run(
    logic: &LogicArgs,
    flag: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let mut variables = Variables::from_process();
    let (config, origin) = context::load_config_file(flag, &variables, ConfigFallback::Fail)?;
    context::enter_lineage(&mut variables, origin.as_ref(), Role::Gateway)?;
    let GatewaySetup { config, options, limits, http, tokens, shadow, secrets: of_gateway } =
        GatewaySetup::new(args, config, &variables)?;
    secrets.lock().unwrap_or_else(PoisonError::into_inner).merge(&of_gateway);
    let socket = config.settings.gateway.socket;
    let reloader = origin.map(|origin| Reloader::new(args, origin, &variables, tokens, shadow, logic, secrets));
    // Before the component is compiled, which may take a moment: SIGHUP is no reason to end.
    let signals = Signals::of_service(limits.grace)?;
    let component = logic.component()?;
    let mut builder = match http {
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
        None => tokio::runtime::Builder::new_current_thread(),
    };
    // One client needs one thread. Many get half of the cores: the other half is the servers', and threads that have
    // nothing to do take work from each other that is dearer to hand over than to do.
    builder.worker_threads(std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)));
    let runtime = builder.enable_all().build()?;
    let runtime_folder = socket::folder(&variables);
    let outcome = runtime.block_on(async {
        let relay = Arc::new(Relay::default());
        let of_registry = registry::RegistryOptions {
            variables,
            handler: Arc::clone(&relay) as _,
            secrets: Arc::clone(secrets),
            blocking_runner: if http.is_some() { |work| tokio::task::block_in_place(work) } else { |work| work() },
            record: args.record.clone(),
            ..registry::RegistryOptions::default()
        };
        let registry = Registry::new(&component, config, of_registry)?;
        let gateway = Arc::new(Gateway::new(Arc::clone(&registry), relay, options));
        if let Some(reloader) = &reloader {
            reloader.show_pending_shadow(&gateway);
        }
        let announced = if socket { socket::announce(&gateway, &runtime_folder).await } else { None };
        let outcome = match http {
            Some(options) => serve_http(&gateway, options, secrets, &signals, reloader).await,
            None => serve_stdio(&gateway, limits, &signals, reloader).await,
        };
        if let Some(announced) = announced {
            announced.end().await;
        }
        registry.close().await;
        outcome
    });
    // A read of standard input cannot be given up.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn serve_stdio(
    gateway: &Arc<Gateway>,
    limits: http::GatewayLimits,
    signals: &Signals,
    reloader: Option<Reloader>,
) -> Result<(), CliError> {
    let (input, output) = (standard::input()?, standard::output()?);
    let server = stdio::StdioServer::new(&limits);
    let control = server.control();
    gateway.add_listener("stdio", "standard input and output".to_owned(), server.load());
    let served = async {
        let mut interrupted = false;
        let stop = async {
            signals.interrupted().await;
            interrupted = true;
        };
        server.serve(&**gateway, input, output, stop).await?;
        if interrupted { Err(CliError::Interrupted) } else { Ok(()) }
    };
    tokio::select! {
        outcome = served => outcome,
        never = keep_reloading(reloader, gateway, ListenerControl::Stdio(control), signals) => match never {},
    }
}

async fn serve_http(
    gateway: &Arc<Gateway>,
    mut options: http::HttpOptions,
    secrets: &Arc<Mutex<Secrets>>,
    signals: &Signals,
    reloader: Option<Reloader>,
) -> Result<(), CliError> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let token = if options.tokens.is_empty() { dashboard_token(&mut options, secrets) } else { None };
    let server = HttpServer::bind(options).await.map_err(|error| CliError::Usage(format_chain(&error)))?;
    context::print_note(&format!("listening on {scheme}://{}/mcp", server.address()));
    if let Some(token) = token {
        // Behind the `#`, where a browser keeps it to itself.
        context::print_note(&format!(
            "the dashboard, with a token that may change things: {scheme}://{}/#token={token}",
            server.address()
        ));
    }
    gateway.add_listener("http", format!("{scheme}://{}/mcp", server.address()), server.load());
    let pages = Arc::new(GatewayPages(Arc::clone(gateway)));
    let control = server.control();
    tokio::select! {
        () = server.serve(Arc::clone(gateway) as _, pages, signals.interrupted()) => Ok(()),
        never = keep_reloading(reloader, gateway, ListenerControl::Http(control), signals) => match never {},
    }
}

/// Makes a token for the dashboard of a gateway without tokens, where a person at a terminal can be told. Whatever else is
/// printed or logged does not show it.
fn dashboard_token(options: &mut http::HttpOptions, secrets: &Arc<Mutex<Secrets>>) -> Option<String> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let (token, tokens) = Tokens::draw()?;
    secrets.lock().unwrap_or_else(PoisonError::into_inner).add(&token);
    options.dashboard = tokens;
    Some(token)
}

/// The door that clients come through, and how it is changed.
enum ListenerControl {
    Http(http::HttpControl),
    Stdio(stdio::StdioControl),
}

/// Keeps the gateway true to its configuration, where that comes from a file.
async fn keep_reloading(
    reloader: Option<Reloader>,
    gateway: &Gateway,
    door: ListenerControl,
    signals: &Signals,
) -> Infallible {
    match reloader {
        Some(reloader) => reloader.run(gateway, door, signals).await,
        None => std::future::pending().await,
    }
}

/// How tools are named, as the configuration writes it.
fn names(text: &str) -> Result<GatewayNames, String> {
    let known = || GatewayNames::ALL.map(|(name, _)| name).join(", ");
    GatewayNames::read(text).ok_or_else(|| format!("write one of: {}", known()))
}
