//! The names of other objects in the cluster that a command line mentions: claims and priority classes.

/// Whether Kubernetes lets an object be called so: a DNS subdomain.
pub(super) fn is_object_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_subdomains() {
        assert!(["high", "0.5", "a-b.c"].into_iter().all(is_object_name));
        assert!(!["", "High", "a_b", "-a", "a-", "a..b", "a."].into_iter().any(is_object_name));
        assert!(!is_object_name(&"a".repeat(254)));
    }
}
