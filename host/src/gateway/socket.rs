//! The Unix sockets by which commands find running gateways of the same user: one per process, in the runtime folder.
//!
//! Anyone who can open the socket can do everything, so the folder and the socket are private to the user.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::Gateway;
use super::http::HttpServer;
use super::limits::GatewayLimits;
use super::pages::GatewayPages;
use crate::config::variables::Variables;
use crate::private_files;

/// Returns the folder of the sockets of this user's gateways.
pub fn folder(variables: &Variables) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    // The XDG Base Directory Specification says to ignore relative paths.
    let given = variables.non_empty("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    // Programs started without a login lack the variable, but the folder is the same.
    let usual = || Some(PathBuf::from(format!("/run/user/{user}"))).filter(|folder| folder.is_dir());
    match given.or_else(usual) {
        Some(runtime) => runtime.join("toolgate"),
        None => Path::new(variables.non_empty("TMPDIR").unwrap_or("/tmp")).join(format!("toolgate-{user}")),
    }
}

/// Returns the path of the socket of the gateway with this process id.
pub fn path(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}.{ENDING}"))
}

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningGateway {
    /// The process id.
    pub pid: u32,
    /// The path of the socket.
    pub path: PathBuf,
}

/// Returns the running gateways, sorted by process id, and removes sockets that dead ones left.
pub async fn find_running(folder: &Path) -> io::Result<Vec<RunningGateway>> {
    let entries = match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // In a folder that others can write to, anyone could pose as a gateway.
        metadata => {
            private_files::check_owner(&metadata?)?;
            private_files::check_folder(folder)?;
            fs::read_dir(folder)?
        }
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let number = path.file_stem().and_then(|name| name.to_str()?.parse().ok());
        let Some(pid) = number.filter(|_| path.extension().is_some_and(|ending| ending == ENDING)) else { continue };
        match tokio::time::timeout(KNOCK, UnixStream::connect(&path)).await {
            // The gateway is dead: a socket gets its final name only after it listens.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                debug!(path = %path.display(), "removing the socket of a gateway that died");
                let _ = fs::remove_file(&path);
            }
            // The gateway has just ended.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            // A gateway that is too busy to accept is still running.
            Ok(_) | Err(_) => found.push(RunningGateway { pid, path }),
        }
    }
    found.sort_by_key(|running| running.pid);
    Ok(found)
}

/// The socket of this gateway; dropping it removes the file.
pub struct GatewaySocket {
    name: SocketFile,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Opens and serves the socket of a gateway; failure is only a warning, because clients of the gateway are unaffected.
pub async fn announce(gateway: &Arc<Gateway>, folder: &Path) -> Option<GatewaySocket> {
    let opened = async {
        prepare(folder)?;
        // Removes the sockets of dead gateways.
        let _ = find_running(folder).await;
        open(folder)
    };
    let warn = |error: &io::Error| {
        let folder = folder.display();
        warn!("`toolgate status` will not find this gateway: cannot create a socket in {folder}: {error}");
    };
    let (name, listener) = opened.await.inspect_err(warn).ok()?;
    let server = HttpServer::at_socket(listener, GatewayLimits { grace: GRACE, ..GatewayLimits::default() });
    gateway.add_listener("socket", name.0.display().to_string(), server.load());
    let (stop, stopped) = oneshot::channel();
    let pages = Arc::new(GatewayPages(Arc::clone(gateway)));
    let serve = server.serve(Arc::clone(gateway) as _, pages, async {
        // A dropped sender also means stop.
        let _ = stopped.await;
    });
    Some(GatewaySocket { name, stop, served: tokio::spawn(serve) })
}

impl GatewaySocket {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.name.0
    }

    /// Stops accepting connections, and gives open requests a moment to finish.
    pub async fn end(self) {
        drop(self.name);
        let _ = self.stop.send(());
        if self.served.await.is_err() {
            warn!("the socket of the gateway ended in a panic: this is a bug in toolgate");
        }
    }
}

/// The file of a socket, which is removed on drop.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Creates the folder if needed, and makes it private to the user.
fn prepare(folder: &Path) -> io::Result<()> {
    private_files::ensure_real_folder(folder)?;
    if fs::symlink_metadata(folder)?.mode() & 0o077 != 0 {
        fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn open(folder: &Path) -> io::Result<(SocketFile, UnixListener)> {
    let path = path(folder, std::process::id());
    // Bind under a temporary name and rename, because a socket that refuses connections counts as dead.
    // The temporary name is longer, so a path that is too long for the system fails here.
    let new = SocketFile(path.with_extension("fresh"));
    let _ = fs::remove_file(&new.0);
    let listener = UnixListener::bind(&new.0)?;
    fs::set_permissions(&new.0, Permissions::from_mode(0o600))?;
    fs::rename(&new.0, &path)?;
    Ok((SocketFile(path), listener))
}

const ENDING: &str = "sock";
/// How long a gateway may take to accept a connection.
const KNOCK: Duration = Duration::from_secs(1);
/// How long requests may continue when the gateway ends.
const GRACE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_runtime_folder_or_one_of_the_users_own() {
        let user = rustix::process::geteuid().as_raw();
        let of = |environment: &[(&str, &str)]| folder(&Variables::of_test(environment));
        assert_eq!(of(&[("XDG_RUNTIME_DIR", "/run/x"), ("TMPDIR", "/t")]), Path::new("/run/x/toolgate"));
        for relative in ["", "run"] {
            let found = of(&[("XDG_RUNTIME_DIR", relative), ("TMPDIR", "/t")]);
            let usual = format!("/run/user/{user}/toolgate");
            assert!([usual, format!("/t/toolgate-{user}")].iter().any(|known| found == Path::new(known)), "{found:?}");
        }
    }

    #[tokio::test]
    async fn a_socket_is_the_users_alone_and_goes_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run/toolgate");
        assert_eq!(find_running(&folder).await.unwrap(), []);
        prepare(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        prepare(&folder).unwrap();
        let (name, listener) = open(&folder).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&name.0)), (0o700, 0o600));
        let here = RunningGateway { pid: std::process::id(), path: name.0.clone() };
        assert_eq!(find_running(&folder).await.unwrap(), [here]);
        drop((name, listener));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_dead_gateways_left_is_removed_and_nothing_else_is() {
        let place = tempfile::tempdir().unwrap();
        let stale = path(place.path(), 1);
        drop(UnixListener::bind(&stale).unwrap());
        for other in ["notes.txt", "x.sock", "2.fresh"] {
            fs::write(place.path().join(other), "").unwrap();
        }
        assert!(stale.exists());
        assert_eq!(find_running(place.path()).await.unwrap(), []);
        assert!(!stale.exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    }

    #[tokio::test]
    async fn a_folder_that_others_can_write_to_is_not_believed() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(find_running(place.path()).await.is_err());
        assert!(prepare(place.path()).is_err());
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&file.join("under")).is_err());
    }
}
