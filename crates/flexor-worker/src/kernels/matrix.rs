//! A borrowed matrix, stored row by row, or its transpose.

/// A borrowed matrix.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// Whether `values` are the rows of the transpose.
    transposed: bool,
}

impl<'a> Matrix<'a> {
    /// A matrix of values stored row by row.
    ///
    /// # Panics
    ///
    /// When there are not `rows · columns` values.
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} × {columns} has that many values");
        Self { values, rows, columns, transposed: false }
    }

    /// The transpose. Nothing is moved.
    pub fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn is_transposed(&self) -> bool {
        self.transposed
    }

    /// Part of a stored line: of a row, or of a column if transposed.
    pub(super) fn stored(&self, line: usize, first: usize, count: usize) -> &'a [f32] {
        let width = if self.transposed { self.rows } else { self.columns };
        &self.values[line * width + first..][..count]
    }

    /// The stored values from a position on, and the distance between lines.
    pub(super) fn stored_from(&self, line: usize, first: usize) -> (&'a [f32], usize) {
        let width = if self.transposed { self.rows } else { self.columns };
        (&self.values[line * width + first..], width)
    }
}
