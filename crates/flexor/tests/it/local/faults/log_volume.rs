//! Tests how much a master logs per node.

use super::agent::{AgentView, FakeAgent};
use super::master::Master;

/// Bytes of log that a node may cost until it is in a world.
const BYTES_A_NODE: usize = 300;

/// The log of a master after this many nodes have formed a world.
fn log_of(nodes: usize) -> String {
    let master = Master::start(&format!("1:{nodes}"));
    let mut agents: Vec<FakeAgent> = (0..nodes)
        .map(|number| FakeAgent::connect(master.ports.store, &format!("worker-{number}.jobs"), 1).unwrap())
        .collect();
    agents.iter_mut().for_each(|agent| agent.ask_to_join().unwrap());
    for agent in &mut agents {
        let mut shown = agent.answer().unwrap();
        while shown == AgentView::Waiting {
            shown = agent.look().unwrap();
        }
        assert!(matches!(&shown, AgentView::World(world) if world.members.len() == nodes), "{shown:?}");
    }
    master.await_log("round complete");
    master.log()
}

#[test]
fn the_log_grows_in_proportion_to_the_nodes() {
    let [few, many] = [100, 300].map(log_of);
    let a_node = (many.len() - few.len()) / 200;
    println!("100 nodes: {} bytes; 300 nodes: {} bytes; {a_node} bytes a node", few.len(), many.len());
    assert!(a_node <= BYTES_A_NODE, "{a_node} bytes a node");
    let longest = many.lines().map(str::len).max().unwrap();
    assert!(longest < 1000, "no line names all nodes: {longest} bytes");
}
