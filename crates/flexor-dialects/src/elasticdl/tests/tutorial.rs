//! The commands of the tutorial, as they stand there.

use flexor_model::{DnsLabel, IdRule, JobUid, NodeId, PodIdentity, Rank, RoleKind, RolePriority};

use super::parsed;
use crate::elasticdl::{Command, JobType};

const TRAIN: [&str; 27] = [
    "train",
    "--image_name=gcr.io/my-project/elasticdl:mnist",
    "--model_zoo=model_zoo",
    "--model_def=mnist_functional_api.mnist_functional_api.custom_model",
    "--training_data=/data/mnist/train",
    "--validation_data=/data/mnist/test",
    "--num_epochs=5",
    "--master_resource_request=cpu=2,memory=2048Mi",
    "--master_resource_limit=cpu=2,memory=2048Mi",
    "--master_pod_priority=high",
    "--worker_resource_request=cpu=2,memory=2048Mi",
    "--worker_resource_limit=cpu=2,memory=2048Mi",
    "--worker_pod_priority=low",
    "--ps_resource_request=cpu=2,memory=2048Mi",
    "--ps_resource_limit=cpu=2,memory=2048Mi",
    "--ps_pod_priority=high",
    "--minibatch_size=64",
    "--num_minibatches_per_task=64",
    "--num_ps_pods=2",
    "--num_workers=4",
    "--evaluation_steps=200",
    "--grads_to_wait=1",
    "--job_name=test-mnist",
    "--log_level=INFO",
    "--image_pull_policy=Always",
    "--volume=mount_path=/data,claim_name=fileserver-claim",
    "--distribution_strategy=ParameterServerStrategy",
];

#[test]
fn the_training_command_is_understood_without_a_warning() {
    let parsed = parsed(&TRAIN);
    assert_eq!(parsed.warnings, []);
    let Command::Train(options) = parsed.command else { panic!("{:?}", parsed.command) };
    assert_eq!(options.job_type(), JobType::TrainingWithEvaluation);
    assert_eq!((options.data.num_epochs, options.data.num_minibatches_per_task.get()), (5, 64));
}

#[test]
fn the_pods_have_the_names_of_the_listing() {
    let Command::Train(options) = parsed(&TRAIN).command else { panic!("not a training job") };
    let job = options.to_job();
    let namespace: DnsLabel = job.namespace.clone().expect("there is a default namespace");
    let replicas = job.roles.iter().map(|role| (role.name.clone(), role.size.initial())).collect();
    let uid = JobUid::from("u");
    let mut names = Vec::new();
    for role in &job.roles {
        for i in 0..role.size.initial() {
            let (id, rank) = (NodeId(i), Rank(i));
            let identity = PodIdentity {
                job: &job.name,
                namespace: &namespace,
                uid: &uid,
                role: &role.name,
                id,
                rank,
                relaunches: 0,
                replicas: &replicas,
            };
            names.push(role.naming.pod.fill(&identity));
        }
    }
    assert_eq!(
        names,
        [
            "elasticdl-test-mnist-master",
            "elasticdl-test-mnist-ps-0",
            "elasticdl-test-mnist-ps-1",
            "elasticdl-test-mnist-worker-0",
            "elasticdl-test-mnist-worker-1",
            "elasticdl-test-mnist-worker-2",
            "elasticdl-test-mnist-worker-3",
        ]
    );
    // A deleted worker comes back as worker-4, a server under its own name.
    assert_eq!(job.role(RoleKind::Worker).map(|role| role.naming.ids), Some(IdRule::Increasing));
    assert_eq!(job.role(RoleKind::ParameterServer).map(|role| role.naming.ids), Some(IdRule::Rank));
}

#[test]
fn workers_give_way_down_to_one_while_master_and_servers_stay() {
    let Command::Train(options) = parsed(&TRAIN).command else { panic!("not a training job") };
    let seen = Vec::from_iter(options.to_job().roles.into_iter().map(|role| {
        assert_eq!(role.size.automatically(), None);
        (role.size.allowed().to_string(), role.priority)
    }));
    let class = |name: &str| RolePriority::Class(name.to_owned());
    assert_eq!(
        seen,
        [("1".to_owned(), class("high")), ("2".to_owned(), class("high")), ("1..4".to_owned(), class("low"))]
    );
}

#[test]
fn the_zoo_commands_are_understood() {
    let Command::ZooInit(options) = parsed(&["zoo", "init"]).command else { panic!("not zoo init") };
    assert_eq!((options.base_image.as_str(), options.model_zoo.as_str()), ("python:3.6", "."));
    assert_eq!(
        parsed(&["zoo", "build", "--image=gcr.io/p/elasticdl:mnist", "."]).command,
        Command::ZooBuild { path: ".".into(), image: "gcr.io/p/elasticdl:mnist".into() }
    );
    assert_eq!(
        parsed(&["zoo", "push", "gcr.io/p/elasticdl:mnist"]).command,
        Command::ZooPush { image: "gcr.io/p/elasticdl:mnist".into() }
    );
}
