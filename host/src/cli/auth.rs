//! `toolgate auth`: logs in to remote servers, shows authorizations, and logs out.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::calendar::Utc;
use crate::config::model::{OAuthGrant, ServerAuth};
use crate::oauth::{Account, AuthorizationStatus, BrowseError, Loopback, OAuthError};
use crate::registry::Link;
use clap::Subcommand;
use serde::Serialize;

use super::context::{CliContext, ServerArgs, time};
use super::error::CliError;
use super::{browser, requests, style};

/// The arguments of `toolgate auth`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Subcommand)]
enum AuthCommand {
    /// Log in to a server: you give consent in a browser
    Login {
        /// The server
        server: String,
        /// Print the URL instead of opening a browser
        #[arg(long)]
        no_browser: bool,
        /// Also request this scope; can be repeated
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<String>,
        /// How long to wait for the consent
        #[arg(long, value_name = "TIME", value_parser = time, default_value = "5m")]
        timeout: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show which servers have an authorization
    Status {
        /// Only this server
        server: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the authorization for a server
    Logout {
        /// The server
        server: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The state of the account with one server.
#[derive(Serialize)]
struct AccountStatus {
    server: String,
    #[serde(flatten)]
    standing: AuthorizationStatus,
    expires: Option<String>,
}

impl Args {
    /// Returns the servers that the command is about.
    pub(super) fn servers(&self) -> ServerArgs {
        let server = match &self.command {
            AuthCommand::Login { server, .. } | AuthCommand::Logout { server, .. } => vec![server.clone()],
            AuthCommand::Status { server, .. } => server.iter().cloned().collect(),
        };
        ServerArgs { server, ..ServerArgs::default() }
    }
}

/// Runs the subcommand.
pub(super) async fn run(context: &CliContext, args: &Args) -> Result<ExitCode, CliError> {
    match &args.command {
        AuthCommand::Login { no_browser, scope, timeout, json, .. } => {
            let (link, account) = find_account(context).await?;
            let standing = login(context, &account, *no_browser, scope, *timeout).await?;
            show(context, vec![account_status(&link, standing)], *json)?;
        }
        AuthCommand::Logout { json, .. } => {
            let (link, account) = find_account(context).await?;
            account.logout()?;
            show(context, vec![account_status(&link, account.status())], *json)?;
        }
        AuthCommand::Status { server, json } => {
            let mut all = Vec::new();
            for link in context.requested_links() {
                match link.account().await {
                    Ok(Some(account)) => {
                        let standing = account.status();
                        // Most servers without an `auth` entry need no authorization, so they are not listed.
                        let is_configured = matches!(link.server().auth, ServerAuth::OAuth(_));
                        if is_configured || standing.authorized || server.is_some() {
                            all.push(account_status(&link, standing));
                        }
                    }
                    Ok(None) if server.is_some() => return Err(no_login_needed(&link)),
                    Ok(None) => {}
                    Err(why) if server.is_some() => return Err(requests::unavailable_error(context, &link, &why)),
                    Err(why) => context.warn_unusable(&link, &why),
                }
            }
            let missing = server.is_some() && all.iter().any(|shown| !shown.standing.authorized);
            if all.is_empty() && !*json {
                style::write_note("no server needs an OAuth login");
            }
            show(context, all, *json)?;
            if missing {
                return Ok(ExitCode::from(super::error::NEEDS_AUTH));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the named server and our account with it.
async fn find_account(context: &CliContext) -> Result<(Arc<Link>, Arc<Account>), CliError> {
    let mut links = context.requested_links();
    let Some(link) = links.pop() else { return Err(CliError::NotFound("name a server".to_owned())) };
    match link.account().await {
        Ok(Some(account)) => Ok((link, account)),
        Ok(None) => Err(no_login_needed(&link)),
        Err(why) => Err(requests::unavailable_error(context, &link, &why)),
    }
}

fn no_login_needed(link: &Link) -> CliError {
    let id = link.id();
    CliError::Usage(format!(
        "server {id:?} needs no login: it is a program, or servers.{id} has a token, a key or an Authorization header"
    ))
}

async fn login(
    context: &CliContext,
    account: &Account,
    no_browser: bool,
    scopes: &[String],
    limit: Duration,
) -> Result<AuthorizationStatus, CliError> {
    let asks_person = account.grant() == OAuthGrant::AuthorizationCode;
    let port = account.callback_port().filter(|_| asks_person);
    let opener = move |url: &str| {
        let shown = style::clean(url);
        if !no_browser && browser::open(url).is_ok() {
            style::write_note("opening a browser; if none opens, go to");
        } else {
            style::write_note("to give your consent, go to");
        }
        style::write_stderr(format_args!("  {shown}"));
        Ok(())
    };
    let bound = Loopback::bind(port, limit, opener).await;
    let loopback = bound.map_err(|error| {
        let port = port.map(|port| format!(" {port}")).unwrap_or_default();
        CliError::Usage(format!("the callback port{port} cannot be used: {error}"))
    })?;
    account.login(&loopback, scopes).await.map_err(|error| {
        let text = context.clean(&error.to_string());
        match error {
            OAuthError::Browse(BrowseError::TimedOut(_)) => CliError::Timeout(text),
            OAuthError::Unreachable(_) => CliError::Unavailable(text),
            OAuthError::Settings(_) | OAuthError::Browse(BrowseError::Impossible(_)) => CliError::Usage(text),
            OAuthError::Refused(_) | OAuthError::NeedsPerson => CliError::NeedsAuth(text),
        }
    })
}

fn account_status(link: &Link, standing: AuthorizationStatus) -> AccountStatus {
    let expires = standing.expires.map(|at| Utc::from(at).to_string());
    AccountStatus { server: link.id().to_owned(), standing, expires }
}

fn show(context: &CliContext, all: Vec<AccountStatus>, json: bool) -> Result<(), CliError> {
    if json {
        return context.print_json(&all);
    }
    let style = style::stdout();
    let lines: String = all
        .iter()
        .map(|AccountStatus { server, standing, expires }| {
            let id = style.bold(server);
            if !standing.authorized {
                return format!("{} {id}  not authorized; run `toolgate auth login {server}`\n", style.dim("-"));
            }
            let mut parts = vec!["authorized".to_owned()];
            match expires {
                Some(at) if standing.renewable => parts.push(format!("token valid until {at}, then renewed")),
                Some(at) => parts.push(format!("until {at}")),
                None => {}
            }
            if !standing.scopes.is_empty() {
                parts.push(format!("for {}", context.clean(&standing.scopes.join(" "))));
            }
            parts.extend(standing.issuer.as_ref().map(|issuer| format!("by {}", context.clean(issuer))));
            format!("{} {id}  {}\n", style.green("✓"), parts.join(" · "))
        })
        .collect();
    context.print_colored(&lines)
}
