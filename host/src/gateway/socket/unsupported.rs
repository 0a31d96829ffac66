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
pub struct RunningGateway {
    /// Its process id.
    pub pid: u32,
    /// Its socket.
    pub path: PathBuf,
}

/// None can be found.
pub async fn find_running(_folder: &Path) -> io::Result<Vec<RunningGateway>> {
    Ok(Vec::new())
}

/// A gateway that can be found.
pub enum GatewaySocket {}

/// Nobody can be told.
pub async fn announce(_gateway: &Arc<Gateway>, _folder: &Path) -> Option<GatewaySocket> {
    None
}

impl GatewaySocket {
    /// There is nothing to end.
    pub async fn end(self) {
        match self {}
    }
}
