//! `toolgate auth`: gets, shows and forgets authorizations for servers on the network.

use std::io;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use toolgate::calendar::Utc;
use toolgate::config::model::{Auth, Grant};
use toolgate::oauth::{Account, BrowseError, Loopback, OAuthError, Standing};
use toolgate::registry::Link;

use super::desk::{Desk, ServerArgs, note, time};
use super::failure::Failure;
use super::{reply, style};

/// What to do about authorizations.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Get an authorization for a server: a person gives consent in a browser
    Login {
        /// The server
        server: String,
        /// Only print the address to open
        #[arg(long)]
        no_browser: bool,
        /// Ask for this beside what the server and the configuration say; may be given several times
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
    /// Forget the authorization for a server
    Logout {
        /// The server
        server: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// How the account with one server stands.
#[derive(Serialize)]
struct Shown {
    server: String,
    #[serde(flatten)]
    standing: Standing,
    expires: Option<String>,
}

impl Args {
    /// Which servers it is about.
    pub fn servers(&self) -> ServerArgs {
        let server = match &self.what {
            What::Login { server, .. } | What::Logout { server, .. } => vec![server.clone()],
            What::Status { server, .. } => server.iter().cloned().collect(),
        };
        ServerArgs { server, ..ServerArgs::default() }
    }
}

/// Does what was asked for.
pub async fn run(desk: &Desk, args: &Args) -> Result<ExitCode, Failure> {
    match &args.what {
        What::Login { no_browser, scope, timeout, json, .. } => {
            let (link, account) = the_one(desk).await?;
            let standing = login(desk, &account, *no_browser, scope, *timeout).await?;
            show(desk, vec![shown(&link, standing)], *json)?;
        }
        What::Logout { json, .. } => {
            let (link, account) = the_one(desk).await?;
            account.logout()?;
            show(desk, vec![shown(&link, account.standing())], *json)?;
        }
        What::Status { server, json } => {
            let mut all = Vec::new();
            for link in desk.asked() {
                match link.account().await {
                    Ok(Some(account)) => {
                        let standing = account.standing();
                        // Most servers that say nothing of it want nothing of the kind.
                        let said = matches!(link.server().auth, Auth::OAuth(_));
                        if said || standing.authorized || server.is_some() {
                            all.push(shown(&link, standing));
                        }
                    }
                    Ok(None) if server.is_some() => return Err(other_way(&link)),
                    Ok(None) => {}
                    Err(why) if server.is_some() => return Err(reply::unavailable(desk, &link, &why)),
                    Err(why) => desk.warn(&link, &why),
                }
            }
            let missing = server.is_some() && all.iter().any(|shown| !shown.standing.authorized);
            if all.is_empty() && !*json {
                note("no server wants an authorization that toolgate would get");
            }
            show(desk, all, *json)?;
            if missing {
                return Ok(ExitCode::from(super::failure::NEEDS_AUTH));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The one server that was named, and our account with it.
async fn the_one(desk: &Desk) -> Result<(Arc<Link>, Arc<Account>), Failure> {
    let mut links = desk.asked();
    let Some(link) = links.pop() else { return Err(Failure::NoSuchThing("name a server".to_owned())) };
    match link.account().await {
        Ok(Some(account)) => Ok((link, account)),
        Ok(None) => Err(other_way(&link)),
        Err(why) => Err(reply::unavailable(desk, &link, &why)),
    }
}

fn other_way(link: &Link) -> Failure {
    let id = link.id();
    Failure::Usage(format!(
        "server {id:?} needs no login: it is a program, or servers.{id} has a token, a key or an Authorization header"
    ))
}

async fn login(
    desk: &Desk,
    account: &Account,
    no_browser: bool,
    scopes: &[String],
    limit: Duration,
) -> Result<Standing, Failure> {
    let asks_person = account.grant() == Grant::AuthorizationCode;
    let port = account.callback_port().filter(|_| asks_person);
    let opener = move |url: &str| {
        let shown = style::clean(url);
        if !no_browser && open(url).is_ok() {
            note("a browser opens; if it does not, go to");
        } else {
            note("to give your consent, go to");
        }
        style::say(format_args!("  {shown}"));
        Ok(())
    };
    let bound = Loopback::bind(port, limit, opener).await;
    let loopback = bound.map_err(|error| {
        let port = port.map(|port| format!(" {port}")).unwrap_or_default();
        Failure::Usage(format!("the port{port} of the callback cannot be used: {error}"))
    })?;
    account.login(&loopback, scopes).await.map_err(|error| {
        let text = desk.clean(&error.to_string());
        match error {
            OAuthError::Browse(BrowseError::Late(_)) => Failure::Timeout(text),
            OAuthError::Unreachable(_) => Failure::Unavailable(text),
            OAuthError::Settings(_) | OAuthError::Browse(BrowseError::Impossible(_)) => Failure::Usage(text),
            OAuthError::Refused(_) | OAuthError::NeedsPerson => Failure::NeedsAuth(text),
        }
    })
}

/// Opens the address in the user's browser.
fn open(url: &str) -> io::Result<()> {
    let mut command = if cfg!(target_os = "macos") {
        Command::new("open")
    } else if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new("xdg-open")
    };
    // It goes its own way; whether it shows anything, nobody can say.
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

fn shown(link: &Link, standing: Standing) -> Shown {
    let expires = standing.expires.map(|at| Utc::from(at).to_string());
    Shown { server: link.id().to_owned(), standing, expires }
}

fn show(desk: &Desk, all: Vec<Shown>, json: bool) -> Result<(), Failure> {
    if json {
        return desk.print_json(&all);
    }
    let style = style::stdout();
    let lines: String = all
        .iter()
        .map(|Shown { server, standing, expires }| {
            let id = style.bold(server);
            if !standing.authorized {
                return format!("{} {id}  not authorized; run `toolgate auth login {server}`\n", style.dim("-"));
            }
            let mut parts = vec!["authorized".to_owned()];
            match expires {
                Some(at) if standing.renewable => parts.push(format!("token until {at}, then replaced")),
                Some(at) => parts.push(format!("until {at}")),
                None => {}
            }
            if !standing.scopes.is_empty() {
                parts.push(format!("for {}", desk.clean(&standing.scopes.join(" "))));
            }
            parts.extend(standing.issuer.as_ref().map(|issuer| format!("by {}", desk.clean(issuer))));
            format!("{} {id}  {}\n", style.green("✓"), parts.join(" · "))
        })
        .collect();
    desk.print_drawn(&lines)
}
