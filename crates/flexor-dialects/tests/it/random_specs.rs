//! Random manifests that keep every rule.

use std::collections::BTreeMap;

use flexor_dialects::{
    CheckpointOptions, Container, EnvVar, FlexorOptions, PodSpec, PodTemplate, ResourceList, ResourceRequirements,
    WireQuantity, dlrover, edl, torchelastic,
};
use proptest::{option, prelude::*};
use serde_json::{Map, Value, json};

fn label(longest: usize) -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,60}[a-z0-9]"
        .prop_map(move |text| text.chars().take(longest).collect::<String>().trim_end_matches('-').to_owned())
}

/// Any text that YAML can hold at all.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,30}",
        prop::sample::select(vec![
            "yes",
            "n",
            "null",
            "~",
            "1",
            "0x1",
            "1e3",
            "- a",
            "a: b",
            "#",
            "",
            " x ",
            "é\u{1F600}",
            "|",
            "'",
            "\""
        ])
        .prop_map(str::to_owned),
        "(\\PC|\n){0,20}",
    ]
}

fn quantity() -> impl Strategy<Value = WireQuantity> {
    prop_oneof![
        "[0-9]{1,6}(\\.[0-9]{1,3})?(m|k|M|G|Ki|Mi|Gi|e2)?".prop_map(WireQuantity::from),
        (0..100_000_u32).prop_map(|n| WireQuantity(n.into())),
        (0..1000_u32).prop_map(|n| WireQuantity(json!(f64::from(n) / 8.0))),
    ]
}

fn resource_list() -> impl Strategy<Value = ResourceList> {
    let name = prop::sample::select(vec!["cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "example.com/x"]);
    prop::collection::btree_map(name.prop_map(str::to_owned), quantity(), 0..4)
}

fn resources() -> impl Strategy<Value = ResourceRequirements> {
    (option::of(resource_list()), option::of(resource_list())).prop_map(|(limits, requests)| ResourceRequirements {
        limits,
        requests,
        rest: Map::new(),
    })
}

/// Fields that nothing of ours knows. Keys do not clash with those that are read.
fn unknown_fields() -> impl Strategy<Value = Map<String, Value>> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    let value = leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..3)
                .prop_map(|fields| fields.into_iter().collect::<Map<_, _>>().into()),
        ]
    });
    prop::collection::btree_map("x[A-Z][a-z]{1,8}", value, 0..3).prop_map(|fields| fields.into_iter().collect())
}

fn env_var() -> impl Strategy<Value = EnvVar> {
    (text().prop_filter("a name", |name| !name.is_empty()), option::of(text())).prop_map(|(name, value)| EnvVar {
        name,
        value,
        rest: Map::new(),
    })
}

fn container(name: String) -> impl Strategy<Value = Container> {
    (
        option::of(text()),
        option::of(prop::collection::vec(text(), 0..4)),
        option::of(prop::collection::vec(text(), 0..4)),
        option::of(prop::collection::vec(env_var(), 0..3)),
        option::of(resources()),
        unknown_fields(),
    )
        .prop_map(move |(image, command, args, env, resources, rest)| Container {
            name: name.clone(),
            image,
            command,
            args,
            env,
            resources,
            rest,
        })
}

fn template() -> impl Strategy<Value = PodTemplate> {
    let containers = prop_oneof![
        container("main".to_owned()).prop_map(|main| vec![main]),
        (container("side".to_owned()), container("main".to_owned())).prop_map(|(side, main)| vec![side, main]),
    ];
    (containers, option::of(0..1000_i64), option::of(label(20)), unknown_fields(), unknown_fields()).prop_map(
        |(containers, grace, priority, in_spec, outside)| PodTemplate {
            spec: PodSpec {
                containers,
                restart_policy: None,
                priority_class_name: priority,
                termination_grace_period_seconds: grace,
                rest: in_spec,
            },
            rest: outside,
        },
    )
}

fn replica() -> impl Strategy<Value = dlrover::ReplicaSpec> {
    let critical = prop::sample::select(vec!["all", "none", "0:3", "0:1,2:5", ""]).prop_map(str::to_owned);
    let unused = (option::of(text()), option::of(any::<i32>()), option::of(text()), option::of(critical));
    (
        option::of(0..100_000_i32),
        template(),
        option::of(0..20_i32),
        option::of(any::<bool>()),
        option::of(prop::sample::select(vec!["high", "low", "0.5", "1", ".25", ""]).prop_map(str::to_owned)),
        unused,
    )
        .prop_map(|(replicas, template, restart_count, auto_scale, priority, unused)| {
            let (restart_policy, restart_timeout, batch_scheduler, critical_nodes) = unused;
            dlrover::ReplicaSpec {
                replicas,
                template: Some(template),
                restart_policy,
                restart_count,
                auto_scale,
                restart_timeout,
                priority,
                batch_scheduler,
                critical_nodes,
            }
        })
}

