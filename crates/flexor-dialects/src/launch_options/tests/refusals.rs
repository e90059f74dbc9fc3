//! What is refused, and what is said about it.

use super::{environment, errors, owned};
use crate::{Finding, launch_options::parse};

#[test]
fn every_mistake_is_told_with_what_to_write_instead() {
    let cases: &[(&[&str], &str)] = &[
        (&["--nnodes=two"], "--nnodes: `two` is no number of nodes; write MIN:MAX, such as 2:4, or a number"),
        (&["--nnodes=4:2"], "--nnodes: the smallest world (4) is larger than the largest (2); write 2:4"),
        (&["--nnodes=0"], "--nnodes: a world of 0 nodes cannot train; write at least 1"),
        (&["--nproc-per-node=gpus"], "--nproc-per-node: `gpus` is no number of processes; did you mean `gpu`?"),
        (
            &["--nproc-per-node=4294967295"],
            "--nproc-per-node: `4294967295` is no number of processes; write a number from 1 to 32768, cpu, gpu, xpu or auto",
        ),
        (
            &["--nproc-per-node=0"],
            "--nproc-per-node: `0` is no number of processes; write a number from 1 to 32768, cpu, gpu, xpu or auto",
        ),
        (&["--max-restarts=-1"], "--max-restarts: `-1` is not possible; write a whole number from 0 on"),
        (&["--max-restarts=x"], "--max-restarts: `x` is no whole number; write a number such as 3"),
        (&["--rdzv-backend=c10"], "--rdzv-backend: `c10` is no rendezvous backend; did you mean `c10d`?"),
        (
            &["--rdzv-backend=etcd-v2"],
            "--rdzv-backend: nodes meet at a master of ours, not in etcd; write c10d; no etcd has to run",
        ),
        (
            &["--rdzv-backend=c10d", "--rdzv-endpoint=http://a:1"],
            "--rdzv-endpoint: `http://a:1` is no address; write HOST:PORT, such as node0.example.com:29400",
        ),
        (
            &["--nnodes=2", "--rdzv-endpoint=node0"],
            "--rdzv-endpoint: `node0` has no usable port; write HOST:PORT, such as node0.example.com:29400",
        ),
        (
            &["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"],
            "--rdzv-endpoint: other nodes cannot know a free port; write the same port on every node",
        ),
        (&["--rdzv-backend=c10d", "--rdzv-id="], "--rdzv-id: is empty; write the same id on every node"),
        (&["--nnodes=2", "--node-rank=2"], "--node-rank: 2 is no rank among 2 nodes; write a number from 0 to 1"),
        (
            &["--standalone", "--nnodes=2"],
            "--standalone: is one node, but --nnodes asks for more; leave out one of them",
        ),
        (
            &["--rdzv-conf=join_timeout=soon"],
            "--rdzv-conf: join_timeout `soon` is no time in seconds; write such as join_timeout=600",
        ),
        (&["--rdzv-conf=is_host=maybe"], "--rdzv-conf: is_host `maybe` is neither true nor false; write is_host=false"),
        (
            &["--rdzv-conf=store_type=file"],
            "--rdzv-conf: store_type `file` is not possible: nodes meet over the network; leave it out",
        ),
        (
            &["-r", "4"],
            "--redirects: `4` names no streams; write 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or such by local rank: 0:1,1:3",
        ),
        (&["--local-ranks-filter=0,x"], "--local-ranks-filter: `0,x` is no list of local ranks; write such as 0,1,2"),
        (
            &["--signals-to-handle=SIGTERN"],
            "--signals-to-handle: `SIGTERN` is no signal that can be passed on; did you mean `SIGTERM`?",
        ),
        (&["--start-method=forks"], "--start-method: `forks` is not possible; did you mean `fork`?"),
        (
            &["-m", "--no-python"],
            "--no-python: a module cannot be run without Python; leave out --no-python or --module",
        ),
        (
            &["--standalone=yes"],
            "--standalone: takes no value, but `yes` is given; write --standalone alone, or set PET_STANDALONE to 1 or 0",
        ),
        (
            &["--logs-specs=mine"],
            "--logs-specs: it names a Python class that only torchrun can load; use --log-dir, --redirects and --tee",
        ),
        (
            &["--print-completion=zsh"],
            "--print-completion: the script would be torchrun's; run `flexor completions SHELL`",
        ),
        (&["--nodes=2"], "--nodes: is no option of `flexor launch`; did you mean `--nnodes`?"),
        (
            &["--epochs=2"],
            "--epochs: is no option of `flexor launch`; options of the program stand behind its name; `flexor launch --help` lists the launcher's",
        ),
        (&["--rdzv-e=node0"], "--rdzv-e: is not the whole name of an option; write --rdzv-endpoint"),
        (&["--nproc=2"], "--nproc: is not the whole name of an option; write --nproc-per-node"),
        (&["--node"], "--node: is not the whole name of an option; write --node-rank or --node-unit"),
    ];
    for (args, said) in cases {
        assert_eq!(errors(args, &[]), [*said], "{args:?}");
    }
}

#[test]
fn a_variable_is_named_where_it_is_to_blame() {
    assert_eq!(errors(&[], &[("PET_STANDALONE", "true")]), ["PET_STANDALONE: `true` is no number; write 1 or 0"]);
    assert_eq!(
        errors(&[], &[("PET_NNODES", "many")]),
        ["PET_NNODES: `many` is no number of nodes; write MIN:MAX, such as 2:4, or a number"]
    );
    assert_eq!(
        errors(&["--nnodes=2"], &[("PET_NODE_RANK", "2")]),
        ["PET_NODE_RANK: 2 is no rank among 2 nodes; write a number from 0 to 1"]
    );
    assert_eq!(
        errors(&["--nnodes=2"], &[("PET_MASTER_PORT", "0")]),
        ["PET_MASTER_PORT: other nodes cannot know a free port; write the same port on every node"]
    );
    assert_eq!(
        errors(&[], &[("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "long")]),
        ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT: `long` is not possible; write a whole number from 0 on"]
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let all = errors(&["--nnodes=x", "--role", "--max-restarts=y", "--odd"], &[("PET_TEE", "9")]);
    assert_eq!(all.len(), 5, "{all:?}");
}

#[test]
fn a_program_must_be_there() {
    for args in [&[][..], &["--nnodes=1"], &["--"], &[""]] {
        let findings = parse(&owned(args), &environment(&[])).unwrap_err();
        let said: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("PROGRAM: what to launch is missing; write it behind the options"), "{said:?}");
    }
}

#[test]
fn a_value_that_looks_like_an_option_is_none() {
    assert_eq!(errors(&["--rdzv-id", "--nnodes=1"], &[]), ["--rdzv-id: its value is missing; write --rdzv-id=ID"]);
}
