//! Tells clients apart.

use std::net::IpAddr;
use std::sync::Arc;

use crate::gateway::client::Principal;

/// A client: a principal or, without a valid token, an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ClientKey {
    Principal(Arc<Principal>),
    Peer(IpAddr),
}
