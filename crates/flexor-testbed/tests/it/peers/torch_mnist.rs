//! Tests the example program: it ends, it learns, and it resumes from its checkpoint with another number of processes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use flexor_testbed::{
    Torch, torch_or_skip,
    torchrun::{Agent, AgentConfig},
};

const DEADLINE: Duration = Duration::from_secs(120);

/// Trains with `processes` processes up to `steps` steps and gives the log.
fn train(torch: &Torch, processes: u32, steps: u32, checkpoint: &Path) -> String {
    let folder = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let args = ["--steps", &steps.to_string(), "--log-every", "21", "--checkpoint"].map(OsString::from);
    let config = AgentConfig::new("alone")
        .env("PET_STANDALONE", "1")
        .env("PET_NPROC_PER_NODE", processes.to_string())
        .script(folder.join("../../examples/torch-mnist/train.py"))
        .args(args.into_iter().chain([checkpoint.into()]));
    let agent = Agent::start(torch, config).unwrap();
    let code = agent.await_exit(DEADLINE).unwrap();
    let log = agent.log();
    assert_eq!(code, 0, "{log}");
    log
}

#[test]
fn training_resumes_at_its_step_with_another_number_of_processes() {
    let torch = torch_or_skip!();
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = folder.path().join("digits.pt");

    let first = train(&torch, 2, 42, &checkpoint);
    assert!(first.contains("rank 1/2 restart 0 starts at step 0"), "{first}");
    assert!(first.contains("done after 42 steps"), "{first}");

    // 6000 drawn digits in batches of 96: step 63 is the first epoch's last.
    let second = train(&torch, 3, 126, &checkpoint);
    assert!(second.contains("rank 2/3 restart 0 starts at step 42"), "{second}");
    assert!(second.contains("rank 2/3 restart 0 epoch 0 position 6000 step 63"), "{second}");
    let right = second.split("steps: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(right.parse::<f64>().unwrap() > 80.0, "{second}");
}
