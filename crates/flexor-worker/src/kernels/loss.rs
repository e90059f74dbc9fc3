//! Losses and their derivatives by the scores: log loss for binary labels, cross entropy for classes.
//!
//! Scores are logits; only here do they become probabilities. Losses are summed as `f64` from the first record to the
//! last. Exponentials and logarithms come from `libm`, which gives the same bits on every machine.

/// The probability of a yes, for a logit.
pub fn probability(score: f32) -> f32 {
    let small = libm::expf(-score.abs());
    if score < 0.0 { small / (1.0 + small) } else { 1.0 / (1.0 + small) }
}

/// The log loss of one record: `-ln` of the probability of the true label.
pub fn log_loss_of(score: f32, label: bool) -> f64 {
    let (score, wrong) = (f64::from(score), f64::from(if label { -score } else { score }));
    wrong.max(0.0) + libm::log1p(libm::exp(-score.abs()))
}

/// The sum of the log losses of one score per record, and `scale` times its derivative by each score.
///
/// Any label but 0 is a yes.
pub fn log_loss(scores: &[f32], labels: &[u32], scale: f32, gradients: &mut [f32]) -> f64 {
    let mut sum = 0.0;
    for ((score, label), gradient) in scores.iter().zip(labels).zip(gradients) {
        let label = *label != 0;
        sum += log_loss_of(*score, label);
        *gradient = (probability(*score) - f32::from(u8::from(label))) * scale;
    }
    sum
}

/// The cross entropy of one record: `-ln` of the probability of its class.
///
/// # Panics
///
/// When the label is no class.
pub fn cross_entropy_of(scores: &[f32], label: usize) -> f64 {
    let highest = highest(scores);
    let total: f64 = scores.iter().map(|score| libm::exp(f64::from(*score - highest))).sum();
    libm::log(total) - f64::from(scores[label] - highest)
}

/// Turns the scores of one record into probabilities.
pub fn softmax(scores: &mut [f32]) {
    let highest = highest(scores);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = libm::expf(*score - highest);
        sum += *score;
    }
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// The sum of the cross entropies of `classes` scores per record, and `scale` times its derivative by each score.
///
/// # Panics
///
/// When a label is no class; [`crate::Batch`] holds only checked labels.
pub fn softmax_cross_entropy(scores: &[f32], classes: usize, labels: &[u32], scale: f32, gradients: &mut [f32]) -> f64 {
    let mut sum = 0.0;
    let records = scores.chunks_exact(classes).zip(gradients.chunks_exact_mut(classes));
    for ((scores, gradients), label) in records.zip(labels) {
        let label = *label as usize;
        sum += cross_entropy_of(scores, label);
        gradients.copy_from_slice(scores);
        softmax(gradients);
        gradients[label] -= 1.0;
        gradients.iter_mut().for_each(|gradient| *gradient *= scale);
    }
    sum
}

fn highest(scores: &[f32]) -> f32 {
    scores.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}
