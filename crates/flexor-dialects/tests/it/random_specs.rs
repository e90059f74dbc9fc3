//! Random manifests that keep every rule.

use std::collections::BTreeMap;

use flexor_dialects::{
    Container, EnvVar, FlexorOptions, PodSpec, PodTemplate, ResourceList, ResourceRequirements, WireQuantity, dlrover,
    edl, torchelastic,
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

fn container(name: String) -> impl Strategy<Value = Container> {
    let env = (text().prop_filter("a name", |name| !name.is_empty()), option::of(text()))
        .prop_map(|(name, value)| EnvVar { name, value, rest: Map::new() });
    (
        option::of(text()),
        option::of(prop::collection::vec(text(), 0..4)),
        option::of(prop::collection::vec(text(), 0..4)),
        option::of(prop::collection::vec(env, 0..3)),
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
    (
        option::of(0..100_000_i32),
        template(),
        option::of(0..20_i32),
        option::of(any::<bool>()),
        option::of(prop::sample::select(vec!["high", "low", "0.5", "1", ".25", ""]).prop_map(str::to_owned)),
        option::of(text()),
    )
        .prop_map(|(replicas, template, restart_count, auto_scale, priority, batch_scheduler)| {
            dlrover::ReplicaSpec {
                replicas,
                template: Some(template),
                restart_count,
                auto_scale,
                priority,
                batch_scheduler,
                ..dlrover::ReplicaSpec::default()
            }
        })
}

/// A DLRover job.
pub fn dlrover_job() -> impl Strategy<Value = dlrover::ElasticJob> {
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
    let strategy =
        prop::sample::select(vec!["ParameterServerStrategy", "AllreduceStrategy", "CustomStrategy", "Local"]);
    (
        label(37),
        roles,
        option::of(strategy.prop_map(str::to_owned)),
        option::of(resource_list()),
        option::of(prop::sample::select(vec!["manual", "single-job", "cluster"]).prop_map(str::to_owned)),
        option::of(any::<bool>()),
        option::of(Just(FlexorOptions::default())),
    )
        .prop_map(
            |(name, replica_specs, distribution_strategy, resource_limits, optimize_mode, suspend, flexor)| {
                dlrover::ElasticJob::new(
                    &name,
                    dlrover::ElasticJobSpec {
                        distribution_strategy,
                        resource_limits,
                        optimize_mode,
                        replica_specs,
                        suspend,
                        flexor,
                        ..dlrover::ElasticJobSpec::default()
                    },
                )
            },
        )
}

/// A DLRover plan.
pub fn scale_plan() -> impl Strategy<Value = dlrover::ScalePlan> {
    let pod = (label(60), option::of(0..9_i32), option::of(resource_list()))
        .prop_map(|(name, id, resource)| dlrover::PodMeta {
            name: Some(name),
            id,
            type_: Some("ps".to_owned()),
            resource,
            ..dlrover::PodMeta::default()
        })
        .boxed();
    let change = (option::of(0..100_i32), option::of(resource_list()))
        .prop_map(|(replicas, resource)| dlrover::ReplicaResourceSpec { replicas, resource });
    let pods = || option::of(prop::collection::vec(pod.clone(), 0..3));
    (label(40), label(37), option::of(prop::collection::btree_map(label(9), change, 0..3)), pods(), pods(), pods())
        .prop_map(|(name, owner_job, replica_resource_specs, create_pods, remove_pods, migrate_pods)| {
            dlrover::ScalePlan::new(
                &name,
                dlrover::ScalePlanSpec {
                    owner_job,
                    replica_resource_specs,
                    create_pods,
                    remove_pods,
                    migrate_pods,
                    ps_hosts: None,
                },
            )
        })
}

/// A TorchElastic job.
pub fn torchelastic_job() -> impl Strategy<Value = torchelastic::ElasticJob> {
    let sizes = (1..50_i32, 0..50_i32, 0..50_i32).prop_map(|(min, more, still)| (min, min + more, min + more + still));
    let policy = prop::sample::select(vec!["Always", "OnFailure", "Never", "ExitCode"]).prop_map(str::to_owned);
    let clean = prop::sample::select(vec!["All", "Running", "None"]).prop_map(str::to_owned);
    (
        label(50),
        sizes,
        any::<(bool, bool)>(),
        template(),
        option::of(policy),
        option::of(clean),
        option::of("[a-z]{1,9}:[0-9]{4}"),
        (option::of(0..9_i32), option::of(1..99_i64), option::of(0..9_i32)),
    )
        .prop_map(
            |(name, (min, replicas, max), (has_min, has_max), template, restart_policy, clean, endpoint, limits)| {
                let (ttl_seconds_after_finished, active_deadline_seconds, backoff_limit) = limits;
                torchelastic::ElasticJob::new(
                    &name,
                    torchelastic::ElasticJobSpec {
                        rdzv_endpoint: endpoint,
                        min_replicas: has_min.then_some(min),
                        max_replicas: has_max.then_some(max),
                        replica_specs: torchelastic::ReplicaSpecs {
                            worker: torchelastic::WorkerSpec { replicas: Some(replicas), restart_policy, template },
                        },
                        clean_pod_policy: clean,
                        ttl_seconds_after_finished,
                        active_deadline_seconds,
                        backoff_limit,
                        ..torchelastic::ElasticJobSpec::default()
                    },
                )
            },
        )
}

/// An EDL job.
pub fn training_job() -> impl Strategy<Value = edl::TrainingJob> {
    let trainer = (1..50_i32, 0..50_i32, option::of(resources()), option::of(text())).prop_map(
        |(min_instance, more, resources, entrypoint)| edl::TrainerSpec {
            entrypoint,
            min_instance,
            max_instance: min_instance + more,
            resources,
            ..edl::TrainerSpec::default()
        },
    );
    let pserver = (1..9_i32, 0..9_i32, option::of(resources())).prop_map(|(min_instance, more, resources)| {
        edl::PserverSpec { min_instance, max_instance: min_instance + more, resources, replica_spec: None }
    });
    let master = option::of(resources()).prop_map(|resources| edl::MasterSpec {
        etcd_endpoint: None,
        resources,
        replica_spec: None,
    });
    (
        label(49),
        trainer,
        option::of(pserver),
        option::of(master),
        option::of(text()),
        option::of(1..60_000_i32),
        option::of(0..9_i32),
        option::of(1..9_i32),
        option::of(any::<bool>()),
    )
        .prop_map(|(name, trainer, pserver, master, image, port, ports_num, passes, fault_tolerant)| {
            let elastic = trainer.min_instance < trainer.max_instance;
            edl::TrainingJob::new(
                &name,
                edl::TrainingJobSpec {
                    image,
                    port,
                    ports_num,
                    passes,
                    fault_tolerant: if elastic { Some(true) } else { fault_tolerant },
                    trainer,
                    pserver,
                    master,
                    ..edl::TrainingJobSpec::default()
                },
            )
        })
}
