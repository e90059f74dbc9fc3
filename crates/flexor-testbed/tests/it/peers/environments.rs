//! Tests that the environments hold the pinned packages.

use flexor_testbed::{dlrover_or_skip, torch_or_skip};

#[test]
fn torch_is_the_pinned_one_and_runs_on_the_cpu() {
    let torch = torch_or_skip!();
    let code = "import torch, torch.distributed as d; print(torch.__version__.split('+')[0], d.is_gloo_available())";
    let printed = torch.command().args(["-c", code]).output().unwrap();
    assert_eq!(
        String::from_utf8(printed.stdout).unwrap(),
        "2.15.0 True\n",
        "{}",
        String::from_utf8_lossy(&printed.stderr)
    );
    let help = std::process::Command::new(torch.bin().join("torchrun")).arg("--help").output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("--rdzv-endpoint"));
}

#[test]
fn dlrover_is_the_pinned_one() {
    let dlrover = dlrover_or_skip!();
    let code = "from importlib.metadata import version; print(version('dlrover'), version('protobuf'))";
    let printed = dlrover.command().args(["-c", code]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), "0.6.1 4.25.3\n");
}
