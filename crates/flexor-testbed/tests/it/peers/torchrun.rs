//! Tests the torchrun harness: agents meet, their loss is noticed, and no process of them stays.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use flexor_testbed::{
    Torch, torch_or_skip,
    torchrun::{Agent, AgentConfig, ProbeEventKind, StockStore},
};

/// Importing torch takes seconds, more of them on a busy machine.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// Set for the child of [`a_killed_owner_leaves_nothing`] only.
const CHILD: &str = "FLEXOR_TESTBED_CHILD";

/// Two agents that rendezvous at an external store and survive each other's restarts.
fn two_agents(torch: &Torch, store: &StockStore) -> [Agent; 2] {
    [0, 1].map(|index| {
        let config = AgentConfig::new(format!("n{index}"))
            .rendezvous(&store.endpoint(), "2:2")
            .env("PET_RDZV_CONF", "is_host=false")
            .env("PET_MAX_RESTARTS", "3")
            .env("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1");
        Agent::start(torch, config).unwrap()
    })
}

#[test]
fn agents_meet_make_steps_and_restart_a_killed_worker() {
    let torch = torch_or_skip!();
    let store = StockStore::start(&torch).unwrap();
    let agents = two_agents(&torch, &store);
    let mut ranks = Vec::new();
    for agent in &agents {
        let step = agent.await_event(START_DEADLINE, |event| event.kind == ProbeEventKind::Step).unwrap();
        assert_eq!((step.world, step.node.as_str()), (2, agent.name()));
        ranks.push(step.rank);
    }
    ranks.sort_unstable();
    assert_eq!(ranks, [0, 1]);

    let killed = SystemTime::now();
    agents[1].kill_workers().unwrap();
    for agent in &agents {
        let again = |kind| agent.await_event(START_DEADLINE, |event| event.kind == kind && event.at > killed).unwrap();
        // An agent that learns of the other's restart before its own worker fails charges nothing.
        let charged = again(ProbeEventKind::Start).restart;
        assert!(charged == 1 || charged == 0 && agent.name() == "n0", "{charged} at {}", agent.name());
        again(ProbeEventKind::Step);
    }

    agents[0].kill_node();
    assert_eq!(agents[0].exit_code(), Some(-9));
    assert!(agents[0].worker_pids().is_empty(), "the worker has a session of its own and is gone all the same");
    let error = agents[0].await_event(START_DEADLINE, |event| event.step == u64::MAX).unwrap_err().to_string();
    assert!(error.contains("torchrun ended with -9"), "{error}");
}

#[test]
fn probes_that_have_made_their_steps_end_the_job() {
    let torch = torch_or_skip!();
    let config = AgentConfig::new("alone").env("PET_STANDALONE", "1").steps(2);
    let agent = Agent::start(&torch, config).unwrap();
    assert_eq!(agent.await_exit(START_DEADLINE).unwrap(), 0, "{}", agent.log());
    let kinds: Vec<_> = agent.events().into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [ProbeEventKind::Start, ProbeEventKind::Step, ProbeEventKind::Step, ProbeEventKind::End]);
}

#[test]
fn a_killed_owner_leaves_nothing() {
    let torch = torch_or_skip!();
    if std::env::var_os(CHILD).is_some() {
        let agent = Agent::start(&torch, AgentConfig::new("owned").env("PET_STANDALONE", "1")).unwrap();
        let worker = agent.await_event(START_DEADLINE, |event| event.kind == ProbeEventKind::Start).unwrap().pid;
        // A stopped node must not outlive its owner either.
        agent.stop_node();
        println!("\nowning {worker}");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["peers::torchrun::a_killed_owner_leaves_nothing", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let worker = lines.filter_map(|line| line.strip_prefix("owning ").map(str::to_owned)).next().unwrap();
    let worker = Path::new("/proc").join(worker);
    assert!(worker.exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    let killed = Instant::now();
    while worker.exists() {
        assert!(killed.elapsed() < Duration::from_secs(10), "the worker outlives its owner");
        // A process that is no child cannot be waited for, only polled.
        std::thread::sleep(Duration::from_millis(20));
    }
}
