//! Tables in text output.

use comfy_table::{CellAlignment, Table, presets};

/// A table under construction: columns separated by two spaces, no lines, never wrapped (a pipe has no width).
pub(crate) struct Columns {
    table: Table,
}

impl Columns {
    /// Creates an empty table with a header; a column whose title starts with `>` is right-aligned, as numbers should
    /// be.
    pub(crate) fn new(header: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header.iter().map(|title| title.trim_start_matches('>')));
        for (column, title) in table.column_iter_mut().zip(header) {
            column.set_padding((0, 2));
            if title.starts_with('>') {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { table }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.table.add_row(cells.into_iter().collect::<Vec<_>>());
    }

    /// Returns the text, without trailing blanks.
    pub(crate) fn text(&self) -> String {
        self.table.trim_fmt()
    }
}

#[cfg(test)]
mod tests {
    use super::Columns;

    #[test]
    fn numbers_are_right_aligned_and_names_left_aligned() {
        let mut table = Columns::new(&["name", ">bytes"]);
        table.row(["a".into(), "1024".into()]);
        table.row(["long".into(), "8".into()]);
        assert_eq!(table.text(), "name  bytes\na      1024\nlong      8");
    }
}
