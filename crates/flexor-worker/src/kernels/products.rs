//! The product of two matrices, in tiles that stay in registers.
//!
//! Each element of the result is one chain of fused multiply-adds along the inner dimension, `fma(a₁, b₁, fma(a₀, b₀,
//! c))` and so on. Tiles, panels and vector lanes only decide which chains advance together; they never split a chain.
//! The result therefore has the same bits with 1, 8 or 16 lanes. A processor without fused multiply-add gives the same
//! result slowly; none of the last ten years is one.

use pulp::{Arch, Simd, WithSimd};

use super::{Matrix, column};

/// Rows per tile. With two vectors per row that makes 12 sums in registers, of 16 that AVX2 has.
const ROWS: usize = 6;

/// The part of the inner dimension that is processed at a time, so a panel of `b` stays in the first cache.
const DEPTH: usize = 128;

/// Multiplies matrices; keeps its buffers between products.
#[derive(Debug, Default)]
pub struct Products {
    arch: Arch,
    panel: Vec<f32>,
}

impl Products {
    /// `c = a · b`.
    ///
    /// # Panics
    ///
    /// When the shapes do not fit each other.
    pub fn store(&mut self, a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32]) {
        self.multiply(a, b, c, InitialSum::Zero);
    }

    /// `c += a · b`.
    ///
    /// # Panics
    ///
    /// When the shapes do not fit each other.
    pub fn add(&mut self, a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32]) {
        self.multiply(a, b, c, InitialSum::Existing);
    }

    fn multiply(&mut self, a: Matrix<'_>, b: Matrix<'_>, c: &mut [f32], initial: InitialSum) {
        let shapes = (a.rows(), a.columns(), b.rows(), b.columns());
        assert!(
            a.columns() == b.rows() && c.len() == a.rows() * b.columns(),
            "{shapes:?} make no product of {}",
            c.len()
        );
        let by_tiles = !c.is_empty() && a.columns() > 0 && b.columns() > 1;
        if by_tiles {
            return self.arch.dispatch(Product { a, b, c, initial, panel: &mut self.panel });
        }
        match initial {
            InitialSum::Zero => c.fill(0.0),
            InitialSum::Existing => {}
        }
        if b.columns() == 1 {
            column::add_product(a, b, c);
        }
    }
}

/// The initial value of a product's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitialSum {
    /// 0, whatever the result holds.
    Zero,
    /// The values in the result.
    Existing,
}

/// One product, compiled once per instruction set.
struct Product<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    c: &'a mut [f32],
    initial: InitialSum,
    panel: &'a mut Vec<f32>,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, b, c, mut initial, panel } = self;
        let (rows, inner, columns) = (a.rows(), a.columns(), b.columns());
        let width = 2 * S::F32_LANES;
        panel.resize(DEPTH * width, 0.0);
        for first in (0..inner).step_by(DEPTH) {
            let depth = DEPTH.min(inner - first);
            for column in (0..columns).step_by(width) {
                let used = width.min(columns - column);
                let panel = &mut panel[..depth * width];
                pack(b, first, column, used, width, panel);
                let panel = S::as_simd_f32s(panel).0;
                let mut tiles = Tiles { simd, a, first, depth, panel, c: &mut *c, initial, columns, column, used };
                let mut row = 0;
                while row + ROWS <= rows {
                    tiles.add::<ROWS>(row);
                    row += ROWS;
                }
                match rows - row {
                    1 => tiles.add::<1>(row),
                    2 => tiles.add::<2>(row),
                    3 => tiles.add::<3>(row),
                    4 => tiles.add::<4>(row),
                    5 => tiles.add::<5>(row),
                    _ => {}
                }
            }
            initial = InitialSum::Existing;
        }
    }
}

/// Copies columns of `b` side by side, with zeros where a panel is wider than what is left of `b`.
#[inline(always)]
fn pack(b: Matrix<'_>, first: usize, column: usize, used: usize, width: usize, panel: &mut [f32]) {
    if b.is_transposed() {
        let depth = panel.len() / width;
        for place in 0..width {
            let to = panel[place..].iter_mut().step_by(width);
            if place < used {
                to.zip(b.stored(column + place, first, depth)).for_each(|(to, from)| *to = *from);
            } else {
                to.for_each(|to| *to = 0.0);
            }
        }
    } else {
        for (line, to) in panel.chunks_exact_mut(width).enumerate() {
            to[..used].copy_from_slice(b.stored(first + line, column, used));
            to[used..].fill(0.0);
        }
    }
}

/// The tiles of the result that use one panel.
struct Tiles<'a, S: Simd> {
    simd: S,
    a: Matrix<'a>,
    /// The panel's start and length in the inner dimension.
    first: usize,
    depth: usize,
    panel: &'a [S::f32s],
    c: &'a mut [f32],
    initial: InitialSum,
    /// Columns of the result.
    columns: usize,
    /// The panel's first column, and its used columns.
    column: usize,
    used: usize,
}

impl<S: Simd> Tiles<'_, S> {
    #[inline(always)]
    fn add<const N: usize>(&mut self, row: usize) {
        let mut sums = [[self.simd.splat_f32s(0.0); 2]; N];
        if self.initial == InitialSum::Existing {
            for (place, sums) in sums.iter_mut().enumerate() {
                *sums = self.load(row + place);
            }
        }
        let sums = if self.a.is_transposed() {
            let (values, step) = self.a.stored_from(self.first, row);
            self.advance(sums, |inner| {
                let line = &values[inner * step..][..N];
                move |place: usize| line[place]
            })
        } else {
            let lines: [&[f32]; N] = std::array::from_fn(|place| self.a.stored(row + place, self.first, self.depth));
            let lines = &lines;
            self.advance(sums, |inner| move |place: usize| lines[place][inner])
        };
        for (place, sums) in sums.into_iter().enumerate() {
            self.store(row + place, sums);
        }
    }

    /// Advances along the inner dimension; `left` returns a row's element of `a` at a position.
    #[inline(always)]
    fn advance<const N: usize, E: Fn(usize) -> f32>(
        &self,
        mut sums: [[S::f32s; 2]; N],
        left: impl Fn(usize) -> E,
    ) -> [[S::f32s; 2]; N] {
        let simd = self.simd;
        let (pairs, _) = self.panel.as_chunks::<2>();
        for (inner, [low, high]) in pairs[..self.depth].iter().enumerate() {
            let element = left(inner);
            for (place, sums) in sums.iter_mut().enumerate() {
                let value = simd.splat_f32s(element(place));
                sums[0] = simd.mul_add_f32s(value, *low, sums[0]);
                sums[1] = simd.mul_add_f32s(value, *high, sums[1]);
            }
        }
        sums
    }

    #[inline(always)]
    fn load(&self, row: usize) -> [S::f32s; 2] {
        let from = &self.c[row * self.columns + self.column..][..self.used];
        if let ([low, high], []) = S::as_simd_f32s(from) {
            return [*low, *high];
        }
        let (low, high) = from.split_at(self.used.min(S::F32_LANES));
        [self.simd.partial_load_f32s(low), self.simd.partial_load_f32s(high)]
    }

    #[inline(always)]
    fn store(&mut self, row: usize, sums: [S::f32s; 2]) {
        let to = &mut self.c[row * self.columns + self.column..][..self.used];
        if let ([low, high], []) = S::as_mut_simd_f32s(to) {
            [*low, *high] = sums;
            return;
        }
        let (low, high) = to.split_at_mut(self.used.min(S::F32_LANES));
        self.simd.partial_store_f32s(low, sums[0]);
        self.simd.partial_store_f32s(high, sums[1]);
    }
}
