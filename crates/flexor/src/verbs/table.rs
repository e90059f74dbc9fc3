//! Tables in kubectl's format. Rows may be added later while objects are watched; columns keep their width then.

use crate::output::on_one_line;

/// Spaces between columns.
const GAP: usize = 3;

pub struct Table {
    heading: Vec<String>,
    widths: Vec<usize>,
    is_begun: bool,
}

impl Table {
    pub fn new(heading: Vec<String>) -> Self {
        Self { widths: vec![0; heading.len()], heading, is_begun: false }
    }

    /// Formats rows. The first rows come with the heading.
    pub fn rows(&mut self, rows: &[Vec<String>]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| on_one_line(cell)).collect()).collect();
        let heading = (!self.is_begun).then(|| self.heading.clone());
        self.is_begun = true;
        let lines: Vec<&Vec<String>> = heading.iter().chain(&rows).collect();
        for line in &lines {
            for (width, cell) in self.widths.iter_mut().zip(line.iter()) {
                *width = (*width).max(cell.chars().count());
            }
        }
        lines.into_iter().map(|line| self.line(line)).collect()
    }

    /// Widens a column for values that may follow.
    pub fn make_room(&mut self, heading: &str, texts: &[String]) {
        let column = self.heading.iter().position(|known| known == heading);
        if let Some(width) = column.and_then(|column| self.widths.get_mut(column)) {
            let longest = texts.iter().map(|text| on_one_line(text).chars().count()).max().unwrap_or(0);
            *width = (*width).max(longest);
        }
    }

    fn line(&self, cells: &[String]) -> String {
        let padded = |(cell, width): (&String, &usize)| format!("{cell:<0$}", width + GAP);
        let line: String = cells.iter().zip(&self.widths).map(padded).collect();
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_cells_and_never_shrink() {
        let mut table = Table::new(vec!["NAME".to_owned(), "AGE".to_owned()]);
        let row = |name: &str| vec![name.to_owned(), "1s".to_owned()];
        assert_eq!(table.rows(&[]), "");
        assert_eq!(table.rows(&[row("a"), row("longer")]), "NAME     AGE\na        1s\nlonger   1s\n");
        assert_eq!(table.rows(&[row("b\n")]), "b\\n      1s\n");
        table.make_room("NAME", &["much longer".to_owned()]);
        assert_eq!(table.rows(&[row("c")]), "c             1s\n");
    }
}
