//! Finds rules that match no tool.

use super::{LogicResult, Supervisor};
use crate::logic::types::filtering;

impl Supervisor {
    /// Returns the rules of a policy about a server that match none of its tools.
    pub fn find_unmatched(
        &mut self,
        policy: &filtering::Policy,
        server: &str,
        tools: &[String],
    ) -> LogicResult<Vec<filtering::Unmatched>> {
        self.ask(|logic| logic.find_unmatched(policy, server, tools))
    }
}
