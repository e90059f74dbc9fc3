//! The options that `dlrover-run` adds to torchrun's. Those that mean the same here are taken; those that ask for a
//! service that does not exist here are refused, because training without it is not what was asked for.

use crate::launch_options::OptionSpec;

const NO_CHECK: &str = "machines are not checked before training";
const LEAVE_OUT: &str = "leave it out; a node that is lost or hangs is noticed and replaced while training";

pub(in crate::launch_options) const NODE_UNIT: OptionSpec =
    OptionSpec::integer("--node-unit", "N", "1", "The size of the world is a multiple of this").of_dlrover_run();

pub(in crate::launch_options) const AUTO_CONFIG: OptionSpec =
    OptionSpec::flag("--auto-config", "As many nodes as NODE_NUM says, and a process for each GPU where there are any")
        .of_dlrover_run();

const PRECHECK: OptionSpec =
    OptionSpec::choice("--precheck", &["0", "1", "2"], "0", "How thoroughly machines are checked before training")
        .of_dlrover_run()
        .refused(NO_CHECK, LEAVE_OUT);

const NETWORK_CHECK: OptionSpec = OptionSpec::flag("--network-check", "Check machines and network before training")
    .of_dlrover_run()
    .refused(NO_CHECK, LEAVE_OUT);

const COMM_PERF_TEST: OptionSpec = OptionSpec::flag("--comm-perf-test", "Measure the network before training")
    .of_dlrover_run()
    .refused(NO_CHECK, LEAVE_OUT);

const EXCLUDE_STRAGGLER: OptionSpec =
    OptionSpec::flag("--exclude-straggler", "Leave out machines that the check before training found slow")
        .of_dlrover_run()
        .refused(NO_CHECK, LEAVE_OUT);

const AUTO_TUNNING: OptionSpec =
    OptionSpec::flag("--auto-tunning", "Let the master change batch size and learning rate")
        .of_dlrover_run()
        .refused("batch size and learning rate are the program's own", "leave it out and set them in the program");

const SAVE_AT_BREAKPOINT: OptionSpec =
    OptionSpec::flag("--save-at-breakpoint", "Write the checkpoint that is in memory when the program fails")
        .of_dlrover_run()
        .refused("no checkpoint is kept in memory for the program", "leave it out and save checkpoints to storage");

const UCP_DEVICE_TYPE: OptionSpec =
    OptionSpec::text("--ucp-device-type", "DEVICE", "cpu", "Where checkpoints in memory are converted")
        .of_dlrover_run()
        .refused("no checkpoint is kept in memory for the program", "leave it out and save checkpoints to storage");

const ACCELERATOR: OptionSpec = OptionSpec::choice(
    "--accelerator",
    &["nvidia.com/gpu", "ascend-npu", "mthreads.com/gpu", "metax-tech.com/gpu"],
    "nvidia.com/gpu",
    "The accelerator of the machines",
)
.of_dlrover_run()
.refused(
    "only NVIDIA's and Intel's accelerators are known",
    "leave it out and give the number of processes with --nproc-per-node",
);

const TRAINING_PORT: OptionSpec =
    OptionSpec::integer("--training-port", "PORT", "60000", "The first port of Ascend's collective library")
        .of_dlrover_run()
        .no_effect("ports are chosen by the system when they are needed");

const NUMA_AFFINITY: OptionSpec = OptionSpec::flag("--numa-affinity", "Bind processes to the CPUs near their GPU")
    .of_dlrover_run()
    .no_effect("processes are not bound to CPUs; start the program under numactl where that matters");

const MEMBIND_POLICY: OptionSpec =
    OptionSpec::text("--membind-policy", "POLICY", "preferred", "How memory is bound with --numa-affinity")
        .of_dlrover_run()
        .no_effect("memory is not bound; start the program under numactl where that matters");

/// All of them.
pub(super) const ALL: &[&OptionSpec] = &[
    &NODE_UNIT,
    &AUTO_CONFIG,
    &PRECHECK,
    &NETWORK_CHECK,
    &COMM_PERF_TEST,
    &EXCLUDE_STRAGGLER,
    &AUTO_TUNNING,
    &SAVE_AT_BREAKPOINT,
    &UCP_DEVICE_TYPE,
    &ACCELERATOR,
    &TRAINING_PORT,
    &NUMA_AFFINITY,
    &MEMBIND_POLICY,
];
