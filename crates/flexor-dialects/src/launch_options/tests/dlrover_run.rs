//! What the options that only dlrover-run has mean here.

use super::{errors, launch, launch_with};
use crate::launch_options::{Nodes, Processes};

#[test]
fn a_world_is_a_multiple_of_the_node_unit() {
    assert_eq!(launch(&["--nnodes=2:8", "--node_unit=2"]).node_unit, 2);
    assert_eq!(
        errors(&["--nnodes=3", "--node-unit=2"], &[]),
        [
            "--node-unit: no multiple of 2 lies between the 3 and 3 nodes of --nnodes; choose a smaller unit, or more nodes"
        ]
    );
    assert_eq!(
        errors(&["--node_unit=0"], &[]),
        ["--node-unit: a world cannot be a multiple of 0 nodes; write a number from 1 on"]
    );
}

#[test]
fn auto_config_takes_the_nodes_of_the_job_and_the_gpus_of_the_machine() {
    let (options, warnings) = launch_with(&["--auto-config"], &[("NODE_NUM", "4")]);
    assert_eq!((options.nodes, options.processes), (Nodes { min: 4, max: 4 }, Processes::GpusOr(1)));
    assert_eq!(warnings, [""; 0]);
    let (options, warnings) =
        launch_with(&["--auto_config", "--nnodes=2", "--nproc-per-node=cpu"], &[("NODE_NUM", "4")]);
    assert_eq!(options.nodes, Nodes { min: 4, max: 4 });
    assert_eq!(warnings, ["--nnodes: --auto-config takes NODE_NUM instead, which is `4`"]);
    assert_eq!(launch(&["--auto-config", "--nnodes=1:2"]).nodes, Nodes { min: 1, max: 2 });
    assert_eq!(launch_with(&["--nnodes=2"], &[("NODE_NUM", "4")]).0.nodes, Nodes { min: 2, max: 2 });
}

#[test]
fn checks_tuning_and_checkpoints_in_memory_are_refused_with_the_reason() {
    let refused = |args: &[&str]| errors(args, &[]);
    let no_check = "machines are not checked before training; leave it out; a node that is lost or hangs is noticed and \
                    replaced while training";
    assert_eq!(refused(&["--network-check"]), [format!("--network-check: {no_check}")]);
    assert_eq!(refused(&["--precheck=1"]), [format!("--precheck: {no_check}")]);
    assert_eq!(refused(&["--comm_perf_test"]), [format!("--comm-perf-test: {no_check}")]);
    assert_eq!(refused(&["--exclude-straggler"]), [format!("--exclude-straggler: {no_check}")]);
    assert_eq!(errors(&[], &[("PET_NETWORK_CHECK", "1")]), [format!("PET_NETWORK_CHECK: {no_check}")]);
    assert!(refused(&["--auto_tunning"])[0].contains("batch size and learning rate are the program's own"));
    assert!(refused(&["--save_at_breakpoint"])[0].contains("no checkpoint is kept in memory"));
    assert!(refused(&["--accelerator=ascend-npu"])[0].contains("only NVIDIA's and Intel's"));
}

#[test]
fn what_asks_for_nothing_is_taken() {
    let (_, warnings) = launch_with(&["--precheck=0", "--accelerator=nvidia.com/gpu"], &[("PET_NETWORK_CHECK", "0")]);
    assert_eq!(warnings, [""; 0]);
    let (_, warnings) = launch_with(&["--numa-affinity", "--training_port=50000"], &[]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn the_backend_of_dlrovers_images_is_taken_as_c10d() {
    let (options, warnings) = launch_with(&["--rdzv_backend=dlrover-master", "--rdzv_endpoint=m:1"], &[]);
    assert_eq!(options.rendezvous, launch(&["--rdzv_backend=c10d", "--rdzv_endpoint=m:1"]).rendezvous);
    assert_eq!(warnings, ["--rdzv-backend: dlrover-master is taken as c10d: the nodes meet at the job's master"]);
}
