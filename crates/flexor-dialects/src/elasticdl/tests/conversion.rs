//! The neutral job that options become.

use std::time::Duration;

use flexor_model::{
    CriticalNodes, EnvRule, EnvValue, FailureBudget, NamedPort, PrioritySplit, Program, Role, RoleKind, RolePriority,
    Rounding, ServiceRule, ServiceScope, Sizing, SplitOrder, Strategy,
};
use serde_json::json;

use super::train;

fn role(more: &[&str], kind: RoleKind) -> Role {
    train(more).0.to_job().role(kind).cloned().unwrap_or_else(|| panic!("{more:?} gives no {kind:?}"))
}

fn roles(more: &[&str]) -> Vec<(String, u32)> {
    train(more).0.to_job().roles.iter().map(|role| (role.name.to_string(), role.size.initial())).collect()
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
    let resources = |more: &str, kind| {
        let template = role(&[more], kind).template;
        (template.main().requests().to_string(), template.main().limits().to_string())
    };
    assert_eq!(
        resources("--worker_resource_request=cpu=2,memory=1Gi", RoleKind::Worker),
        ("cpu=2 memory=1Gi".into(), "cpu=2 memory=1Gi".into())
    );
    assert_eq!(
        resources("--ps_resource_limit=cpu=4,memory=8Gi", RoleKind::ParameterServer),
        ("cpu=1 memory=4Gi".into(), "cpu=4 memory=8Gi".into())
    );
}

/// Name, scope, selector and ports of a service, for reading.
fn shown(service: &ServiceRule) -> (String, ServiceScope, String, &[NamedPort]) {
    (service.name.to_string(), service.scope, service.selector.join(" "), &service.ports)
}

fn labels(role: &Role) -> Vec<String> {
    role.naming.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

const INDEXED: &str = "app elasticdl-job-name elasticdl-replica-type elasticdl-replica-index";

#[test]
fn pods_services_and_labels_have_elasticdls_names() {
    let ps = role(&[], RoleKind::ParameterServer);
    let port = [NamedPort::of("grpc", 2222)];
    assert_eq!(
        ps.service.as_ref().map(shown),
        Some(("elasticdl-{job}-ps-{rank}".into(), ServiceScope::Rank, INDEXED.into(), &port[..]))
    );
    assert_eq!(ps.ports, port);
    assert_eq!(
        labels(&ps),
        ["app=elasticdl", "elasticdl-job-name={job}", "elasticdl-replica-index={id}", "elasticdl-replica-type={role}"]
    );
    let worker = role(&[], RoleKind::Worker);
    let port = [NamedPort::of("grpc", 3333)];
    assert_eq!(
        worker.service.as_ref().map(shown),
        Some(("elasticdl-{job}-worker-{id}".into(), ServiceScope::Pod, INDEXED.into(), &port[..]))
    );
    assert_eq!(labels(&worker), labels(&ps));
}

#[test]
fn the_master_has_no_service_but_the_ports_of_flexors_own() {
    let master = role(&[], RoleKind::Master);
    assert_eq!((master.naming.pod.to_string().as_str(), &master.service), ("elasticdl-{job}-master", &None));
    assert_eq!(
        master.ports,
        [NamedPort::of("grpc", 50001), NamedPort::of("store", 29400), NamedPort::of("http", 8080)]
    );
    assert_eq!(master.env, [EnvRule::pod_field("MY_POD_IP", "status.podIP")]);
}

#[test]
fn tf_config_gives_workers_addresses_that_stay() {
    let worker = role(&["--need_tf_config"], RoleKind::Worker);
    let port = [NamedPort::of("grpc", 3333)];
    let selector = "app elasticdl-job-name elasticdl-replica-type flexor.dev/rank";
    assert_eq!(
        worker.service.as_ref().map(shown),
        Some(("elasticdl-{job}-worker-{rank}".into(), ServiceScope::Rank, selector.into(), &port[..]))
    );
    assert!(labels(&worker).contains(&"flexor.dev/rank={rank}".to_owned()));
    assert_eq!(worker.env[0].value, EnvValue::TfConfig);
}

#[test]
fn master_and_servers_are_flexors_programs_and_workers_the_users() {
    let programs = Vec::from_iter(train(&[]).0.to_job().roles.into_iter().map(|role| role.program));
    assert_eq!(programs, [Program::FlexorMaster, Program::FlexorPs, Program::Foreign]);
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
            "--worker_resource_request=cpu=1",
            r#"--cluster_spec_json={"pod_spec": {"labels": {"team": "a"}}, "worker_pod_spec": {"env": [{"name": "C", "value": "3"}, {"name": "B", "value": "y"}]}}"#,
        ],
        RoleKind::Worker,
    );
    assert_eq!(
        *worker.template.json(),
        json!({
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "containers": [{
                    "name": "worker",
                    "image": "w:1",
                    "imagePullPolicy": "Never",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                    "env": [
                        {"name": "A", "value": "1,2"}, {"name": "C", "value": "3"}, {"name": "B", "value": "y"},
                    ],
                    "volumeMounts": [
                        {"name": "worker-volume-0", "mountPath": "/a"},
                        {"name": "worker-volume-0", "mountPath": "/b", "subPath": "s"},
                        {"name": "worker-volume-1", "mountPath": "/h"},
                    ],
                }],
                "restartPolicy": "Never",
                "volumes": [
                    {"name": "worker-volume-0", "persistentVolumeClaim": {"claimName": "c", "readOnly": false}},
                    {"name": "worker-volume-1", "hostPath": {"path": "/h"}},
                ],
                "terminationGracePeriodSeconds": 1,
            },
        })
    );
    let main = worker.template.main();
    assert_eq!((main.name(), main.image(), main.env("B")), ("worker", Some("w:1"), Some("y")));
    assert!(main.command().is_empty() && main.args().is_empty());
    assert_eq!(worker.template.grace(), Some(Duration::from_secs(1)));
    assert_eq!(role(&["--image_name=i:1"], RoleKind::ParameterServer).template.main().image(), Some("i:1"));
    assert_eq!(role(&[], RoleKind::ParameterServer).template.main().image(), None);
}

