//! `toolgate check`: connects to all servers, and shows what is wrong and how to fix it.

mod certificate;
mod gateway;
mod surroundings;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::config::model::{Config, TransportKind};
use crate::config::resolve::{resolve_store, server_path};
use crate::config::variables::Variables;
use crate::failure::{Failure as Cause, RequestError};
use crate::registry::{Link, Unavailable};
use crate::session::{ListKind, Session};
use crate::store::{Store, draw_replica_name};
use crate::visible;
use serde::Serialize;

use super::context::{CliContext, ServerArgs};
use super::error::{CliError, SERVER_UNAVAILABLE, USAGE};
use super::terminal::WaitingLine;
use super::{style, table};
use gateway::GatewayFindings;
use surroundings::Runtime;

/// The state of one server.
#[derive(Serialize)]
struct ServerCheck {
    server: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled: Option<bool>,
    transport: &'static str,
    #[serde(flatten)]
    found: FoundServer,
    start_ms: u64,
    reason: Option<String>,
    hint: Option<String>,
    /// What its program runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    /// Whether the configuration of the server is wrong, and not the server.
    #[serde(skip)]
    is_misconfigured: bool,
    /// Rules that match none of its tools, and lists that were cut.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// What a server says about itself and how much it offers, if it can be used.
#[derive(Default, Serialize)]
struct FoundServer {
    era: Option<&'static str>,
    version: Option<String>,
    name: Option<String>,
    software_version: Option<String>,
    tools: Option<usize>,
    /// How many of its tools the configuration allows.
    usable_tools: Option<usize>,
    resources: Option<usize>,
    prompts: Option<usize>,
}

/// Whether the store of a gateway's replicas can be reached.
#[derive(Serialize)]
struct StoreCheck {
    ok: bool,
    start_ms: u64,
    reason: Option<String>,
}

#[derive(Serialize)]
struct CheckReport {
    file: Option<String>,
    notices: Vec<String>,
    servers: Vec<ServerCheck>,
    /// The store of the gateway; `None` if it is the memory of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreCheck>,
    /// The reasons why `serve` would not start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
    /// Probable mistakes in rules, and what surrounds the servers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// Connects to all servers concurrently, and to the store of the gateway, and reports on each.
pub(super) async fn run(context: &CliContext, args: &ServerArgs) -> Result<ExitCode, CliError> {
    let links = context.requested_links();
    let waiting = WaitingLine::new(links.iter().filter(|link| link.server().enabled).map(|link| link.id()));
    // A person need not wait for the slowest server. Programs get the order of the configuration.
    let shows_early = !args.json && std::io::stdout().is_terminal();
    let checks = links.iter().map(|link| {
        let waiting = &waiting;
        async move {
            let checked = check(context, link, args.timeout).await?;
            waiting.answered(link.id());
            if shows_early {
                waiting.print(|| context.print_colored(&line(context, &checked)))?;
            }
            Ok::<_, CliError>(checked)
        }
    });
    let config = context.gate.registry().config();
    // Whoever names servers asks about nothing else.
    let of_gateway = tokio::task::spawn_blocking({
        let (config, is_asked) = (config.clone(), args.server.is_empty());
        move || if is_asked { GatewayFindings::new(&config) } else { GatewayFindings::default() }
    });
    let around = tokio::task::spawn_blocking({
        let (config, is_asked) = (config.clone(), args.server.is_empty());
        move || if is_asked { surroundings::warnings(&config) } else { Vec::new() }
    });
    let mut servers: Vec<ServerCheck> =
        futures_util::future::join_all(checks).await.into_iter().collect::<Result<_, _>>()?;
    drop(waiting);
    let mut warnings = Vec::new();
    for rule in context.gate.registry().unmatched_rules() {
        let of = servers.iter_mut().find(|server| server.server == rule.warning.server);
        match of {
            Some(server) if !shows_early => server.warnings.push(context.clean(&rule.warning.text)),
            Some(server) => warnings.push(context.clean(&format!("{}: {}", server.server, rule.warning.text))),
            None => warnings.push(context.clean(&rule.warning.text)),
        }
    }
    warnings.extend(copies_warning(&config));
    let GatewayFindings { errors, warnings: of_gateway } = of_gateway.await.unwrap_or_default();
    let errors: Vec<_> = errors.iter().map(|text| context.clean(text)).collect();
    warnings.extend(of_gateway.iter().map(|text| context.clean(text)));
    // Looking up the name of an address may take long.
    let around = tokio::time::timeout(AROUND, around).await;
    warnings.extend(around.ok().and_then(Result::ok).iter().flatten().map(|text| context.clean(text)));
    let store = if args.server.is_empty() { check_store(context).await } else { None };
    let any_failed = servers.iter().any(|server| !server.ok && server.disabled.is_none())
        || store.as_ref().is_some_and(|store| !store.ok);
    let is_misconfigured = !errors.is_empty() || servers.iter().any(|server| server.is_misconfigured);
    if args.json {
        let file = config.file.as_ref().map(|file| file.display().to_string());
        let notices = config.notices.iter().map(ToString::to_string).collect();
        context.print_json(&CheckReport { file, notices, servers, store, errors, warnings })?;
    } else {
        let later = servers.iter().filter(|_| !shows_early);
        let text: String = later.map(|server| line(context, server)).collect();
        let rules: String = warnings
            .iter()
            .map(|text| format!("  {}\n", style::stdout().yellow(&table::wrap(text, 2, "  "))))
            .collect();
        let store = store.map(|store| store_line(context, &store)).unwrap_or_default();
        let refused: String = errors.iter().map(|text| refused_line(text)).collect();
        context.print_colored(&(text + &store + &refused + &rules))?;
        if servers.is_empty() {
            context.print("the configuration has no servers")?;
        }
    }
    Ok(match (is_misconfigured, any_failed) {
        (true, _) => ExitCode::from(USAGE),
        (false, true) => ExitCode::from(SERVER_UNAVAILABLE),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Says which servers every replica starts for itself, if the gateway is set up to have several replicas.
fn copies_warning(config: &Config) -> Option<String> {
    let gateway = &config.settings.gateway;
    let has_replicas = gateway.store.is_some() || !gateway.session_keys.is_empty();
    let programs = config.servers.iter().filter(|server| server.enabled && server.kind == TransportKind::Stdio);
    let programs: Vec<_> = programs.map(|server| server.id.as_str()).collect();
    (has_replicas && !programs.is_empty()).then(|| {
        format!(
            "each replica of the gateway starts its own {}: a server that keeps state belongs behind a toolgate of its own, \
             which all replicas reach over HTTP",
            programs.join(", ")
        )
    })
}

async fn check(context: &CliContext, link: &Link, timeout: Option<Duration>) -> Result<ServerCheck, CliError> {
    let started = Instant::now();
    let connect = async {
        match context.gate.connect(link).await {
            Ok(lease) => counts(lease.session()).await.map(|counts| (lease, counts)).map_err(Unavailable::Failed),
            Err(why) => Err(why),
        }
    };
    let (outcome, runtime) = tokio::join!(connect, surroundings::runtime(link.server()));
    let mut checked = ServerCheck {
        server: link.id().to_owned(),
        ok: outcome.is_ok(),
        disabled: matches!(outcome, Err(Unavailable::Disabled)).then_some(true),
        transport: link.server().kind.name(),
        found: FoundServer::default(),
        start_ms: elapsed_ms(started),
        reason: None,
        hint: None,
        runtime: runtime.as_ref().map(|runtime| runtime.text.clone()),
        is_misconfigured: matches!(outcome, Err(Unavailable::Problem(_))),
        warnings: Vec::new(),
    };
    let has_failed = outcome.is_err();
    match outcome {
        Ok((lease, ([tools, resources, prompts], cut_lists))) => {
            let peer = lease.session().peer();
            checked.transport = peer.transport;
            checked.found = FoundServer {
                era: Some(peer.era.name()),
                version: Some(peer.version.clone()),
                name: peer.name.clone(),
                software_version: peer.software_version.clone(),
                tools: Some(tools),
                usable_tools: Some(usable_tools(context, link)?),
                resources: Some(resources),
                prompts: Some(prompts),
            };
            let warning = |cut: &String| format!("the list is incomplete: {}", context.clean(cut));
            checked.warnings = cut_lists.iter().map(warning).collect();
        }
        Err(why) => {
            checked.reason = Some(context.clean(&why.to_string()));
            checked.hint = hint(context, link, &why, timeout);
        }
    }
    if let Some(Runtime { warning, suspicion, .. }) = runtime {
        checked.warnings.extend(warning.into_iter().chain(suspicion.filter(|_| has_failed)));
    }
    Ok(checked)
}

/// Counts the tools of a server that the configuration allows.
fn usable_tools(context: &CliContext, link: &Link) -> Result<usize, CliError> {
    let tools = context.gate.tools(&context.gate.style())?;
    Ok(tools.iter().filter(|tool| tool.tool.server == link.id()).count())
}

/// Connects to the store of the gateway, if it is not the memory of the process.
async fn check_store(context: &CliContext) -> Option<StoreCheck> {
    let started = Instant::now();
    // A store that is written wrong is among the reasons why `serve` would not start.
    let (url, _) = resolve_store(&context.gate.registry().config(), &Variables::from_process()).ok()??;
    let opened = Store::redis(&url.0, &draw_replica_name()).map_err(|error| error.to_string());
    let reason = match opened {
        Ok(store) => {
            store.tried().await;
            store.problem().map(|why| format!("the store cannot be reached: {why}"))
        }
        Err(why) => Some(why),
    };
    let reason = reason.map(|why| context.clean(&why));
    Some(StoreCheck { ok: reason.is_none(), start_ms: elapsed_ms(started), reason })
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Counts tools, resources and prompts, and returns which of the lists were cut.
async fn counts(session: &Session) -> Result<([usize; 3], Vec<String>), RequestError> {
    let (mut counts, mut cut) = ([0; 3], Vec::new());
    for (count, kind) in counts.iter_mut().zip([ListKind::Tools, ListKind::Resources, ListKind::Prompts]) {
        let listing = session.list(kind).await?;
        *count = listing.items.len();
        cut.extend(listing.cut.clone());
    }
    Ok((counts, cut))
}

/// Returns what a person can do about the failure, if that is known; `timeout` is the value of `--timeout`.
fn hint(context: &CliContext, link: &Link, why: &Unavailable, timeout: Option<Duration>) -> Option<String> {
    let (Unavailable::Failed(failed) | Unavailable::NeedsAuth(failed)) = why else { return None };
    let server = server_path(context.gate.registry().config().shape, link.id());
    match &failed.failure {
        Cause::NeedsAuth(_) => Some(format!("or give {server}.auth a token that the server accepts")),
        Cause::Http(error) if error.wants_authorization() => {
            Some(format!("give {server}.auth a token that the server accepts"))
        }
        Cause::Http(error) if error.status == 404 => {
            Some(format!("is the path of {server}.url right? it is often /mcp or /sse"))
        }
        Cause::Timeout { .. } | Cause::NotReady { .. } if timeout.is_some() => {
            Some("raise --timeout if it is only slow".to_owned())
        }
        Cause::Timeout { .. } => Some(format!("raise {server}.timeouts.list if it is only slow")),
        Cause::NotReady { .. } => Some(format!("raise {server}.timeouts.initialize if it is only slow to start")),
        Cause::Exited(exit) if exit.left_children => {
            Some("its command must run the server in the foreground: no `&`, and `exec` in a script".to_owned())
        }
        Cause::Exited(_) => Some("run its command by hand to see more".to_owned()),
        _ => None,
    }
}

fn line(context: &CliContext, checked: &ServerCheck) -> String {
    let style = style::stdout();
    let name = visible::escape(&checked.server);
    let (id, width) = (style.bold(&name), name.chars().count() + 4);
    if checked.disabled.is_some() {
        return format!("{} {id}  {}\n", style.dim("-"), style.dim("disabled"));
    }
    if !checked.ok {
        let mut text =
            format!("{} {id}  {}\n", style.red("✗"), shown(checked.reason.as_deref().unwrap_or_default(), width));
        if let Some(hint) = &checked.hint {
            text += &format!("    {} {hint}\n", style.dim("hint:"));
        }
        if let Some(runtime) = &checked.runtime {
            text += &format!("    {} {runtime}\n", style.dim("runs on:"));
        }
        return text + &warning_lines(checked);
    }
    let found = &checked.found;
    let software = [found.name.as_deref(), found.software_version.as_deref()];
    let software = context.clean(&software.into_iter().flatten().collect::<Vec<_>>().join(" ")).replace('\n', " ");
    let count = |number: Option<usize>, what: &str| table::count_of(number.unwrap_or_default() as u64, what);
    let tools = match found.usable_tools {
        usable if usable == found.tools => count(found.tools, "tool"),
        usable => format!("{} of {}", usable.unwrap_or_default(), count(found.tools, "tool")),
    };
    let counts = [tools, count(found.resources, "resource"), count(found.prompts, "prompt")];
    let era = format!("{} {}", found.era.unwrap_or_default(), found.version.as_deref().unwrap_or_default());
    let time = format!("{:?}", Duration::from_millis(checked.start_ms));
    let parts = [checked.transport.to_owned(), era, software, counts.join(", "), time];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let parts = table::wrap(&parts.join(" · "), width, "    ");
    format!("{} {id}  {parts}\n", style.green("✓")) + &warning_lines(checked)
}

fn warning_lines(checked: &ServerCheck) -> String {
    let line = |warning: &String| {
        format!("    {} {}\n", style::stdout().yellow("warning:"), shown(warning, "    warning: ".len()))
    };
    checked.warnings.iter().map(line).collect()
}

fn store_line(context: &CliContext, store: &StoreCheck) -> String {
    let (style, time) = (style::stdout(), Duration::from_millis(store.start_ms));
    let id = style.bold("gateway.store");
    match &store.reason {
        None => format!("{} {id}  redis · {time:?}\n", style.green("✓")),
        Some(why) => format!("{} {id}  {}\n", style.red("✗"), shown(&context.clean(why), "✗ gateway.store  ".len())),
    }
}

fn refused_line(why: &str) -> String {
    let style = style::stdout();
    let why = format!("`serve` would not start: {why}");
    format!("{} {}  {}\n", style.red("✗"), style.bold("gateway"), shown(&why, "✗ gateway  ".len()))
}

/// Breaks a text to fit the terminal after `used` columns. Lines after the first are marked, since they may come from a
/// server and must not look like ours.
fn shown(text: &str, used: usize) -> String {
    let mut lines = text.trim_end().lines();
    let first = table::wrap(lines.next().unwrap_or_default(), used, "    ");
    lines.fold(first, |shown, line| shown + "\n    | " + &table::wrap(line, "    | ".len(), "    | "))
}

/// How long the look at ports and files may take.
const AROUND: Duration = Duration::from_secs(2);
