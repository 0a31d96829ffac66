//! Messages between the replicas of a gateway, which the store passes on.

use serde::{Deserialize, Serialize};

/// A message to another replica, or to all others.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PeerMessage {
    /// A client has sent this message, which is for a request that the other replica works on.
    Forwarded {
        /// The name of the client's session.
        session: String,
        /// The JSON-RPC message, as the client wrote it.
        message: String,
    },
    /// A client has changed something about its session, which the store has.
    Changed {
        /// The name of the session.
        session: String,
    },
    /// A client has ended its session.
    Ended {
        /// The name of the session.
        session: String,
        /// How many seconds its id could still be used.
        rest: u64,
    },
    /// An operator made the gateway forget what agents have seen.
    Reset {
        /// The principal of the agents; `None` means all.
        principal: Option<String>,
    },
    /// An operator accepts the store as it is, although it has lost something.
    Adopted {
        /// The epoch of the store.
        epoch: String,
    },
}