#[test]
fn priorities_are_classes_or_shares() {
    assert_eq!(role(&["--master_pod_priority=high"], RoleKind::Master).priority, RolePriority::Class("high".into()));
    assert_eq!(role(&[], RoleKind::ParameterServer).priority, RolePriority::FromTemplate);
    let split =
        |text: &str| role(&["--num_workers=5", &format!("--worker_pod_priority={text}")], RoleKind::Worker).priority;
    let down = PrioritySplit { share: 0.5, rounding: Rounding::Down, order: SplitOrder::First, before: 0 };
    let up = PrioritySplit { rounding: Rounding::Up, order: SplitOrder::BothEnds, ..down };
    assert_eq!((split("high=0.5"), split("0.5")), (RolePriority::Split(down), RolePriority::Split(up)));
}

#[test]
fn failures_of_the_program_are_forgiven_as_often_as_the_options_say() {
    let limits = |more: &[&str]| {
        let job = train(more).0.to_job();
        Vec::from_iter(job.roles.iter().map(|role| role.failures))
    };
    assert_eq!(limits(&[]), [0, 1, 1].map(FailureBudget::PerNode));
    let more = ["--relaunch_on_worker_failure=3", "--ps_relaunch_max_num=2"];
    assert_eq!(limits(&more), [0, 2, 3].map(FailureBudget::PerNode));
    assert_eq!(limits(&["--aux_params=disable_relaunch=True"]), [0, 0, 0].map(FailureBudget::PerNode));
}

#[test]
fn a_job_survives_its_servers_where_the_options_say_so() {
    assert_eq!(role(&["--ps_is_critical=true"], RoleKind::ParameterServer).critical, CriticalNodes::Usual);
    assert_eq!(role(&["--ps_is_critical=false"], RoleKind::ParameterServer).critical, CriticalNodes::None);
    assert_eq!(role(&["--ps_is_critical=false"], RoleKind::Worker).critical, CriticalNodes::Usual);
}
