//! Everything that is decided about a call before it is sent, except its tool.

use std::rc::Rc;

use super::Settings;
use super::gate_state::ResultRules;
use crate::content;
use crate::rules::Lesson;

/// How a call is sent, repeated and answered.
#[derive(Debug)]
pub(super) struct Plan {
    pub arguments: String,
    pub read_only: bool,
    pub idempotent: bool,
    pub results: ResultRules,
    pub settings: Rc<Settings>,
    /// What the agent learns by the call.
    pub lesson: Lesson,
}

impl Plan {
    /// Returns the length of the longest text that stays unchanged, apart from masking.
    pub(super) fn max_untouched(&self) -> u64 {
        let tokens = self.results.summarize_above_tokens.unwrap_or(u64::MAX);
        let uncut = match self.settings.max_result_bytes {
            0 => u64::MAX,
            most => most,
        };
        uncut.min(tokens.saturating_mul(content::BYTES_PER_TOKEN as u64))
    }

    /// Returns the maximum size of a result's text.
    pub(super) fn max_bytes(&self) -> usize {
        match self.settings.max_result_bytes {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        }
    }

    /// Reports whether nothing is decided about a result whose text is short.
    pub(super) fn may_forward(&self) -> bool {
        self.results.masker.is_empty() && !self.results.structured_text && !self.lesson.reads_result()
    }
}
