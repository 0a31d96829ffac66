//! `toolgate serve`: the gateway, one MCP server for all configured ones.

mod announce;
mod args;
mod reload;
mod setup;
mod shadow_loader;
mod watch;

use std::convert::Infallible;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use crate::config::lineage::Role;
use crate::config::model::Config;
use crate::config::resolve::{StoreUrl, resolve_record_dir};
use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::failure::format_chain;
use crate::gateway::http::{self, HttpServer, HttpServerError, Tokens};
use crate::gateway::pages::GatewayPages;
use crate::gateway::stdio::{self, standard};
use crate::gateway::{Gateway, GatewayLimits, Relay, socket};
use crate::lock::lock;
use crate::registry::{self, Registry};
use crate::store::{Store, draw_replica_name};

use super::configured_records::{check_other_folder, prepare_folder};
use super::context::{self, ConfigFallback};
use super::error::CliError;
use super::logic_args::LogicArgs;
use super::signals::Signals;
use super::{port_holder, style};
pub(super) use args::Args;
use reload::{ListenerControl, Reloader};
pub(super) use setup::GatewaySetup;

/// Serves until the client disconnects or a signal arrives.
pub(super) fn run(
    logic: &LogicArgs,
    flag: Option<&Path>,
    args: &Args,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<ExitCode, CliError> {
    let mut variables = Variables::from_process();
    let (config, origin) = context::load_config(flag, &variables, ConfigFallback::Fail)?;
    context::enter_lineage(&mut variables, origin.as_ref(), Role::Gateway)?;
    let setup = GatewaySetup::new(args, config, &variables)?;
    lock(secrets).merge(&setup.secrets);
    prepare_records(args, &setup.config, &variables)?;
    let reloader = origin.map(|origin| Reloader::new(args, origin, &variables, &setup, logic, secrets));
    let GatewaySetup { config, options, limits, stop_times, http, store: store_url, .. } = setup;
    let socket = config.settings.gateway.socket;
    announce::announce(&config, http.is_some(), args.record.first().map(PathBuf::as_path), &variables);
    // Handle signals before compiling the component, which may take a moment: SIGHUP must not end the program.
    let signals = Signals::of_service(stop_times)?;
    let component = logic.component(logic.limits())?;
    let mut builder = match http {
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
        None => tokio::runtime::Builder::new_current_thread(),
    };
    // One client needs one thread. Many clients get half of the cores: the servers need the others, and idle workers
    // would steal tasks that cost more to hand over than to run.
    builder.worker_threads(std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2)));
    let runtime = builder.enable_all().build()?;
    let runtime_folder = socket::folder(&variables);
    let outcome = runtime.block_on(async {
        let relay = Arc::new(Relay::default());
        let store = open_store(store_url.as_ref())?;
        let of_registry = registry::RegistryOptions {
            variables,
            handler: Arc::clone(&relay) as _,
            secrets: Arc::clone(secrets),
            blocking_runner: if http.is_some() { |work| tokio::task::block_in_place(work) } else { |work| work() },
            record: args.record.first().cloned(),
            store,
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
    // A blocking read of standard input cannot be cancelled.
    runtime.shutdown_background();
    outcome.map(|()| ExitCode::SUCCESS)
}

/// Creates the folder to record calls in. A gateway that was told to record its calls and cannot do so does not start;
/// one that runs goes on when its folder can no longer be written.
fn prepare_records(args: &Args, config: &Config, variables: &Variables) -> Result<(), CliError> {
    match args.record.split_first() {
        Some((own, others)) => {
            prepare_folder(own, "--record")?;
            others.iter().try_for_each(|dir| check_other_folder(dir))
        }
        None if config.settings.record.is_some() => {
            let dir = resolve_record_dir(config, variables).map_err(CliError::usage)?;
            prepare_folder(&dir, "record.dir")
        }
        None => Ok(()),
    }
}

/// Opens the store that replicas share, or one in the memory of this process.
pub(super) fn open_store(url: Option<&StoreUrl>) -> Result<Store, CliError> {
    let opened = url.map(|url| Store::redis(&url.0, &draw_replica_name()));
    opened.transpose().map(Option::unwrap_or_default).map_err(|error| CliError::Usage(format_chain(&error)))
}

async fn serve_stdio(
    gateway: &Arc<Gateway>,
    limits: GatewayLimits,
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
            gateway.start_draining();
            interrupted = true;
        };
        server.serve(&**gateway, input, output, stop).await?;
        if interrupted { Err(CliError::Interrupted) } else { Ok(()) }
    };
    tokio::select! {
        outcome = served => outcome,
        () = gateway.listen_to_replicas() => Ok(()),
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
    options.store = gateway.registry().store().clone();
    let server = HttpServer::bind(options).await.map_err(|error| match &error {
        HttpServerError::Address { address, source } if source.kind() == ErrorKind::AddrInUse => {
            let held = port_holder::describe(*address);
            CliError::Usage(format!("{held}; choose another address with --http ADDRESS or gateway.http"))
        }
        _ => CliError::Usage(format_chain(&error)),
    })?;
    style::write_note(&format!("listening on {scheme}://{}/mcp", server.address()));
    if let Some(token) = token {
        // After the `#`, which browsers do not send.
        style::write_note(&format!("dashboard, with an admin token: {scheme}://{}/#token={token}", server.address()));
    }
    gateway.add_listener("http", format!("{scheme}://{}/mcp", server.address()), server.load());
    let pages = Arc::new(GatewayPages(Arc::clone(gateway)));
    let control = server.control();
    let drain = async {
        signals.draining().await;
        gateway.start_draining();
    };
    let stop = async {
        signals.interrupted().await;
        gateway.start_draining();
    };
    tokio::select! {
        () = server.serve_with_drain(Arc::clone(gateway) as _, pages, drain, stop) => Ok(()),
        never = keep_reloading(reloader, gateway, ListenerControl::Http(control), signals) => match never {},
    }
}

/// Creates an admin token for the dashboard of a gateway without tokens, if a person at a terminal can see it; all
/// other output hides it.
fn dashboard_token(options: &mut http::HttpOptions, secrets: &Arc<Mutex<Secrets>>) -> Option<String> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let (token, tokens) = Tokens::draw()?;
    lock(secrets).add(&token);
    options.dashboard = tokens;
    Some(token)
}

/// Reloads the configuration whenever its file changes, if it comes from a file.
async fn keep_reloading(
    reloader: Option<Reloader>,
    gateway: &Gateway,
    listener: ListenerControl,
    signals: &Signals,
) -> Infallible {
    match reloader {
        Some(reloader) => reloader.run(gateway, listener, signals).await,
        None => std::future::pending().await,
    }
}
