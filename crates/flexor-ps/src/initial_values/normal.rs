//! Normally distributed numbers by Marsaglia's polar method, with its own logarithm.
//!
//! The logarithms of C libraries differ in their last bit. Initial values must be equal on every machine.

use super::extra_draw;

/// A number of the standard normal distribution.
pub(super) fn standard(draw: u64) -> f64 {
    attempts(draw).next().unwrap_or(0.0)
}

/// A number of the standard normal distribution truncated at ±2.
pub(super) fn within_two(draw: u64) -> f64 {
    attempts(draw).find(|number| number.abs() <= 2.0).unwrap_or(0.0)
}

/// An endless sequence of standard normal numbers.
fn attempts(draw: u64) -> impl Iterator<Item = f64> {
    (0..).step_by(2).filter_map(move |j| {
        let (x, y) = (symmetric(extra_draw(draw, j)), symmetric(extra_draw(draw, j + 1)));
        let square = x * x + y * y;
        (square > 0.0 && square < 1.0).then(|| x * (-2.0 * logarithm(square) / square).sqrt())
    })
}

/// The top 53 bits as a number in [−1, 1).
fn symmetric(draw: u64) -> f64 {
    (draw >> 11) as f64 * (2.0 / (1_u64 << 53) as f64) - 1.0
}

/// The natural logarithm of a normal positive number, accurate to 15 digits.
fn logarithm(x: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let fraction = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 0x3FF0_0000_0000_0000);
    let (fraction, exponent) = match fraction > std::f64::consts::SQRT_2 {
        true => (fraction / 2.0, exponent + 1),
        false => (fraction, exponent),
    };
    // ln f = 2·artanh((f − 1) / (f + 1)), whose argument is at most 0.172 here.
    let s = (fraction - 1.0) / (fraction + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    exponent as f64 * LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_agrees_with_the_standard_library() {
        for x in [1e-300, 1e-9, 0.1, 0.5, 0.706, 0.9999, 1.0, 1.416, 1.5, 3.0, 1e10] {
            let (ours, theirs) = (logarithm(x), x.ln());
            assert!((ours - theirs).abs() <= 4e-15 * theirs.abs().max(1e-3), "ln {x}: {ours} or {theirs}");
        }
    }

    #[test]
    fn one_in_three_lies_beyond_one_deviation() {
        let beyond = (0..100_000).filter(|draw| standard(*draw).abs() > 1.0).count();
        assert!((31_200..32_300).contains(&beyond), "{beyond}");
    }
}
