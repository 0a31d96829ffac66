//! `toolgate access`: shows who may call what by which rule, and what another configuration changes.

mod page;
mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use crate::access::{
    AccessChange, AccessMatrix, AccessRight, AccessTool, AccessVerdict, ChangeDirection, ServerTools, admin_changes,
    anonymous_principal, changes, find_needs, principals,
};
use crate::config;
use crate::config::model::Config;
use crate::config::resolve::check_tokens;
use crate::decide::Decide;
use crate::logic::Supervisor;
use crate::logic::types::filtering::Rules;
use crate::registry::{Link, Unavailable};

use super::context::{CliContext, ServerArgs, check_configured};
use super::error::{CliError, REFUSED};
use super::requests::{self, ServerResults, UnansweredServer};
use super::style;
use report::{AccessReport, ReportFormat, ReportRows};

/// The arguments of `toolgate access`.
#[derive(clap::Args)]
#[command(after_help = "\
With --diff, FILE is the new configuration. The command lists what it grants and takes away, and exits with 1 if \
--fail-on names such a change. The list includes who becomes an admin, and who may use the gateway over HTTP without a \
token. A tool that newly needs approval counts as taken. Servers that cannot be reached with one of the \
configurations are listed; what they would grant is unknown, and the command exits with 3 if it found nothing \
worse, or with 2 if the configuration of one of them is wrong.

Examples:
  toolgate access                                     who, what, by which rule
  toolgate access --can-call 'db.drop_*'              who may call these
  toolgate access --destructive --html > page.html    a page for a browser
  toolgate access --context labels=untrusted          what is left after that
  toolgate access --diff new.yaml --fail-on granted   for CI: nobody gets more")]
pub(super) struct Args {
    #[command(flatten)]
    pub servers: ServerArgs,
    /// Print comma-separated values
    #[arg(long, conflicts_with_all = ["json", "html"])]
    csv: bool,
    /// Print one self-contained HTML page
    #[arg(long, conflicts_with = "json")]
    html: bool,
    /// Only allowed calls of tools with this name: `tool`, `server.tool`, or as listed; `*` matches anything
    #[arg(long, value_name = "PATTERN")]
    can_call: Option<String>,
    /// Only tools that may delete or overwrite
    #[arg(long)]
    destructive: bool,
    /// Only this principal; can be repeated
    #[arg(long, value_name = "NAME")]
    principal: Vec<String>,
    /// Show what this configuration would grant and take away
    #[arg(long, value_name = "FILE")]
    diff: Option<PathBuf>,
    /// Exit with 1 on these changes
    #[arg(long, value_name = "CHANGES", value_enum, value_delimiter = ',', requires = "diff", default_values = ["granted", "taken"])]
    fail_on: Vec<FailOn>,
    /// What agents have seen, for rules: labels=LABEL,LABEL
    #[arg(long, value_name = "CONTEXT")]
    context: Vec<String>,
    /// Exit with 3 if any server cannot be used, or with 2 if its configuration is wrong
    #[arg(long)]
    strict: bool,
}

impl Args {
    /// Returns the labels that agents have.
    fn labels(&self) -> Result<Vec<String>, CliError> {
        let mut labels = Vec::new();
        for text in &self.context {
            let Some(given) = text.strip_prefix("labels=") else {
                return Err(CliError::Usage(format!("--context {text:?}: write labels=untrusted, for example")));
            };
            labels.extend(given.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned));
        }
        Ok(labels)
    }
}

/// A change that makes the command fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Somebody may do more
    Granted,
    /// Somebody may do less
    Taken,
}

/// The tools of the servers, and the servers that could not be reached.
struct CollectedTools {
    offers: Vec<ServerTools>,
    failed: Vec<UnansweredServer>,
}

