//! Tests a node behind a network partition: it runs on, and no peer can reach it.

use flexor_testbed::{
    flexor_processes::{JobNode, Master, TwoNetworks},
    skip, torch_or_skip,
    torchrun::{AgentConfig, ProbeEventKind, Workers},
};

use super::job::{DEADLINE, master, training};

#[test]
fn a_partitioned_node_is_dropped_and_rejoins_after_the_partition() {
    let torch = torch_or_skip!();
    if !nix::unistd::geteuid().is_root() {
        skip!("needs root to make network namespaces");
    }
    let disk = tempfile::tempdir().unwrap();
    let networks = TwoNetworks::start().unwrap();
    let master = Master::start(&torch, master("2:3").network(networks.mainland())).unwrap();
    let networks_of_nodes = [networks.mainland(), networks.mainland(), networks.island()];
    let nodes: Vec<JobNode> = (0..)
        .zip(networks_of_nodes)
        .map(|(number, network)| {
            let config = training(AgentConfig::new(format!("node-{number}")), disk.path());
            JobNode::start_in(&torch, &master, config, Some(network)).unwrap()
        })
        .collect();
    let all = || nodes.iter().map(JobNode::agent);
    for agent in all() {
        agent.await_event(DEADLINE, |event| event.kind == ProbeEventKind::Step && event.world == 3).unwrap();
    }

    let old = Workers::of(all());
    networks.cut().unwrap();
    old.await_successors(all().take(2), 2, ProbeEventKind::Step, DEADLINE).unwrap();
    let status = master.run_status().unwrap().unwrap();
    assert_eq!((status.world_size, status.program_failures), (2, 0));

    let old = Workers::of(all());
    networks.mend().unwrap();
    old.await_successors(all(), 3, ProbeEventKind::Step, DEADLINE).unwrap();
    for agent in all().take(2) {
        assert_eq!(old.started_since(agent).len(), 1, "{}: one world for the one that came back", agent.name());
    }
}
