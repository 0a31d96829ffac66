//! Systems without sockets in folders: there gateways are asked over HTTP alone.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Gateway;
use crate::config::variables::Variables;

/// Where there would be sockets.
pub fn folder(variables: &Variables) -> PathBuf {
    variables.workspace.clone()
}

/// Where the socket of the gateway with this process id would be.
pub fn path(folder: &Path, pid: u32) -> PathBuf {
    folder.join(pid.to_string())
}

/// A gateway that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its process id.
    pub pid: u32,
    /// Its socket.
    pub path: PathBuf,
}

/// None can be found.
pub async fn running(_folder: &Path) -> io::Result<Vec<Running>> {
    Ok(Vec::new())
}

/// A gateway that can be found.
pub enum Announced {}

/// Nobody can be told.
pub async fn announce(_gateway: &Arc<Gateway>, _folder: &Path) -> Option<Announced> {
    None
}

impl Announced {
    /// There is nothing to end.
    pub async fn end(self) {
        match self {}
    }
}
