//! A running gateway: how commands find it, ask it, and report failures.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::secrets::Secrets;
use crate::config::variables::Variables;
use crate::failure::{Failure as Cause, RequestError};
use crate::gateway::socket::{self, RunningGateway};
use crate::lock::lock;
use crate::ownership;
use crate::session::{Protocol, Session, SessionOptions};
use crate::transport::endpoint::{Endpoint, RemoteSite, Tls};
use crate::web::WebClient;
use serde::Deserialize;

use super::error::CliError;
use super::operator_client::OperatorClient;
use super::printer::Printer;
use super::status::report::{GatewayInfo, age};

/// Which running gateway to use, and how to authenticate.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Options for a running gateway")]
pub(super) struct GatewayArgs {
    /// Use a running gateway and start nothing: its URL, process id or socket; without a value, the one that you run
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub gateway: Option<String>,
    /// Read the gateway's token from this file instead of TOOLGATE_GATEWAY_TOKEN
    #[arg(long, value_name = "FILE", requires = "gateway")]
    token_file: Option<PathBuf>,
    /// Also trust the certificate authorities in this PEM file
    #[arg(long, value_name = "FILE", requires = "gateway")]
    ca: Option<PathBuf>,
}

/// The running gateways that were looked for.
pub(super) enum RunningGateways {
    /// There is none.
    None,
    /// There is one, with this process id.
    One(Box<RemoteGateway>, u32),
    /// There are several.
    Several,
}

/// A running gateway.
pub(super) struct RemoteGateway {
    /// Prints without secrets.
    pub printer: Printer,
    /// Its name in messages.
    pub name: String,
    /// The address of its pages.
    site: RemoteSite,
    /// True if requests carry a token.
    sends_token: bool,
    /// The client for its API.
    pub operator: OperatorClient,
}

