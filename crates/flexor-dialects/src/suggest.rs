//! "Did you mean …?"

use flexor_model::LABEL_MAX;

/// No name here is half as long; comparing longer ones costs time and memory that anybody could ask for.
const LONGEST: usize = 64;

/// The candidate that was most likely meant by a misspelt word, if any is close enough.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > LONGEST {
        return None;
    }
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(written);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(written.len()) / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// What to write instead of a misspelt word: the one that was meant, or else all that there are.
pub(crate) fn instead<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    match closest(written, candidates.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if candidates.len() == 1 => format!("expected {}", candidates[0]),
        None => format!("expected one of {}", candidates.join(", ")),
    }
}

/// A name that Kubernetes takes, made from one that it does not: `imagenet-run-0` from `Imagenet_run_0`.
pub(crate) fn better_name(written: &str) -> Option<String> {
    let plain: String = written
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .skip_while(|c| !c.is_ascii_lowercase())
        .take(LABEL_MAX)
        .collect();
    let name = plain.trim_matches('-');
    (!name.is_empty() && name != written).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{better_name, closest};

    #[test]
    fn a_slip_is_understood_and_nonsense_is_not() {
        let fields = ["replicas", "restartPolicy", "restartCount", "template", "autoScale", "min-instance"];
        assert_eq!(closest("replica", fields), Some("replicas"));
        assert_eq!(closest("auto_scale", fields), Some("autoScale"));
        assert_eq!(closest("minInstance", fields), Some("min-instance"));
        assert_eq!(closest("templte", fields), Some("template"));
        assert_eq!(closest("volumes", fields), None);
        assert_eq!(closest("x", fields), None);
        assert_eq!(closest(&"replicas".repeat(100_000), fields), None);
    }

    #[test]
    fn a_name_is_mended() {
        assert_eq!(better_name("Imagenet_run_0").as_deref(), Some("imagenet-run-0"));
        assert_eq!(better_name("0.mnist-").as_deref(), Some("mnist"));
        assert_eq!(better_name("good"), None);
        assert_eq!(better_name("123"), None);
    }
}
