//! Who uses a gate, what each agent has seen, and how often its calls fitted rules with limits.
//!
//! The component keeps nothing of this: it gets it with each call, and says what to add.

mod counts;
mod memory;

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use crate::gate_settings::LOCAL;
use crate::logic::types::rules::Caller;

pub use counts::CountMode;
pub(crate) use counts::LimitCounts;
pub(crate) use memory::{AgentKey, MOST_AGENTS, MOST_KNOWN, WRITTEN, count_of_writes, written_label};
pub use memory::{AgentMemory, RememberedAgent};

/// Returns the time in milliseconds since this program began to count it; it never goes back.
pub fn clock_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Who uses a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The principal.
    pub principal: Arc<str>,
    /// The groups of its token.
    pub groups: Arc<[String]>,
    /// Whether it is an administrator.
    pub admin: bool,
}

impl Default for Agent {
    /// Returns the user who runs toolgate.
    fn default() -> Self {
        Agent { principal: LOCAL.into(), groups: Arc::default(), admin: true }
    }
}

impl Agent {
    /// Returns the agent as the component sees it, with the name of the client program.
    pub(crate) fn caller(&self, client: &str) -> Caller {
        Caller {
            principal: Some(String::from(&*self.principal)),
            groups: self.groups.to_vec(),
            admin: self.admin,
            client: client.to_owned(),
        }
    }
}
