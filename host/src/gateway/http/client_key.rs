//! Tells clients apart, to share out connections and requests among them.

use std::net::IpAddr;
use std::sync::Arc;

use crate::gateway::client::Principal;

/// A client: a principal or, without a valid token, an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ClientKey {
    Principal(Arc<Principal>),
    Peer(IpAddr),
}