/// A DLRover job.
fn checkpoints() -> impl Strategy<Value = CheckpointOptions> {
    (text().prop_filter("a folder has a name", |text| !text.is_empty()), option::of(1..100_i32), option::of(0..9_i32))
        .prop_map(|(folder, every_seconds, keep)| CheckpointOptions { folder, every_seconds, keep })
}

pub fn dlrover_job() -> impl Strategy<Value = dlrover::ElasticJob> {
    let envs = prop::collection::btree_map("[A-Z]{1,6}", env_var(), 0..3);
    let roles =
        prop::sample::subsequence(vec!["ps", "worker", "chief", "evaluator", "reader", "dlrover-master"], 0..=6)
            .prop_flat_map(|names| {
                let names: Vec<&str> = names.into_iter().chain(["worker"]).collect();
                let specs = prop::collection::vec(replica(), names.len());
                specs.prop_map(move |specs| {
                    names
                        .iter()
                        .map(|&name| name.to_owned())
                        .zip(specs)
                        .collect::<BTreeMap<String, dlrover::ReplicaSpec>>()
                })
            });
    let strategy = prop::sample::select(vec![
        dlrover::DistributionStrategy::ParameterServer,
        dlrover::DistributionStrategy::Allreduce,
        dlrover::DistributionStrategy::Custom,
        dlrover::DistributionStrategy::Local,
    ]);
    (
        label(37),
        roles,
        option::of(strategy),
        option::of(resource_list()),
        option::of(prop::sample::select(vec![
            dlrover::OptimizeMode::Manual,
            dlrover::OptimizeMode::SingleJob,
            dlrover::OptimizeMode::Cluster,
        ])),
        option::of(any::<bool>()),
        option::of(
            (option::of(1..=2_i32), option::of(checkpoints()))
                .prop_map(|(ps_replication_factor, checkpoints)| FlexorOptions { ps_replication_factor, checkpoints }),
        ),
        (option::of(text()), option::of(any::<bool>()), option::of(any::<bool>()), option::of(envs)),
    )
        .prop_map(
            |(
                name,
                mut replica_specs,
                distribution_strategy,
                resource_limits,
                optimize_mode,
                suspend,
                flexor,
                more,
            )| {
                let (brain_service, enable_elastic_scheduling, enable_dynamic_sharding, envs) = more;
                // Those that may borrow the worker's template sometimes do.
                if let Some(chief) = replica_specs.get_mut("chief").filter(|_| suspend == Some(true)) {
                    chief.template = None;
                }
                let spec = dlrover::ElasticJobSpec {
                    distribution_strategy,
                    resource_limits,
                    optimize_mode,
                    brain_service,
                    enable_elastic_scheduling,
                    enable_dynamic_sharding,
                    replica_specs,
                    envs,
                    suspend,
                    flexor,
                };
                dlrover::ElasticJob::new(&name, spec)
            },
        )
}

/// A DLRover plan.
pub fn scale_plan() -> impl Strategy<Value = dlrover::ScalePlan> {
    let numbers = (option::of(0..9_i32), option::of(0..9_i32));
    let pod = (label(60), numbers, option::of(text()), option::of(resource_list()))
        .prop_map(|(name, (id, rank_index), service, resource)| dlrover::PodMeta {
            name: Some(name),
            id,
            type_: Some("ps".to_owned()),
            rank_index,
            service,
            resource,
        })
        .boxed();
    let change = (option::of(0..100_i32), option::of(resource_list()))
        .prop_map(|(replicas, resource)| dlrover::ReplicaResourceSpec { replicas, resource });
    let pods = || option::of(prop::collection::vec(pod.clone(), 0..3));
    (
        label(40),
        label(37),
        option::of(prop::collection::btree_map(label(9), change, 0..3)),
        pods(),
        pods(),
        pods(),
        option::of(prop::collection::vec(text(), 0..3)),
    )
        .prop_map(|(name, owner_job, replica_resource_specs, create_pods, remove_pods, migrate_pods, ps_hosts)| {
            let mut plan = dlrover::ScalePlan::new(
                &name,
                dlrover::ScalePlanSpec {
                    owner_job,
                    replica_resource_specs,
                    create_pods,
                    remove_pods,
                    migrate_pods,
                    ps_hosts,
                },
            );
            // People name no pods to create or remove.
            plan.metadata.labels = Some([("scale-type".to_owned(), "auto".to_owned())].into());
            plan
        })
}

