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
    /// The full text without embedded resources, masked.
    pub text: String,
    /// Whether the text differs from that of the blocks.
    pub rewritten: bool,
    /// Whether to save the full text.
    pub spill: bool,
    /// Whether to summarize the text.
    pub summarize: bool,
}

impl LongAnswer {
    /// Reports whether to save a text of this many bytes, and whether to summarize it.
    pub(super) fn wants(plan: &Plan, bytes: usize) -> (bool, bool) {
        let most = plan.results.summarize_above_tokens;
        let summarize = most.is_some_and(|most| content::estimate_tokens(bytes) > most);
        let spill = plan.settings.spill && (summarize || bytes > plan.max_bytes());
        (spill, summarize)
    }

    /// Returns the notes about a text of this many bytes before the host acts.
    pub(super) fn notes(&self, bytes: usize) -> impl Iterator<Item = TraceNote> {
        let spill = self.spill.then(|| "saving the full text".into());
        let summarize = self.summarize.then(|| "summarizing the text".into());
        [Some(size_note(bytes).into()), spill, summarize].into_iter().flatten()
    }

    /// Keeps what was requested from the host's report, and a summary only if it is not empty. A summary can contain
    /// anything, so it is masked like the result.
    pub(super) fn take(&self, plan: &Plan, Condensed { kept, summary }: Condensed) -> Condensed {
        let masked =
            summary.filter(|_| self.summarize).map(|summary| plan.results.masker.mask(summary.trim()).into_owned());
        Condensed { kept: kept.filter(|_| self.spill), summary: masked.filter(|summary| !summary.trim().is_empty()) }
    }

    /// Returns the notes about the text after the host has acted and it was cut to a size.
    pub(super) fn notes_on(
        &self,
        Condensed { kept, summary }: &Condensed,
        cut: Option<u64>,
    ) -> impl Iterator<Item = TraceNote> {
        let kept = self.spill.then(|| match kept {
            Some(_) => "full text saved".into(),
            None => "full text not saved".into(),
        });
        let summarized = self.summarize.then(|| match summary {
            Some(summary) => format!("summarized to {} bytes", summary.len()).into(),
            None => "not summarized".into(),
        });
        let cut = cut.map(|most| format!("cut to {most} bytes").into());
        [kept, summarized, cut].into_iter().flatten()
    }
}

/// Returns the note about the size of a text.
pub(super) fn size_note(bytes: usize) -> String {
    format!("result: {bytes} bytes of text")
}
