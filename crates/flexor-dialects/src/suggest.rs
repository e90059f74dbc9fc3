//! "Did you mean …?"

/// The candidate that was most likely meant by a misspelt word, if any is close enough.
pub(crate) fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let wanted = plain(written);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(written.len()) / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn a_slip_is_understood_and_nonsense_is_not() {
        let fields = ["replicas", "restartPolicy", "restartCount", "template", "autoScale", "min-instance"];
        assert_eq!(closest("replica", fields), Some("replicas"));
        assert_eq!(closest("auto_scale", fields), Some("autoScale"));
        assert_eq!(closest("minInstance", fields), Some("min-instance"));
        assert_eq!(closest("templte", fields), Some("template"));
        assert_eq!(closest("volumes", fields), None);
        assert_eq!(closest("x", fields), None);
    }
}