/// A TorchElastic job.
pub fn torchelastic_job() -> impl Strategy<Value = torchelastic::ElasticJob> {
    let sizes = (1..50_i32, 0..50_i32, 0..50_i32).prop_map(|(min, more, still)| (min, min + more, min + more + still));
    let policy = prop::sample::select(vec![
        torchelastic::RestartPolicy::Always,
        torchelastic::RestartPolicy::OnFailure,
        torchelastic::RestartPolicy::Never,
        torchelastic::RestartPolicy::ExitCode,
    ]);
    let clean = prop::sample::select(vec![
        torchelastic::CleanPodPolicy::All,
        torchelastic::CleanPodPolicy::Running,
        torchelastic::CleanPodPolicy::None,
    ]);
    let scheduling =
        option::of(any::<i32>()).prop_map(|min_available| torchelastic::SchedulingPolicy { min_available });
    (
        label(50),
        sizes,
        any::<(bool, bool)>(),
        template(),
        option::of(policy),
        option::of(clean),
        option::of("[a-z]{1,9}:[0-9]{4}"),
        (option::of(0..9_i32), option::of(1..99_i64), option::of(0..9_i32), option::of(scheduling)),
    )
        .prop_map(
            |(name, (min, replicas, max), (has_min, has_max), template, restart_policy, clean, endpoint, more)| {
                let (ttl_seconds_after_finished, active_deadline_seconds, backoff_limit, scheduling_policy) = more;
                // Without a number there is one worker, so the bounds must be around 1.
                let alone = replicas == 1 && ttl_seconds_after_finished.is_some();
                let spec = torchelastic::ElasticJobSpec {
                    rdzv_endpoint: endpoint,
                    min_replicas: has_min.then_some(min),
                    max_replicas: has_max.then_some(max),
                    replica_specs: torchelastic::ReplicaSpecs {
                        worker: torchelastic::WorkerSpec {
                            replicas: (!alone).then_some(replicas),
                            restart_policy,
                            template,
                        },
                    },
                    clean_pod_policy: clean,
                    ttl_seconds_after_finished,
                    active_deadline_seconds,
                    backoff_limit,
                    scheduling_policy,
                    flexor: None,
                };
                torchelastic::ElasticJob::new(&name, spec)
            },
        )
}

/// Something of Kubernetes' that a job only passes on.
fn passed_on() -> impl Strategy<Value = Value> {
    unknown_fields().prop_map(Value::Object)
}

fn trainer() -> impl Strategy<Value = edl::TrainerSpec> {
    let numbers = (1..50_i32, 0..50_i32, option::of(1..9_i32));
    let words = (option::of(text()), option::of(text()), option::of(text()));
    (numbers, words, option::of(resources()), option::of(passed_on())).prop_map(
        |(numbers, words, resources, replica_spec)| {
            let (min_instance, more, passes) = numbers;
            let (entrypoint, workspace, etcd_endpoint) = words;
            edl::TrainerSpec {
                entrypoint,
                workspace,
                min_instance,
                max_instance: min_instance + more,
                resources,
                passes,
                etcd_endpoint,
                replica_spec,
            }
        },
    )
}

/// An EDL job.
pub fn training_job() -> impl Strategy<Value = edl::TrainingJob> {
    let pserver = (1..9_i32, 0..9_i32, option::of(resources()), option::of(passed_on())).prop_map(
        |(min_instance, more, resources, replica_spec)| edl::PserverSpec {
            min_instance,
            max_instance: min_instance + more,
            resources,
            replica_spec,
        },
    );
    let master = (option::of(text()), option::of(resources()), option::of(passed_on())).prop_map(
        |(etcd_endpoint, resources, replica_spec)| edl::MasterSpec { etcd_endpoint, resources, replica_spec },
    );
    let volumes = || option::of(label(10).prop_map(|name| vec![json!({"name": name, "emptyDir": {}})]));
    let mounts = option::of(label(10).prop_map(|name| vec![json!({"name": name, "mountPath": "/data"})]));
    let secrets = option::of(label(10).prop_map(|name| vec![json!({ "name": name })]));
    (
        label(49),
        (trainer(), option::of(pserver), option::of(master)),
        option::of(text()),
        (option::of(1..60_000_i32), option::of(0..9_i32), option::of(0..9_i32), option::of(1..9_i32)),
        (volumes(), volumes(), mounts, secrets),
        any::<(Option<bool>, Option<bool>, Option<bool>)>(),
    )
        .prop_map(|(name, (trainer, pserver, master), image, numbers, lists, switches)| {
            let (port, ports_num, ports_num_for_sparse, passes) = numbers;
            let (volumes, volumes_2017, volume_mounts, image_pull_secrets) = lists;
            let (fault_tolerant, host_network, host_network_2017) = switches;
            let elastic = trainer.min_instance < trainer.max_instance;
            let spec = edl::TrainingJobSpec {
                image,
                port,
                ports_num,
                ports_num_for_sparse,
                fault_tolerant: if elastic { Some(true) } else { fault_tolerant },
                passes,
                volumes,
                volumes_2017,
                volume_mounts,
                image_pull_secrets,
                host_network,
                host_network_2017,
                trainer,
                pserver,
                master,
                flexor: None,
            };
            edl::TrainingJob::new(&name, spec)
        })
}
