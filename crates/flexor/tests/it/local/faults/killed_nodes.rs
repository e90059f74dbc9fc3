//! Tests kill -9 of sidecars and agents: alone, in pairs, and together with the master.

use std::path::Path;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::master::Master;
use super::node::Node;
use super::process::Process;
use super::worlds::Worlds;

/// A master with three pods, each with a sidecar and a node, in one world.
struct ThreePodJob {
    folder: tempfile::TempDir,
    worlds: Worlds,
    nodes: Vec<Node>,
    sidecars: Vec<Process>,
    master: Master,
}

const WORLD: &str = "1:3";

impl ThreePodJob {
    fn new() -> Self {
        let (folder, worlds) = (tempfile::tempdir().unwrap(), Worlds::default());
        let master = Master::on(folder.path(), WORLD);
        let sidecars = ["pod-a", "pod-b", "pod-c"].map(|pod| Process::sidecar(pod, master.ports.grpc));
        let [a, b, c] = sidecars.each_ref().map(|sidecar| sidecar.address("listen"));
        let nodes = Node::world([("a", a), ("b", b), ("c", c)], &worlds).into();
        Self { folder, worlds, nodes, sidecars: sidecars.into(), master }
    }

    fn state(&self) -> &Path {
        self.folder.path()
    }

    /// Those that are left form the next world, and there is only one such world.
    fn survivors_meet(&self, survivors: &[usize]) {
        let start = Instant::now();
        for &survivor in survivors {
            let world = self.nodes[survivor].await_world(1, survivors.len());
            assert_eq!(world.round, 1);
        }
        println!("the next world after {:?}", start.elapsed());
        assert_eq!(self.worlds.rounds(), 2);
        assert_eq!(self.master.members(), survivors.len());
    }
}

#[test]
fn a_killed_sidecar_takes_its_node_along_within_seconds() {
    let mut scene = ThreePodJob::new();
    let start = Instant::now();
    scene.sidecars[0].end_with(Signal::SIGKILL);
    scene.survivors_meet(&[1, 2]);
    // It has a second to return; the rest is for a busy machine.
    assert!((1.0..20.0).contains(&start.elapsed().as_secs_f32()), "{:?}", start.elapsed());
    assert!(scene.nodes[0].error().is_some(), "its agent knows");
    scene.master.await_log("ConnectionLost");
}

#[test]
fn two_sidecars_killed_at_once_leave_a_world_of_the_rest() {
    let mut scene = ThreePodJob::new();
    scene.sidecars[0].signal(Signal::SIGKILL);
    scene.sidecars[1].end_with(Signal::SIGKILL);
    scene.survivors_meet(&[2]);
}

#[test]
fn two_agents_killed_at_once_leave_a_world_of_the_rest() {
    let scene = ThreePodJob::new();
    scene.nodes[0].kill();
    scene.nodes[2].kill();
    scene.survivors_meet(&[1]);
    // No timeout is involved: their sidecars live and report the loss.
    scene.master.await_log("ConnectionClosed");
    assert!(!scene.master.log().contains("ConnectionLost"), "{}", scene.master.log());
}

#[test]
fn a_sidecar_and_the_master_killed_at_once_cost_one_node() {
    let mut scene = ThreePodJob::new();
    scene.sidecars[0].signal(Signal::SIGKILL);
    scene.master.end_with(Signal::SIGKILL);
    scene.master = Master::at(scene.master.ports, scene.state(), WORLD);
    scene.survivors_meet(&[1, 2]);
    scene.master.await_log("NotReconnected");
}

#[test]
fn an_agent_and_the_master_killed_at_once_cost_one_node() {
    let mut scene = ThreePodJob::new();
    scene.master.signal(Signal::SIGKILL);
    scene.nodes[1].kill();
    scene.master.wait();
    scene.master = Master::at(scene.master.ports, scene.state(), WORLD);
    scene.survivors_meet(&[0, 2]);
    assert!(
        !scene.master.log().contains("NotReconnected"),
        "its sidecar tells the next master: {}",
        scene.master.log()
    );
}