/// Finds out who may call what, and prints it.
pub(super) async fn run(context: &CliContext, args: &Args) -> Result<ExitCode, CliError> {
    let format = match (args.servers.json, args.csv, args.html) {
        (true, _, _) => ReportFormat::Json,
        (_, true, _) => ReportFormat::Csv,
        (_, _, true) => ReportFormat::Html,
        _ => ReportFormat::Table,
    };
    let labels = args.labels()?;
    let registry = context.gate.registry();
    let mut logic = Supervisor::new(registry.component().clone())?;
    let config = registry.config();
    // With `--diff`, the server may be in only one of the configurations.
    if args.diff.is_none() {
        args.servers.server.iter().try_for_each(|id| check_configured(&config, id))?;
    }
    let other = args.diff.as_deref().map(|file| load(file, args)).transpose()?;
    // List HTTP clients without a token only if the need for a token changes; otherwise `local` covers them.
    let needs_token = |config: &Config| !config.settings.gateway.tokens.is_empty();
    let opens = other.as_ref().is_some_and(|other| needs_token(other) != needs_token(&config));
    let asked = collect_tools(context, args).await;
    let access = find_access(&mut logic, &config, &asked, opens, &labels)?;
    let reached = reached_all(&asked.failed);
    let Some(other) = other else {
        check_principals(args, &[&access])?;
        let wanted = AccessFilter::new(args, &mut logic, access.rows())?;
        let rows = access.rows().filter(|(name, tool, right)| wanted.matches(name, tool, &[*right]));
        let report = AccessReport::new(ReportRows::rights(rows), asked.failed, registry.unmatched_rules());
        report::print(context, format, &report)?;
        return Ok(if args.strict { reached } else { ExitCode::SUCCESS });
    };
    registry.set_servers(other)?;
    let then = collect_tools(context, args).await;
    let after = find_access(&mut logic, &registry.config(), &then, opens, &labels)?;
    check_principals(args, &[&access, &after])?;
    let wanted = AccessFilter::new(args, &mut logic, access.rows().chain(after.rows()))?;
    // Changes are unknown for a server that could not be reached with one of the configurations.
    let unknown = |id: &str| asked.failed.iter().chain(&then.failed).any(|failed| failed.server == id);
    let mut found = changes(&access, &after);
    found.extend(admin_changes(&config, &registry.config()));
    found.retain(|change| {
        let AccessChange { principal, tool, before, after } = change;
        !unknown(&tool.tool.server) && wanted.matches(principal, tool, &[before, after])
    });
    let counts = |direction| match direction {
        ChangeDirection::Granted => args.fail_on.contains(&FailOn::Granted),
        ChangeDirection::Taken => args.fail_on.contains(&FailOn::Taken),
    };
    let fails = found.iter().any(|change| counts(change.direction()));
    let mut failed = asked.failed;
    let first: BTreeSet<_> = failed.iter().map(|failed| failed.server.clone()).collect();
    failed.extend(then.failed.into_iter().filter(|then| !first.contains(&then.server)));
    // A change that `--fail-on` names counts more than a server that cannot be used.
    let code = if fails { ExitCode::from(REFUSED) } else { reached_all(&failed) };
    let report = AccessReport::new(ReportRows::changes(&found), failed, registry.unmatched_rules());
    report::print(context, format, &report)?;
    Ok(code)
}

/// Returns success if no server failed.
fn reached_all(failed: &[UnansweredServer]) -> ExitCode {
    if failed.is_empty() { ExitCode::SUCCESS } else { requests::unusable_code(failed) }
}

/// Loads the configuration to compare with.
fn load(file: &Path, args: &Args) -> Result<Config, CliError> {
    // Relative paths in it start at its own folder.
    let mut config = config::load(&std::path::absolute(file)?).map_err(CliError::usage)?;
    args.servers.apply_timeout(&mut config);
    config.notices.iter().for_each(|notice| style::write_notice(&notice.to_string()));
    Ok(config)
}

