//! Texts that are too long: what the host is asked to do, and which parts of its report are used.

use super::Condensed;
use super::plan::Plan;
use crate::content;
use crate::types::TraceNote;

/// A result whose text is too long.
#[derive(Debug)]
pub(super) struct LongAnswer {
    /// The `result` member of the response, masked.
    pub result: String,
    /// The full text, masked.
    pub text: String,
    /// Whether the text differs from that of the blocks.
    pub rewritten: bool,
    /// Whether to save the full text.
    pub spill: bool,
    /// Whether to summarize the text.
    pub summarize: bool,
}

impl LongAnswer {
    /// Reports whether to save a text, and whether to summarize it.
    pub(super) fn wants(plan: &Plan, text: &str) -> (bool, bool) {
        let spill = plan.settings.spill && content::is_longer(text, plan.settings.max_result_bytes);
        let summarize = plan.settings.summarize_above_tokens.is_some_and(|most| content::estimate_tokens(text) > most);
        (spill, summarize)
    }

    /// Returns the notes about the text before the host acts.
    pub(super) fn notes(&self) -> impl Iterator<Item = TraceNote> {
        let spill = self.spill.then(|| "saving the full text".into());
        let summarize = self.summarize.then(|| "summarizing the text".into());
        [Some(size_note(self.text.len()).into()), spill, summarize].into_iter().flatten()
    }

    /// Keeps what was requested from the host's report, and a summary only if it is not empty. A summary can contain
    /// anything, so it is masked like the result.
    pub(super) fn take(&self, plan: &Plan, Condensed { kept, summary }: Condensed) -> Condensed {
        let masked = summary.filter(|_| self.summarize).map(|summary| plan.masker.mask(summary.trim()).into_owned());
        Condensed { kept: kept.filter(|_| self.spill), summary: masked.filter(|summary| !summary.trim().is_empty()) }
    }

    /// Returns the notes about the text after the host has acted.
    pub(super) fn notes_on(
        &self,
        plan: &Plan,
        Condensed { kept, summary }: &Condensed,
    ) -> impl Iterator<Item = TraceNote> {
        let kept = self.spill.then(|| match kept {
            Some(_) => "full text saved".into(),
            None => "full text not saved".into(),
        });
        let summarized = self.summarize.then(|| match summary {
            Some(summary) => format!("summarized to {} bytes", summary.len()).into(),
            None => "not summarized".into(),
        });
        let text = summary.as_ref().unwrap_or(&self.text);
        let most = plan.settings.max_result_bytes;
        let cut = content::is_longer(text, most).then(|| format!("cut to {most} bytes").into());
        [kept, summarized, cut].into_iter().flatten()
    }
}

/// Returns the note about the size of a text.
pub(super) fn size_note(bytes: usize) -> String {
    format!("result: {bytes} bytes of text")
}
