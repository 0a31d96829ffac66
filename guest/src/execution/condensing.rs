//! Texts that are too long: what the host is asked to do with them, and what is taken of what it did.

use super::Condensed;
use super::outcome::{Plan, is_longer, size_note};
use crate::content;
use crate::types::Note;

/// An answer whose text is too long to be given out as it is.
#[derive(Debug)]
pub struct LongAnswer {
    /// The `result` of the answer, masked.
    pub result: String,
    /// Its whole text, masked.
    pub text: String,
    /// The text is no longer that of the blocks.
    pub rewritten: bool,
    /// The whole text is to be kept.
    pub spill: bool,
    /// The text is to be summarized.
    pub summarize: bool,
}

impl LongAnswer {
    /// Whether a text is to be kept whole, and whether it is to be summarized.
    pub fn wants(plan: &Plan, text: &str) -> (bool, bool) {
        let spill = plan.spill && is_longer(text, plan.max_result_bytes);
        let summarize = plan.summarize_above_tokens.is_some_and(|most| content::estimate_tokens(text) > most);
        (spill, summarize)
    }

    /// What the trace says of the text before anything has become of it.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        let spill = self.spill.then(|| "the whole text is to be kept".into());
        let summarize = self.summarize.then(|| "the text is to be summarized".into());
        [Some(size_note(self.text.len()).into()), spill, summarize].into_iter().flatten()
    }

    /// What is taken of what the host reports: only what was asked for, and a summary only where it says something.
    /// Whoever wrote the summary may have put anything in it, so it is masked like the answer.
    pub fn take(&self, plan: &Plan, Condensed { kept, summary }: Condensed) -> Condensed {
        let masked = summary.filter(|_| self.summarize).map(|summary| plan.masker.mask(summary.trim()).into_owned());
        Condensed { kept: kept.filter(|_| self.spill), summary: masked.filter(|summary| !summary.trim().is_empty()) }
    }

    /// What the trace says of the text once this has been taken.
    pub fn notes_on(&self, plan: &Plan, Condensed { kept, summary }: &Condensed) -> impl Iterator<Item = Note> {
        let kept = self.spill.then(|| match kept {
            Some(_) => "the whole text is kept".into(),
            None => "the whole text is not kept".into(),
        });
        let summarized = self.summarize.then(|| match summary {
            Some(summary) => format!("the text is summarized in {} bytes", summary.len()).into(),
            None => "there is no summary".into(),
        });
        let text = summary.as_ref().unwrap_or(&self.text);
        let most = plan.max_result_bytes;
        let cut = is_longer(text, most).then(|| format!("the text is cut to {most} bytes").into());
        [kept, summarized, cut].into_iter().flatten()
    }
}
