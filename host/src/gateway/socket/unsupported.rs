//! Stubs for systems without Unix sockets, where commands reach gateways only over HTTP.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Gateway;
use crate::config::variables::Variables;

/// Returns the folder in which sockets would be.
pub fn folder(variables: &Variables) -> PathBuf {
    variables.workspace.clone()
}

/// Returns where the socket of the gateway with this process id would be.
pub fn path(folder: &Path, pid: u32) -> PathBuf {
    folder.join(pid.to_string())
}

/// A running gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningGateway {
    /// The process id.
    pub pid: u32,
    /// The path of the socket.
    pub path: PathBuf,
}

/// Returns no gateways, since there are no sockets.
pub async fn find_running(_folder: &Path) -> io::Result<Vec<RunningGateway>> {
    Ok(Vec::new())
}

/// The socket of this gateway, which cannot exist here.
pub enum GatewaySocket {}

/// Opens no socket.
pub async fn announce(_gateway: &Arc<Gateway>, _folder: &Path) -> Option<GatewaySocket> {
    None
}

impl GatewaySocket {
    /// Cannot be called, since there is no socket.
    pub async fn end(self) {
        match self {}
    }
}
