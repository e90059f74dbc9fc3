//! The model reproduces the published runs, and the policies differ as reported.

mod defects;
mod marks;
mod reproduction;

use super::*;

fn near(found: f64, published: f64, tolerance: f64) {
    assert!((found - published).abs() <= tolerance, "{found} instead of {published}");
}
