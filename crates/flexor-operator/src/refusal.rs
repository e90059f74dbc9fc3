//! Creations that the API server refuses because of the object itself, and what a person can do about each.

use kube::core::Status;

/// What the API server's answers contain, and what to do.
const ADVICE: [(&str, &str); 6] = [
    ("exceeded quota", "raise the quota, or delete what uses it"),
    ("no PriorityClass with name", "create the class, or name one that exists"),
    ("violates PodSecurity", "give the pods a securityContext that fits, or label the namespace with another level"),
    ("usage per", "request what the namespace's LimitRange allows"),
    ("error looking up service account", "create the service account, or name one that exists"),
    ("admission webhook", "ask who runs the webhook what it wants"),
];
const OTHERWISE: &str = "correct the pod template";

/// Whether the API server refuses the object itself: quota, admission, an invalid template. Its own troubles, and a
/// change of its state in between, are none.
pub(crate) fn is_refusal(status: &Status) -> bool {
    (400..500).contains(&status.code) && !matches!(status.code, 401 | 404 | 408 | 409 | 429) && !is_conflict(status)
}

/// Whether an object was written by another since it was read. The failed test of a JSON Patch is an invalid request that
/// names no object, unlike an invalid object.
pub(crate) fn is_conflict(status: &Status) -> bool {
    let names_object = status.details.as_ref().is_some_and(|details| !details.kind.is_empty());
    status.code == 409 || (status.code == 422 && !names_object)
}

/// What the API server says, and what to do.
pub(crate) fn describe(message: &str) -> String {
    let known = ADVICE.iter().find(|(sign, _)| message.contains(sign));
    let advice = known.map_or(OTHERWISE, |(_, advice)| advice);
    format!("{message}; {advice}: it is tried again by itself")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_says_what_to_do() {
        let quota = "pods \"j-0\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2";
        assert_eq!(
            describe(quota),
            format!("{quota}; raise the quota, or delete what uses it: it is tried again by itself")
        );
        assert!(describe("Pod \"j-0\" is invalid: spec.x: Required value").contains("; correct the pod template: "));
    }

    #[test]
    fn troubles_of_the_api_server_are_no_refusals() {
        let status = |code: u16| -> Status {
            serde_json::from_value(json!({"code": code, "details": {"name": "a", "kind": "pods"}})).unwrap()
        };
        assert!([400, 403, 422].into_iter().all(|code| is_refusal(&status(code))));
        assert!(![401, 404, 409, 429, 500, 503].into_iter().any(|code| is_refusal(&status(code))));
        let failed_test = Status { code: 422, ..Status::default() };
        assert!(is_conflict(&failed_test) && !is_refusal(&failed_test));
    }
}
