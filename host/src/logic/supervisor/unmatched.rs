//! Asks which rules fit no tool.

use super::{LogicResult, Supervisor};
use crate::logic::types::filtering;

impl Supervisor {
    /// What a policy says about a server that fits none of its tools.
    pub fn find_unmatched(
        &mut self,
        policy: &filtering::Policy,
        server: &str,
        tools: &[String],
    ) -> LogicResult<Vec<filtering::Unmatched>> {
        self.ask(|logic| logic.find_unmatched(policy, server, tools))
    }
}
