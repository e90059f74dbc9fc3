//! The pods that the renderer makes of every example and every published manifest, as an operator would create them.

use std::collections::BTreeMap;

use flexor_dialects::manifest::{self, Subject, Verdict};
use flexor_engine::Cause;
use flexor_engine::controller::DesiredPod;
use flexor_engine::render::{self, FlexorProgram, Owner, RenderContext, ServiceAddresses};
use flexor_model::{DnsLabel, Job, JobUid, NodeId, PodIdentity, Rank, Reason, Resources, Role, RoleName};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::manifest_files;

const FOLDERS: [&str; 2] = ["examples", "testdata/published"];

#[test]
fn every_job_is_rendered_to_pods_that_kubernetes_can_read() {
    let mut jobs = 0;
    for file in FOLDERS.iter().flat_map(|folder| manifest_files::below(folder)) {
        let mut rendered = String::new();
        for job in jobs_of(&file.bytes) {
            jobs += 1;
            for pod in pods(&job) {
                check(&pod, &file.path);
                rendered.push_str("---\n");
                rendered.push_str(&serde_saphyr::to_string(&pod).unwrap());
            }
        }
        if !rendered.is_empty() {
            let name = file.path.trim_end_matches(".yaml").replace('/', "-");
            insta::with_settings!({
                snapshot_path => "snapshots/rendered_pods",
                prepend_module_to_snapshot => false,
            }, { insta::assert_snapshot!(name, rendered) });
        }
    }
    assert!(jobs >= 20, "{jobs} jobs");
}

/// What the renderer wrote is what Kubernetes understands of it, field by field.
fn check(pod: &Value, path: &str) {
    let understood: Pod = serde_json::from_value(pod.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
    let spec = understood.spec.unwrap();
    assert_eq!(spec.restart_policy.as_deref(), Some("Never"), "{path}");
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let names: Vec<&str> = container.env.iter().flatten().map(|variable| variable.name.as_str()).collect();
        let of_template = names.iter().filter(|name| names.iter().filter(|other| other == name).count() > 1);
        assert_eq!(of_template.count(), 0, "{path}: a variable is set twice: {names:?}");
    }
}

fn jobs_of(bytes: &[u8]) -> Vec<Job> {
    let subjects = manifest::check(bytes).documents.into_iter().filter_map(|document| match document.verdict {
        Verdict::Accepted { subject, .. } => Some(*subject),
        Verdict::Skipped | Verdict::Refused { .. } => None,
    });
    subjects
        .filter_map(|subject| match subject {
            Subject::Job(job) => Some(job),
            Subject::Plan(_) => None,
        })
        .collect()
}

/// The pod of rank 0 of every role.
fn pods(job: &Job) -> Vec<Value> {
    let uid = JobUid::from("5f0c");
    let namespace: DnsLabel = job.namespace.clone().unwrap_or_else(|| "default".parse().unwrap());
    let addresses = ServiceAddresses { job, uid: &uid, namespace: &namespace };
    let context = RenderContext {
        job,
        uid: &uid,
        namespace: &namespace,
        owner: Owner { api_version: "the/v1", kind: "Owner", name: job.name.as_str(), uid: "5f0c" },
        flexor: FlexorProgram::Image("flexor:test"),
        addresses: &addresses,
        master_state: "/var/lib/flexor",
        error_file: &|_| "/dev/termination-log".to_owned(),
        token: None,
    };
    let replicas: BTreeMap<RoleName, u32> =
        job.roles.iter().map(|role| (role.name.clone(), role.size.initial())).collect();
    job.roles.iter().map(|role| render::pod(&context, role, &desired(&context, role, &replicas))).collect()
}

fn desired(context: &RenderContext<'_>, role: &Role, replicas: &BTreeMap<RoleName, u32>) -> DesiredPod {
    let identity = PodIdentity {
        job: &context.job.name,
        namespace: context.namespace,
        uid: context.uid,
        role: &role.name,
        id: NodeId(0),
        rank: Rank(0),
        relaunches: 0,
        replicas,
    };
    let labels = role.naming.labels.iter().map(|(key, pattern)| (key.clone(), pattern.fill(&identity)));
    DesiredPod {
        name: role.naming.pod.fill(&identity),
        role: role.name.clone(),
        id: NodeId(0),
        rank: Rank(0),
        relaunches: 0,
        labels: labels.collect(),
        replicas: replicas.clone(),
        resources: Resources::default(),
        is_limited: false,
        memory: None,
        place: None,
        cause: Cause::new(Reason::PodWanted, "the role has one replica"),
    }
}
