//! Aligned columns.

use std::io::{self, Write};

/// Rows of cells. Columns whose name ends with a blank are aligned to the left, all others to the right.
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints it, without blanks at the ends of lines.
    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = |i: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count());
            cells.chain([self.head[i].trim_end().len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let names: Vec<String> = self.head.iter().map(|name| name.trim_end().to_owned()).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), name) in row.iter().zip(&widths).zip(&self.head) {
                let blank = " ".repeat(width.saturating_sub(cell.chars().count()));
                let (before, after) = if name.ends_with(' ') { ("", &blank[..]) } else { (&blank[..], "") };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["n", "name ", "size"]);
        table.row(vec!["1".into(), "a".into(), "10".into()]);
        table.row(vec!["10".into(), "longer".into(), "9".into()]);
        let mut out = Vec::new();
        table.print(&mut out).expect("to memory");
        let expected = " n  name    size\n 1  a         10\n10  longer     9\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
