//! Adam's bias correction, √(1 − β₂ᵗ) / (1 − β₁ᵗ), tabulated by step number.

/// The size limit of the table. Later corrections are 1 or are computed each time.
const TABULATED_STEPS: u32 = 1 << 15;

#[derive(Debug, Default)]
pub(crate) struct Corrections {
    beta1: f64,
    beta2: f64,
    /// Entry 0 is for step 1.
    table: Vec<f32>,
    /// Whether all steps after the table have the correction 1.
    complete: bool,
}

impl Corrections {
    pub(super) fn new(beta1: f32, beta2: f32) -> Self {
        let (beta1, beta2) = (f64::from(beta1), f64::from(beta2));
        let (mut table, mut in_a_row) = (Vec::new(), 0);
        for t in 1..=TABULATED_STEPS {
            let correction = compute(beta1, beta2, t);
            in_a_row = if correction == 1.0 { in_a_row + 1 } else { 0 };
            table.push(correction);
            // A single 1 may be a crossing of both powers. Two in a row mean that all later ones are 1.
            if in_a_row == 2 {
                break;
            }
        }
        Self { beta1, beta2, table, complete: in_a_row == 2 }
    }

    /// The correction of step `t`, counted from 1.
    #[inline]
    pub(super) fn of(&self, t: u32) -> f32 {
        match self.table.get(t.saturating_sub(1) as usize) {
            Some(correction) => *correction,
            None if self.complete => 1.0,
            None => compute(self.beta1, self.beta2, t),
        }
    }
}

fn compute(beta1: f64, beta2: f64, t: u32) -> f32 {
    ((1.0 - power(beta2, t)).sqrt() / (1.0 - power(beta1, t))) as f32
}

/// Exponentiation by squaring: the same bits on every machine, which a C library's `pow` does not guarantee.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut power = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabulated_and_computed_corrections_agree() {
        for (beta1, beta2) in [(0.9, 0.999), (0.0, 0.0), (0.5, 0.99), (0.99, 0.999_99)] {
            let corrections = Corrections::new(beta1, beta2);
            let (beta1, beta2) = (f64::from(beta1), f64::from(beta2));
            for t in [1, 2, 3, 10, 1000, 16_000, 20_000, 32_768, 32_769, 100_000, u32::MAX] {
                let wanted = ((1.0 - beta2.powf(t.into())).sqrt() / (1.0 - beta1.powf(t.into()))) as f32;
                let found = corrections.of(t);
                assert!((found - wanted).abs() <= f32::EPSILON * wanted, "{beta1} {beta2} {t}: {found} or {wanted}");
            }
        }
    }
}
