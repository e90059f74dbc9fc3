//! Which image a job's pods run, and what it decides.
//!
//! PaddlePaddle's own image, `paddlecloud-job`, brings `paddle_k8s`, which starts each role. Every other image is the
//! user's: its trainers run the entrypoint, and parameter servers are Flexor's.

use super::TrainingJobSpec;

/// The image of jobs that name none.
const DEFAULT: &str = "paddlepaddle/paddlecloud-job";
/// The repository's last part.
const PADDLES: &str = "paddlecloud-job";

/// The image of a job's pods.
pub(super) fn of(spec: &TrainingJobSpec) -> &str {
    spec.image.as_deref().unwrap_or(DEFAULT)
}

/// Whether the pods are started by `paddle_k8s`.
pub(super) fn has_paddle_k8s(spec: &TrainingJobSpec) -> bool {
    let image = of(spec);
    let without_digest = image.split_once('@').map_or(image, |(name, _)| name);
    let last = without_digest.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map_or(last, |(name, _)| name) == PADDLES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_paddles(image: Option<&str>) -> bool {
        has_paddle_k8s(&TrainingJobSpec { image: image.map(str::to_owned), ..TrainingJobSpec::default() })
    }

    #[test]
    fn paddles_image_is_known_by_its_name_in_any_registry() {
        for image in [
            "paddlecloud-job",
            "paddlepaddle/paddlecloud-job:0.10",
            "r.example:5000/a/paddlecloud-job",
            "paddlecloud-job@sha256:00",
        ] {
            assert!(is_paddles(Some(image)), "{image}");
        }
        assert!(is_paddles(None), "the default");
        for image in ["flexor:latest", "paddlecloud-job-mnist:1", "paddlecloud-job/mnist:1", "r.example:5000/mnist"] {
            assert!(!is_paddles(Some(image)), "{image}");
        }
    }
}
