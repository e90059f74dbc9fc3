//! What the original accepts in an `ElasticJob` and nothing uses.

use flexor_model::{MainContainer, Reason};

use super::{ElasticJobSpec, RestartPolicy};
use crate::{Finding, FlexorOptions, finding::quoted};

/// A warning for each field without effect.
pub(super) fn of_job(spec: &ElasticJobSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    if spec.scheduling_policy.is_some() {
        findings.push(
            Finding::new(Reason::FieldUnused, "spec.schedulingPolicy", "nothing uses this field")
                .help("minReplicas says below how many nodes the job waits"),
        );
    }
    if FlexorOptions::copies(spec.flexor.as_ref()) > 1 {
        findings.push(
            Finding::new(Reason::FieldUnused, "spec.flexor.psReplicationFactor", "the job has no parameter servers")
                .help("leave psReplicationFactor out"),
        );
    }
    if let (Some(_), Some(RestartPolicy::Never)) = (spec.backoff_limit, spec.replica_specs.worker.restart_policy) {
        findings.push(
            Finding::new(Reason::FieldUnused, "spec.backoffLimit", "nothing is tried again with restartPolicy Never")
                .help("leave one of the two out"),
        );
    }
    let worker = &spec.replica_specs.worker;
    if let Some(policy) = worker.template.spec.restart_policy.as_deref().filter(|policy| *policy != "Never") {
        findings.push(Finding::new(
            Reason::ValueReplaced,
            "spec.replicaSpecs.Worker.template.spec.restartPolicy",
            format!("{} is replaced by Never: pods are replaced, not restarted in place", quoted(policy)),
        ));
    }
    findings
}

/// A warning where the arguments that come with `rdzvEndpoint` do not reach the launcher: they stand between `command`
/// and `args`. A shell's script ignores them, and `PET_*` says the same.
pub(super) fn of_leading_args(main: MainContainer<'_>, path: &str, index: usize) -> Option<Finding> {
    let command = main.command();
    let program = command.first()?.rsplit('/').next().unwrap_or_default();
    let reader = match command.iter().find(|word| word.ends_with(".py")) {
        Some(_) if matches!(program, "sh" | "bash" | "dash" | "ash") => return None,
        Some(script) => *script,
        None if program.starts_with("python") && command.len() == 1 => program,
        None => return None,
    };
    let message = format!(
        "with rdzvEndpoint, --rdzv_backend, --rdzv_endpoint, --rdzv_id and --nnodes follow command, so {} gets them",
        quoted(reader)
    );
    Some(
        Finding::new(Reason::ArgumentsMisplaced, format!("{path}.spec.containers[{index}].command"), message)
            .help("end command with the launcher, and write its options and the program in args"),
    )
}

#[cfg(test)]
mod tests {
    use flexor_model::PodTemplate;
    use serde_json::json;

    use super::*;

    fn warned(command: &[&str]) -> Option<String> {
        let container = json!({"name": "main", "command": command, "args": ["train.py"]});
        let template = PodTemplate::new(json!({"spec": {"containers": [container]}}), "main").unwrap();
        of_leading_args(template.main(), "template", 0).map(|finding| finding.message)
    }

    #[test]
    fn arguments_behind_a_program_are_named_with_it() {
        for (command, reader) in [
            (&["torchrun", "--nproc-per-node=1", "main.py"][..], "`main.py`"),
            (&["python3", "-m", "torch.distributed.run", "/w/main.py"], "`/w/main.py`"),
            (&["/usr/bin/python3"], "`python3`"),
        ] {
            let message = warned(command).unwrap_or_default();
            assert!(message.ends_with(&format!("so {reader} gets them")), "{command:?}: {message}");
        }
    }

    #[test]
    fn a_launcher_at_the_end_of_a_command_and_a_shell_are_fine() {
        for command in [
            &[][..],
            &["torchrun", "--nproc-per-node", "4"],
            &["python", "-m", "torchelastic.distributed.launch"],
            &["/bin/bash", "-c", "torchrun main.py"],
        ] {
            assert_eq!(warned(command), None, "{command:?}");
        }
    }
}
