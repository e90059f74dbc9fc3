//! The neutral job that options become.

use flexor_model::{EnvValue, PrioritySplit, Role, RoleKind, RolePriority, ServiceScope, Sizing, SplitOrder, Strategy};
use serde_json::json;

use super::train;

fn role(more: &[&str], kind: RoleKind) -> Role {
    train(more).0.to_job().role(kind).cloned().unwrap_or_else(|| panic!("{more:?} gives no {kind:?}"))
}

fn roles(more: &[&str]) -> Vec<(String, u32)> {
    train(more).0.to_job().roles.iter().map(|role| (role.name.to_string(), role.replicas)).collect()
}

#[test]
fn each_strategy_has_its_roles_in_the_order_in_which_they_start() {
    let named = |roles: &[(&str, u32)]| Vec::from_iter(roles.iter().map(|(name, n)| ((*name).to_owned(), *n)));
    assert_eq!(roles(&[]), named(&[("master", 1), ("ps", 1), ("worker", 2)]));
    assert_eq!(roles(&["--distribution_strategy=AllreduceStrategy"]), named(&[("master", 1), ("worker", 2)]));
    assert_eq!(roles(&["--distribution_strategy=Local"]), named(&[("worker", 1)]));
    let custom = ["--distribution_strategy=CustomStrategy", "--num_ps_pods=0"];
    assert_eq!(roles(&custom), named(&[("master", 1), ("worker", 2)]));
    let job = train(&custom).0.to_job();
    assert_eq!((job.strategy, job.sizing, job.dialect.as_str()), (Strategy::Custom, Sizing::Manual, "elasticdl"));
}

#[test]
fn limits_are_the_requests_unless_given() {
    let worker = role(&["--worker_resource_request=cpu=2,memory=1Gi"], RoleKind::Worker);
    assert_eq!((worker.requests.to_string(), &worker.limits), ("cpu=2 memory=1Gi".to_owned(), &worker.requests));
    let ps = role(&["--ps_resource_limit=cpu=4,memory=8Gi"], RoleKind::ParameterServer);
    assert_eq!(
        (ps.requests.to_string(), ps.limits.to_string()),
        ("cpu=1 memory=4Gi".into(), "cpu=4 memory=8Gi".into())
    );
}

#[test]
fn addresses_labels_and_variables_are_elasticdls() {
    let naming = role(&[], RoleKind::ParameterServer).naming;
    let service = naming.service.unwrap();
    assert_eq!((service.name.to_string().as_str(), service.port), ("elasticdl-{job}-ps-{rank}", Some(2222)));
    assert_eq!(service.scope, ServiceScope::Rank);
    assert_eq!(
        Vec::from_iter(naming.labels.iter().map(|(key, value)| format!("{key}={value}"))),
        ["app=elasticdl", "elasticdl-job-name={job}", "elasticdl-replica-index={id}", "elasticdl-replica-type={role}"]
    );
    let worker = role(&[], RoleKind::Worker).naming;
    assert_eq!(
        worker.service.map(|service| (service.name.to_string(), service.port)),
        Some(("elasticdl-{job}-worker-{id}".into(), Some(3333)))
    );
    let master = role(&[], RoleKind::Master).naming;
    assert_eq!(master.pod.to_string(), "elasticdl-{job}-master");
    assert_eq!(
        (master.env[0].name.as_str(), &master.env[0].value),
        ("MY_POD_IP", &EnvValue::PodField("status.podIP".into()))
    );
}

#[test]
fn tf_config_gives_workers_addresses_that_stay() {
    let naming = role(&["--need_tf_config"], RoleKind::Worker).naming;
    assert_eq!(naming.service.unwrap().name.to_string(), "elasticdl-{job}-worker-{rank}");
    assert_eq!(naming.env[0].value, EnvValue::TfConfig);
}

#[test]
fn a_pod_has_what_the_options_say() {
    let worker = role(
        &[
            "--image_name=i:1",
            "--worker_image=w:1",
            "--envs=A=1,2,B=x",
            "--volume=claim_name=c,mount_path=/a;claim_name=c,mount_path=/b,sub_path=s;host_path=/h,mount_path=/h",
            "--image_pull_policy=Never",
            "--restart_policy=OnFailure",
            "--worker_resource_request=cpu=1",
            r#"--cluster_spec_json={"pod_spec": {"labels": {"team": "a"}}, "worker_pod_spec": {"env": [{"name": "C", "value": "3"}]}}"#,
        ],
        RoleKind::Worker,
    );
    assert_eq!(
        worker.template.json,
        json!({
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "containers": [{
                    "name": "worker",
                    "image": "w:1",
                    "imagePullPolicy": "Never",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                    "env": [
                        {"name": "A", "value": "1,2"}, {"name": "B", "value": "x"}, {"name": "C", "value": "3"},
                    ],
                    "volumeMounts": [
                        {"name": "worker-volume-0", "mountPath": "/a"},
                        {"name": "worker-volume-0", "mountPath": "/b", "subPath": "s"},
                        {"name": "worker-volume-1", "mountPath": "/h"},
                    ],
                }],
                "restartPolicy": "OnFailure",
                "volumes": [
                    {"name": "worker-volume-0", "persistentVolumeClaim": {"claimName": "c", "readOnly": false}},
                    {"name": "worker-volume-1", "hostPath": {"path": "/h"}},
                ],
                "terminationGracePeriodSeconds": 1,
            },
        })
    );
    let main = &worker.template.main;
    assert_eq!((main.index, main.name.as_str(), main.image.as_str(), main.env.len()), (0, "worker", "w:1", 3));
    assert!(main.command.is_empty() && main.args.is_empty());
    assert_eq!(worker.template.grace_seconds, Some(1));
    assert_eq!(role(&["--image_name=i:1"], RoleKind::ParameterServer).template.main.image, "i:1");
}

#[test]
fn priorities_are_classes_or_shares() {
    assert_eq!(role(&["--master_pod_priority=high"], RoleKind::Master).priority, RolePriority::Class("high".into()));
    assert_eq!(role(&[], RoleKind::ParameterServer).priority, RolePriority::FromTemplate);
    let split =
        |text: &str| role(&["--num_workers=5", &format!("--worker_pod_priority={text}")], RoleKind::Worker).priority;
    assert_eq!(split("high=0.5"), RolePriority::Split(PrioritySplit { high: 2, order: SplitOrder::First }));
    assert_eq!(split("0.5"), RolePriority::Split(PrioritySplit { high: 3, order: SplitOrder::BothEnds }));
}

#[test]
fn failures_of_the_program_are_forgiven_as_often_as_the_options_say() {
    let limits = |more: &[&str]| {
        let job = train(more).0.to_job();
        Vec::from_iter(job.roles.iter().map(|role| role.restart_limit))
    };
    assert_eq!(limits(&[]), [0, 1, 1]);
    assert_eq!(limits(&["--relaunch_on_worker_failure=3", "--ps_relaunch_max_num=2"]), [0, 2, 3]);
    assert_eq!(limits(&["--aux_params=disable_relaunch=True"]), [0, 0, 0]);
}