impl RemoteGateway {
    /// Finds the gateway that the options name; each of its pages must arrive within the limit.
    pub(super) async fn find(
        args: &GatewayArgs,
        limit: Duration,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<Self, CliError> {
        let variables = Variables::from_process();
        let given = args.gateway.as_deref().unwrap_or_default();
        if given.contains('@') {
            // It may contain a password, so it is not repeated.
            let text = "a gateway's URL must not contain a login: put the token into TOOLGATE_GATEWAY_TOKEN";
            return Err(CliError::Usage(text.to_owned()));
        }
        if given.starts_with("http://") || given.starts_with("https://") {
            let token = token(args, &variables)?;
            if let Some(token) = &token {
                lock(secrets).add(token);
            }
            return RemoteGateway::open(site_at(given, token, args), given.to_owned(), limit, secrets).await;
        }
        let path = match given.strip_prefix("unix:").unwrap_or(given) {
            "" => find_socket(&variables, None, secrets).await?,
            path if path.contains('/') => {
                if path.contains("://") || is_other_file(Path::new(path)) {
                    return Err(not_an_address(path));
                }
                PathBuf::from(path)
            }
            number => {
                let pid = number.parse().map_err(|_| not_an_address(number))?;
                find_socket(&variables, Some(pid), secrets).await?
            }
        };
        RemoteGateway::open_socket(&path, limit, secrets).await
    }

    /// Finds the only running gateway of this user with this configuration, or with any.
    pub(super) async fn find_only(
        config: Option<&Path>,
        limit: Duration,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<RunningGateways, CliError> {
        let running = socket::find_running(&socket::folder(&Variables::from_process())).await.unwrap_or_default();
        let abouts = running.iter().map(|running| about(&running.path, secrets));
        let abouts = futures_util::future::join_all(abouts).await;
        // Neither a link nor another way to write the path makes it another file.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_wanted = |about: &Option<GatewayInfo>| match (config, about) {
            (None, _) => true,
            (Some(config), Some(about)) => {
                about.file.as_deref().is_some_and(|file| real(file.as_ref()) == real(config))
            }
            (Some(_), None) => false,
        };
        let mut found = running.iter().zip(&abouts).filter(|(_, about)| is_wanted(about)).map(|(running, _)| running);
        match (found.next(), found.next()) {
            (None, _) => Ok(RunningGateways::None),
            (Some(one), None) => Ok(RunningGateways::One(
                Box::new(RemoteGateway::open_socket(&one.path, limit, secrets).await?),
                one.pid,
            )),
            _ => Ok(RunningGateways::Several),
        }
    }

    /// Opens the gateway at this socket.
    pub(super) async fn open_socket(
        path: &Path,
        limit: Duration,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<Self, CliError> {
        let site = RemoteSite { socket: Some(path.to_owned()), ..site("http://localhost/".to_owned()) };
        RemoteGateway::open(site, path.display().to_string(), limit, secrets).await
    }

    async fn open(
        site: RemoteSite,
        name: String,
        limit: Duration,
        secrets: &Arc<Mutex<Secrets>>,
    ) -> Result<Self, CliError> {
        let sends_token = !site.headers.is_empty();
        let opened = OperatorClient::open(&site, limit).await;
        let operator = opened.map_err(|failed| CliError::Usage(format!("the gateway at {name}: {failed}")))?;
        Ok(RemoteGateway { printer: Printer(Arc::clone(secrets)), name, site, sends_token, operator })
    }

    /// Returns the client for all of its pages.
    pub(super) fn into_client(self) -> WebClient {
        self.operator.into_web()
    }

    /// Gets a page of its API.
    pub(super) async fn get(&self, path: &str) -> Result<String, CliError> {
        self.operator.get(path).await.map_err(|failed| self.failure(&failed))
    }

    /// Posts JSON to a page of its API.
    pub(super) async fn post(&self, path: &str, json: String) -> Result<String, CliError> {
        self.operator.post(path, json).await.map_err(|failed| self.failure(&failed))
    }

    /// Opens an MCP session with it, as any client would.
    pub(super) async fn session(&self, limit: Duration) -> Result<Session, CliError> {
        let site = RemoteSite { url: format!("{}mcp", self.site.url), ..self.site.clone() };
        let options = SessionOptions { protocol: Protocol::Modern, limit, ..SessionOptions::default() };
        Session::open(&Endpoint::Http(site), &options).await.map_err(|failed| self.failure(&failed))
    }

    /// Returns the error for a page that cannot be read.
    pub(super) fn unexpected_answer(&self, error: &serde_json::Error) -> CliError {
        CliError::ServerError(format!("the gateway at {}: its answer cannot be read: {error}", self.name))
    }

    /// Converts a failed request to the error that ends a command.
    pub(super) fn failure(&self, failed: &RequestError) -> CliError {
        let name = &self.name;
        let refused = match &failed.failure {
            Cause::Http(error) => refusal_text(&error.body),
            _ => None,
        };
        let text = format!("the gateway at {name}: {}", refused.unwrap_or_else(|| failed.to_string()));
        match &failed.failure {
            Cause::Timeout { .. } | Cause::NotReady { .. } => CliError::Timeout(text),
            Cause::Http(error) if error.status == 401 && self.sends_token => {
                CliError::NeedsAuth(format!("the gateway at {name} rejected this token"))
            }
            Cause::Http(error) if error.status == 401 => CliError::NeedsAuth(format!(
                "the gateway at {name} needs a token: put it into TOOLGATE_GATEWAY_TOKEN, or into a file for --token-file"
            )),
            Cause::Http(error) if error.status == 403 => CliError::NeedsAuth(text),
            Cause::Http(error) if error.status == 404 => {
                CliError::Unavailable(format!("there is no toolgate gateway at {name}"))
            }
            Cause::Rpc(_) | Cause::Protocol(_) => CliError::ServerError(text),
            Cause::Cancelled => CliError::Interrupted,
            _ => CliError::Unavailable(text),
        }
    }
}

/// Returns the error for a value of `--gateway` that cannot lead to one.
fn not_an_address(given: &str) -> CliError {
    CliError::Usage(format!(
        "not the address of a gateway: {given}; write a URL such as --gateway=http://127.0.0.1:8808, a process id, or the \
         path of its socket"
    ))
}

/// Reports whether there is something at a path that is no socket.
fn is_other_file(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|metadata| !metadata.file_type().is_socket())
}

/// Returns the text of a gateway's answer that refuses a request.
fn refusal_text(body: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    serde_json::from_str::<Refusal>(body).ok().map(|refusal| refusal.error)
}

/// Finds the socket of this user's gateway: the one with this process id, or the only one.
async fn find_socket(
    variables: &Variables,
    pid: Option<u32>,
    secrets: &Arc<Mutex<Secrets>>,
) -> Result<PathBuf, CliError> {
    let folder = socket::folder(variables);
    let running = socket::find_running(&folder).await;
    let running = running.map_err(|error| CliError::Unavailable(format!("{}: {error}", folder.display())))?;
    if let Some(pid) = pid {
        let found = running.iter().find(|running| running.pid == pid).map(|running| running.path.clone());
        return found.ok_or_else(|| CliError::Unavailable(format!("no gateway of yours has the process id {pid}")));
    }
    match running.as_slice() {
        [one] => Ok(one.path.clone()),
        [] => Err(CliError::Unavailable(format!(
            "no gateway of yours is running (there is none in {}); start one with `toolgate serve` or `toolgate serve \
             --http`, or name one with --gateway=URL",
            folder.display()
        ))),
        several => {
            let lines = several.iter().map(|running| describe(running, secrets));
            let lines = futures_util::future::join_all(lines).await;
            Err(CliError::Usage(format!("several gateways are running; choose one of:\n{}", lines.join("\n"))))
        }
    }
}

/// Asks a gateway about itself.
async fn about(socket: &Path, secrets: &Arc<Mutex<Secrets>>) -> Option<GatewayInfo> {
    #[derive(Deserialize)]
    struct ServersPage {
        gateway: GatewayInfo,
    }
    let remote = RemoteGateway::open_socket(socket, GLANCE, secrets).await.ok()?;
    let page = remote.get("api/v1/servers").await.ok()?;
    serde_json::from_str::<ServersPage>(&page).ok().map(|page| page.gateway)
}

/// Describes a gateway on one line, so that a person can choose one.
async fn describe(RunningGateway { pid, path }: &RunningGateway, secrets: &Arc<Mutex<Secrets>>) -> String {
    let choice = format!("  --gateway={pid}");
    let Some(about) = about(path, secrets).await else { return choice };
    let place = about.address().unwrap_or("standard input and output");
    let file = about.file.as_deref().unwrap_or_default();
    format!("{choice}  for {}, {place}  {file}", age(about.for_s)).trim_end().to_owned()
}

/// Returns the site of the gateway at this URL, which may be the one of its MCP endpoint.
fn site_at(url: &str, token: Option<String>, args: &GatewayArgs) -> RemoteSite {
    let base = url.trim_end_matches('/');
    let base = base.strip_suffix("/mcp").unwrap_or(base);
    let headers = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
    let tls = Tls { ca: args.ca.clone(), ..Tls::default() };
    RemoteSite { headers: headers.into_iter().collect(), tls, ..site(format!("{base}/")) }
}

fn site(url: String) -> RemoteSite {
    RemoteSite {
        url,
        socket: None,
        headers: Vec::new(),
        tls: Tls::default(),
        max_message_bytes: MAX_MESSAGE,
        connect_timeout: CONNECT,
        secrets: Secrets::default(),
        authorize: None,
    }
}

fn token(args: &GatewayArgs, variables: &Variables) -> Result<Option<String>, CliError> {
    let Some(file) = &args.token_file else { return Ok(variables.non_empty(TOKEN).map(str::to_owned)) };
    let unreadable = |error| CliError::Usage(format!("the token in {} cannot be read: {error}", file.display()));
    let text = ownership::read(file).and_then(|bytes| String::from_utf8(bytes).map_err(std::io::Error::other));
    match text.map_err(unreadable)?.trim() {
        "" => Err(CliError::Usage(format!("there is no token in {}", file.display()))),
        token => Ok(Some(token.to_owned())),
    }
}

/// Joins `--gateway` and a URL after it with `=`; other words after the flag may be the name of a tool.
pub(super) fn join_gateway_flag(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let mut out: Vec<std::ffi::OsString> = Vec::new();
    let mut literal = false;
    for argument in arguments {
        let is_address = ["http://", "https://", "unix:"]
            .iter()
            .any(|scheme| argument.to_str().is_some_and(|text| text.starts_with(scheme)));
        match out.last_mut() {
            Some(last) if !literal && is_address && last == "--gateway" => {
                last.push("=");
                last.push(argument);
            }
            _ => {
                literal |= argument == "--";
                out.push(argument);
            }
        }
    }
    out
}

/// The variable that holds the token.
const TOKEN: &str = "TOOLGATE_GATEWAY_TOKEN";
/// A limit against endless messages; the gateway has its own limits.
const MAX_MESSAGE: usize = 256 << 20;
const CONNECT: Duration = Duration::from_secs(10);
/// How long each of several gateways may take to describe itself.
const GLANCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_after_the_flag_is_its_value_and_a_tool_is_not() {
        for (given, expected) in [
            ("call a.b x --gateway http://h:1", "call a.b x --gateway=http://h:1"),
            ("call --gateway a.b x", "call --gateway a.b x"),
            ("status --gateway unix:/run/x.sock", "status --gateway=unix:/run/x.sock"),
            ("status --gateway=https://h --watch", "status --gateway=https://h --watch"),
            ("call a.b -- --gateway http://h", "call a.b -- --gateway http://h"),
            ("fetch http://h", "fetch http://h"),
        ] {
            let joined = join_gateway_flag(given.split(' ').map(Into::into));
            let joined: Vec<_> = joined.iter().map(|part| part.to_str().unwrap()).collect();
            assert_eq!(joined.join(" "), expected);
        }
    }

    #[test]
    fn the_address_of_its_mcp_is_that_of_the_gateway() {
        for (given, expected) in [
            ("http://127.0.0.1:8808", "http://127.0.0.1:8808/"),
            ("http://127.0.0.1:8808/mcp", "http://127.0.0.1:8808/"),
            ("https://h.example/tools/mcp/", "https://h.example/tools/"),
        ] {
            assert_eq!(site_at(given, None, &GatewayArgs::default()).url, expected);
        }
    }
}
