//! Everything that is decided about a call before it is sent, except its tool.

use std::rc::Rc;

use super::Settings;
use crate::content;
use crate::masking::Masker;

/// How a call is sent, repeated and answered.
#[derive(Debug)]
pub(super) struct Plan {
    pub arguments: String,
    pub read_only: bool,
    pub idempotent: bool,
    pub masker: Rc<Masker>,
    pub settings: Rc<Settings>,
}

impl Plan {
    /// Returns the length of the longest text that stays unchanged, apart from masking.
    pub(super) fn max_untouched(&self) -> u64 {
        let Settings { max_result_bytes, summarize_above_tokens, .. } = *self.settings;
        let uncut = if max_result_bytes == 0 { u64::MAX } else { max_result_bytes };
        let tokens = summarize_above_tokens.unwrap_or(u64::MAX);
        uncut.min(tokens.saturating_mul(content::BYTES_PER_TOKEN as u64))
    }
}
