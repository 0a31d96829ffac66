//! Looks at what surrounds servers: the launchers of their programs, the gateway's port, and files with secrets.

use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use crate::config::import::plain_secrets;
use crate::config::model::{Config, ServerConfig, TransportKind, UnexpandedText};
use tokio::process::Command;

use super::certificate;
use crate::cli::port_holder;

/// The interpreter that a server's program runs on.
pub(super) struct Runtime {
    /// Its name and version, such as `Node.js 22.3.0`.
    pub text: String,
    /// What is wrong with it even if the server works.
    pub warning: Option<String>,
    /// What may be wrong with it if the server fails.
    pub suspicion: Option<String>,
}

/// Finds the interpreter of a server that is started with `node`, `npx`, `python`, `uv` or `uvx`.
pub(super) async fn runtime(server: &ServerConfig) -> Option<Runtime> {
    let command = server.command.as_ref().filter(|_| server.enabled && server.kind == TransportKind::Stdio)?;
    // Programs in another PATH are others.
    if !is_plain(command) || server.env.iter().any(|(name, _)| name == "PATH") {
        return None;
    }
    let program = Path::new(&command.text);
    let name = program.file_name()?.to_str()?;
    let (title, asked, least) = match name {
        // Starting npx takes long, and what matters is the Node.js below it.
        "npx" => ("Node.js", Path::new("node"), Some((18, 0))),
        "node" => ("Node.js", program, Some((18, 0))),
        "uv" | "uvx" => ("uv", program, None),
        python if python.starts_with("python") => ("Python", program, Some((3, 10))),
        _ => return None,
    };
    let mut version = Command::new(asked);
    version.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let answered = tokio::time::timeout(LIMIT, version.output()).await;
    let (least_major, least_minor) = least.unwrap_or_default();
    let output = match answered {
        Ok(Ok(output)) => output.stdout,
        // The server itself says that its program is missing.
        Ok(Err(_)) if asked == program => return None,
        Ok(Err(error)) => {
            let warning = format!("{name} needs {title}, and `{}` cannot be started: {error}", asked.display());
            return Some(Runtime { text: format!("no {title}"), warning: Some(warning), suspicion: None });
        }
        Err(_) => return None,
    };
    let (found, version) = version_in(&String::from_utf8_lossy(&output))?;
    let text = format!("{title} {found}");
    let old = (version < (least_major, least_minor))
        .then(|| format!("{text} is old: many servers need {title} {least_major}.{least_minor} or newer"));
    let (warning, suspicion) = if title == "Python" { (None, old) } else { (old, None) };
    Some(Runtime { text, warning, suspicion })
}

/// Finds a version such as `v18.1.0` in what a program prints.
fn version_in(text: &str) -> Option<(String, (u32, u32))> {
    text.split_whitespace().take(4).find_map(|word| {
        let word = word.trim_start_matches('v');
        let mut numbers = word.split('.');
        let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        let harmless = word.len() < 32 && word.bytes().all(|byte| byte.is_ascii_graphic());
        harmless.then(|| (word.to_owned(), (major, minor)))
    })
}

/// Returns warnings about the gateway's port and the files of the configuration.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut warnings: Vec<String> = config.file.iter().filter_map(|file| readable_secrets(file, config)).collect();
    warnings.extend(config.settings.gateway.http.as_deref().and_then(taken_port));
    let path = |text: &UnexpandedText| -> Option<PathBuf> {
        let folder = config.file.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        let is_known = is_plain(text) && !text.text.starts_with('~');
        is_known.then(|| folder.join(&text.text)).and_then(|path| std::path::absolute(path).ok())
    };
    for server in config.servers.iter().filter(|server| server.enabled) {
        let tls = &server.tls;
        let key = tls.client_key.as_ref().or(tls.client_certificate.as_ref());
        let (Some(certificate), Some(key)) = (tls.client_certificate.as_ref().and_then(path), key.and_then(path))
        else {
            continue;
        };
        warnings.extend(certificate_warning(&format!("servers.{}.tls", server.id), &certificate, &key));
    }
    warnings
}

/// Says what is wrong with a certificate and its key; `name` is the key of the configuration that names them.
pub(super) fn certificate_warning(name: &str, certificate: &Path, key: &Path) -> Option<String> {
    let problem = certificate::problem(certificate, key, SystemTime::now()).or_else(|| readable_key(key));
    problem.map(|problem| format!("{name}: {problem}"))
}

/// Says who holds the port that the gateway would listen on.
fn taken_port(address: &str) -> Option<String> {
    let address = address.to_socket_addrs().ok()?.next().filter(|address| address.port() != 0)?;
    let error = TcpListener::bind(address).err()?;
    Some(match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let held = port_holder::describe(address);
            format!("gateway.http: {held}; unless that is your gateway, choose another port")
        }
        _ => format!("gateway.http: {address} cannot be listened on: {error}"),
    })
}

fn readable_secrets(file: &Path, config: &Config) -> Option<String> {
    let first = plain_secrets(config).into_iter().next()?;
    let shown = file.display();
    others_read(file)
        .then(|| format!("{shown} has secrets, such as {first}, and others can read it; run `chmod 600 {shown}`"))
}

fn readable_key(key: &Path) -> Option<String> {
    let shown = key.display();
    others_read(key).then(|| format!("others can read the key {shown}; run `chmod 600 {shown}`"))
}

fn others_read(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o004 != 0)
}

/// Reports whether a text has nothing to fill in, so that it can be used without running anything.
fn is_plain(text: &UnexpandedText) -> bool {
    !text.text.contains(['$', '{'])
}

/// How long a program may take to tell its version.
const LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, expected) in [
            ("v18.1.0\n", Some((18, 1))),
            ("Python 3.11.2\n", Some((3, 11))),
            ("uv 0.5.1 (abc 2026-01-01)\n", Some((0, 5))),
            ("no version\n", None),
            ("", None),
        ] {
            assert_eq!(version_in(text).map(|(_, version)| version), expected, "{text}");
        }
    }
}
