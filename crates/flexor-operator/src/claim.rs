//! Which controller serves a job: the one whose name is in the job's status.
//!
//! Two overlays may be installed in one cluster, or an original controller may still run beside Flexor. Neither fights:
//! whoever comes second leaves the job alone and says so.

use serde_json::Value;

/// Notes in a status who serves the job.
pub(crate) fn put(status: &mut Value, controller: &str) {
    if let Some(stored) = status.get_mut("flexor").and_then(Value::as_object_mut) {
        stored.insert("controller".to_owned(), controller.into());
    }
}

/// Fails if another controller serves the job, and says what to do.
pub(crate) fn check(status: Option<&Value>, controller: &str) -> Result<(), String> {
    let Some(status) = status.and_then(Value::as_object).filter(|status| !status.is_empty()) else { return Ok(()) };
    match status.get("flexor").map(|stored| stored.get("controller").and_then(Value::as_str)) {
        None => {
            Err("another controller than Flexor writes its status, so Flexor leaves it alone: stop that controller, \
                     delete the job and apply it again"
                .to_owned())
        }
        Some(Some(other)) if other != controller => Err(format!(
            "the operator in namespace {other} serves this job, so the one in {controller} leaves it alone: uninstall one \
             of them; to hand the job over, remove status.flexor.controller with kubectl edit --subresource=status"
        )),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_belongs_to_the_controller_in_its_status() {
        let mut status = json!({"phase": "Running", "flexor": {"version": 1}});
        assert_eq!(check(Some(&status), "a"), Ok(()), "nobody has claimed it");
        put(&mut status, "a");
        assert_eq!(status["flexor"]["controller"], "a");
        assert_eq!(check(Some(&status), "a"), Ok(()));
        assert!(check(Some(&status), "b").unwrap_err().starts_with("the operator in namespace a serves this job"));
    }

    #[test]
    fn a_status_that_flexor_did_not_write_is_left_alone() {
        assert_eq!(check(None, "a"), Ok(()));
        assert_eq!(check(Some(&json!({})), "a"), Ok(()));
        assert!(check(Some(&json!({"phase": "Running"})), "a").unwrap_err().starts_with("another controller"));
    }
}
