//! A text that was rewritten for searching, and where its parts are in the original.

use super::Span;

/// A rewritten text, with the original offsets of what was kept.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The rewritten text.
    pub text: String,
    /// Where offsets diverge: from the first offset on, the view continues at the second one in the original.
    turns: Vec<(usize, usize)>,
}

impl View {
    /// Notes that the view continues here at this offset of the original.
    pub(super) fn turn(&mut self, original: usize) {
        self.turns.push((self.text.len(), original));
    }

    /// Maps a span of the view back to the original.
    pub(super) fn outside(&self, span: Span) -> Span {
        Span { start: self.place(span.start), end: self.place(span.end), ..span }
    }

    /// Maps an offset in the view back to the original.
    fn place(&self, at: usize) -> usize {
        let next = self.turns.partition_point(|(view, _)| *view <= at);
        let (view, original) = next.checked_sub(1).map_or((0, 0), |last| self.turns[last]);
        original + (at - view)
    }
}
