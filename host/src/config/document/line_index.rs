//! Converts byte offsets to lines and columns.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use super::super::model::FilePosition;

/// The starts of the lines of a text.
pub(crate) struct LineIndex<'t> {
    text: &'t str,
    starts: Vec<usize>,
    file: Arc<Path>,
    /// The last result as offset and column: a file may be one long line, and positions are mostly requested in order.
    last: Cell<(usize, usize)>,
}

impl<'t> LineIndex<'t> {
    /// Finds the starts of all lines.
    pub(crate) fn new(text: &'t str, file: &Arc<Path>) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        LineIndex { text, starts, file: Arc::clone(file), last: Cell::new((0, 1)) }
    }

    /// Returns the position of the byte at this offset.
    pub(crate) fn position(&self, offset: usize) -> FilePosition {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let (from, before) =
            Some(self.last.get()).filter(|(last, _)| (start..=offset).contains(last)).unwrap_or((start, 1));
        let column = before + self.text[from..offset].chars().count();
        self.last.set((offset, column));
        FilePosition::new(&self.file, line, column)
    }
}