/// Finds out who may call what; `opens` includes HTTP clients without a token.
fn find_access(
    logic: &mut Supervisor,
    config: &Config,
    asked: &CollectedTools,
    opens: bool,
    labels: &[String],
) -> Result<AccessMatrix, CliError> {
    check_tokens(config).map_err(CliError::usage)?;
    let mut principals = principals(config);
    principals.extend(anonymous_principal(config).filter(|_| opens));
    Ok(AccessMatrix::find(logic, config, principals, &asked.offers, labels)?)
}

/// Asks the current servers for their tools concurrently, and warns about servers that cannot be used.
async fn collect_tools(context: &CliContext, args: &Args) -> CollectedTools {
    let only = &args.servers.server;
    let mut links = context.enabled_links();
    links.retain(|link| only.is_empty() || only.iter().any(|id| id == link.id()));
    let tools = links.into_iter().map(|link| async move {
        let tools = tools_of(context, &link).await;
        (link, tools)
    });
    let asked = ServerResults::new(context, futures_util::future::join_all(tools).await);
    CollectedTools { offers: asked.answered.into_iter().map(|(_, tools)| tools).collect(), failed: asked.failed }
}

/// Asks a server for its tools, and warns if it does not tell which of them need a client capability.
async fn tools_of(context: &CliContext, link: &Link) -> Result<ServerTools, Unavailable> {
    let lease = link.lease().await?;
    let tools = Arc::clone(&link.tools_of(&lease).await?.offered);
    let needs = find_needs(link, lease, &tools).await.unwrap_or_else(|why| {
        let server = link.id();
        context.warn(&format!("server {server:?}: which of its tools need a client capability is unknown: {why}"));
        Default::default()
    });
    Ok(ServerTools { server: link.id().to_owned(), tools, needs })
}

fn check_principals(args: &Args, all: &[&AccessMatrix]) -> Result<(), CliError> {
    let known = || all.iter().flat_map(|access| &access.principals);
    match args.principal.iter().find(|name| !known().any(|known| known == *name)) {
        Some(name) => {
            let mut known: Vec<_> = known().map(String::as_str).collect();
            known.dedup();
            Err(CliError::NotFound(format!("there is no principal {name:?}; there are: {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

/// The rows that the options select.
struct AccessFilter<'a> {
    args: &'a Args,
    /// The names that match `--can-call`, if it is given.
    matching_names: Option<Vec<String>>,
}

impl<'a> AccessFilter<'a> {
    /// Creates the filter; the component matches the pattern, as it does for rules.
    fn new<'t>(
        args: &'a Args,
        logic: &mut Supervisor,
        rows: impl Iterator<Item = (&'t str, &'t AccessTool, &'t AccessRight)>,
    ) -> Result<Self, CliError> {
        let matching_names = match &args.can_call {
            Some(pattern) => {
                let rules = Rules { allow: Some(vec![pattern.clone()]), deny: Vec::new() };
                let all: BTreeSet<_> = rows.flat_map(|(_, tool, right)| pattern_names(tool, &[right])).collect();
                Some(logic.filter(&rules, &Vec::from_iter(all))?)
            }
            None => None,
        };
        Ok(AccessFilter { args, matching_names })
    }

    fn matches(&self, principal: &str, tool: &AccessTool, rights: &[&AccessRight]) -> bool {
        let Args { principal: only, destructive, .. } = self.args;
        let is_named = |named: &Vec<String>| pattern_names(tool, rights).iter().any(|name| named.contains(name));
        (only.is_empty() || only.iter().any(|name| name == principal))
            && (!destructive || tool.destructive)
            && self
                .matching_names
                .as_ref()
                .is_none_or(|named| rights.iter().any(|right| right.verdict != AccessVerdict::Deny) && is_named(named))
    }
}

/// Returns all names by which a pattern can match the tool.
fn pattern_names(tool: &AccessTool, rights: &[&AccessRight]) -> Vec<String> {
    let own = [tool.tool.tool.clone(), format!("{}.{}", tool.tool.server, tool.tool.tool), tool.name.clone()];
    own.into_iter().chain(rights.iter().filter_map(|right| right.name.clone())).collect()
}
