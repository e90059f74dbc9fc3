use proptest::prelude::*;

use super::*;

/// Reproducible pseudo-random numbers between -1 and 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| values[row * columns + column])).collect()
}

/// The product by definition, in double precision.
fn reference(a: &[f32], b: &[f32], (rows, inner, columns): (usize, usize, usize)) -> Vec<f64> {
    let element = |row: usize, column: usize| {
        (0..inner).map(|at| f64::from(a[row * inner + at]) * f64::from(b[at * columns + column])).sum()
    };
    (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))).map(|(r, c)| element(r, c)).collect()
}

fn check_products(shape: (usize, usize, usize), seed: u64) {
    let (rows, inner, columns) = shape;
    let (a, b) = (numbers(rows * inner, seed), numbers(inner * columns, seed ^ 77));
    let (a_turned, b_turned) = (transpose(&a, rows, inner), transpose(&b, inner, columns));
    let wanted = reference(&a, &b, shape);
    let lefts = [Matrix::new(&a, rows, inner), Matrix::new(&a_turned, inner, rows).transposed()];
    let rights = [Matrix::new(&b, inner, columns), Matrix::new(&b_turned, columns, inner).transposed()];
    let mut products = Products::default();
    for left in lefts {
        for right in rights {
            let mut stored = vec![f32::NAN; rows * columns];
            products.store(left, right, &mut stored);
            let mut added = vec![1.0; rows * columns];
            products.add(left, right, &mut added);
            let tolerance = 1e-6 * (inner as f64 + 1.0);
            for ((stored, added), wanted) in stored.iter().zip(&added).zip(&wanted) {
                assert!((f64::from(*stored) - wanted).abs() <= tolerance, "{shape:?}: {stored}, wanted {wanted}");
                assert!((f64::from(*added) - 1.0 - wanted).abs() <= tolerance, "{shape:?}: 1 + {added}");
            }
        }
    }
}

#[test]
fn products_agree_with_their_definition_at_odd_shapes() {
    for rows in [0, 1, 5, 6, 7, 33] {
        for inner in [0, 1, 7, 127, 128, 129, 300] {
            for columns in [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 65] {
                check_products((rows, inner, columns), (rows * 31 + inner * 7 + columns) as u64);
            }
        }
    }
}

#[test]
fn each_element_is_one_chain_of_multiply_adds_whatever_the_width_of_a_vector() {
    let (rows, inner, columns) = (13, 290, 37);
    let (a, b) = (numbers(rows * inner, 3), numbers(inner * columns, 4));
    let mut tiled = vec![0.0; rows * columns];
    Products::default().store(Matrix::new(&a, rows, inner), Matrix::new(&b, inner, columns), &mut tiled);
    for row in 0..rows {
        for column in 0..columns {
            let chain = (0..inner).fold(0.0_f32, |sum, at| a[row * inner + at].mul_add(b[at * columns + column], sum));
            assert_eq!(tiled[row * columns + column].to_bits(), chain.to_bits(), "element {row}, {column}");
        }
    }
}

#[test]
#[should_panic(expected = "make no product")]
fn matrices_that_do_not_fit_are_refused() {
    Products::default().store(Matrix::new(&[1.0; 6], 2, 3), Matrix::new(&[1.0; 4], 2, 2), &mut [0.0; 4]);
}

#[test]
fn relu_keeps_positive_values_and_nan() {
    let mut values = [-1.0, 0.0, 2.0, f32::NAN];
    relu(&mut values);
    assert_eq!(values[..3], [0.0, 0.0, 2.0]);
    assert!(values[3].is_nan());
    let mut gradients = [5.0, 5.0, 5.0];
    relu_backward(&values[..3], &mut gradients);
    assert_eq!(gradients, [0.0, 0.0, 5.0]);
}

#[test]
fn a_bias_goes_to_every_row_and_its_gradient_comes_from_every_row() {
    let mut rows = [9.0; 6];
    begin_with_bias(&[1.0, 2.0, 3.0], &mut rows);
    assert_eq!(rows, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let mut sums = [9.0; 3];
    sum_columns(&rows, &mut sums);
    assert_eq!(sums, [2.0, 4.0, 6.0]);
}

#[test]
fn extreme_scores_have_finite_losses() {
    for score in [-200.0, -50.0, 0.0, 50.0, 200.0] {
        for label in [0, 1] {
            let mut gradient = [f32::NAN];
            let loss = log_loss(&[score], &[label], 1.0, &mut gradient);
            assert!(loss.is_finite() && loss >= 0.0 && gradient[0].is_finite());
            let mut gradients = [f32::NAN; 2];
            let loss = softmax_cross_entropy(&[0.0, score], 2, &[label], 1.0, &mut gradients);
            assert!(loss.is_finite() && loss >= 0.0 && gradients.iter().all(|gradient| gradient.is_finite()));
        }
    }
}

proptest! {
    #[test]
    fn products_agree_with_their_definition(rows in 0..40_usize, inner in 0..150_usize, columns in 0..70_usize) {
        check_products((rows, inner, columns), 11);
    }

    #[test]
    fn the_log_loss_and_its_derivative_are_those_of_the_definition(score in -15.0..15.0_f32, label in 0..2_u32) {
        let exact = |score: f64| {
            let yes = 1.0 / (1.0 + (-score).exp());
            if label == 1 { -yes.ln() } else { -(1.0 - yes).ln() }
        };
        let mut gradient = [0.0];
        let loss = log_loss(&[score], &[label], 0.5, &mut gradient);
        let score = f64::from(score);
        prop_assert!((loss - exact(score)).abs() < 1e-6 * (1.0 + loss));
        let slope = (exact(score + 1e-4) - exact(score - 1e-4)) / 2e-4;
        prop_assert!((f64::from(gradient[0]) - 0.5 * slope).abs() < 1e-5);
    }

    #[test]
    fn the_cross_entropy_and_its_derivative_are_those_of_the_definition(
        scores in prop::collection::vec(-8.0..8.0_f32, 1..12),
        label in 0..12_usize,
    ) {
        let label = label % scores.len();
        let exact = |scores: &[f64]| {
            scores.iter().map(|score| score.exp()).sum::<f64>().ln() - scores[label]
        };
        let wide: Vec<f64> = scores.iter().copied().map(f64::from).collect();
        let mut gradients = vec![0.0; scores.len()];
        let loss = softmax_cross_entropy(&scores, scores.len(), &[label as u32], 1.0, &mut gradients);
        prop_assert!((loss - exact(&wide)).abs() < 1e-5);
        for (at, gradient) in gradients.iter().enumerate() {
            let moved = |by: f64| {
                let mut scores = wide.clone();
                scores[at] += by;
                exact(&scores)
            };
            let slope = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            prop_assert!((f64::from(*gradient) - slope).abs() < 1e-5);
        }
    }
}
