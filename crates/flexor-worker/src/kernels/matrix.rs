//! A matrix as kernels read it: numbers row by row, or the transpose of such.

/// A matrix that somebody else owns.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// Whether `values` are the rows of the transpose.
    transposed: bool,
}

impl<'a> Matrix<'a> {
    /// A matrix of values that are stored row by row.
    ///
    /// # Panics
    ///
    /// When there are not `rows · columns` values.
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(values.len(), rows * columns, "a matrix of {rows} × {columns} has that many values");
        Self { values, rows, columns, transposed: false }
    }

    /// The same numbers with rows and columns exchanged. Nothing is moved.
    pub fn transposed(self) -> Self {
        Self { rows: self.columns, columns: self.rows, transposed: !self.transposed, ..self }
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns it has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn is_transposed(&self) -> bool {
        self.transposed
    }

    /// Part of a row of what is stored: of a row when the matrix is not transposed, of a column when it is.
    pub(super) fn stored(&self, line: usize, first: usize, count: usize) -> &'a [f32] {
        let width = if self.transposed { self.rows } else { self.columns };
        &self.values[line * width + first..][..count]
    }

    /// What is stored from a line and place on, and how far apart lines are.
    pub(super) fn stored_from(&self, line: usize, first: usize) -> (&'a [f32], usize) {
        let width = if self.transposed { self.rows } else { self.columns };
        (&self.values[line * width + first..], width)
    }
}
