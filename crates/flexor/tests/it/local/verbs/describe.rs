//! Tests what `describe` adds on a laptop: names that do not resolve, and ports that are in use.

use std::net::TcpListener;
use std::process::Command;

use flexor_testbed::skip;

use super::laptop::{Laptop, dlrover, redacted, torchelastic};

/// Listens on a port of all addresses, and lets others do so too.
const SHARES: &str = "import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind((\"0.0.0.0\", NUMBER))
s.listen()
time.sleep(60)";

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn two_programs_on_one_port_of_all_addresses_are_both_named() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|ran| ran.status.success()) {
        skip!("there is no python3");
    }
    let port = free_port().to_string();
    let program = SHARES.replace("NUMBER", &port).replace('\n', "; ");
    let job = torchelastic("shares").replace("command: [sh, -c, ", &format!("command: [python3, -c, '{program}', "));
    let laptop = Laptop::with(&[job]);
    let line = |pod: &str| {
        let message = laptop.says(&["describe", "pod", pod, "-n", "elastic-job"]);
        let both = format!("both listen on port {port} of all addresses");
        message.lines().find(|line| line.contains(&both)).map(|line| redacted(&line.replace(&port, "PORT")))
    };
    let message = laptop.eventually("both to listen", || line("shares-worker-0"));
    let message = regex::Regex::new(r"process \d+").unwrap().replace_all(message.trim(), "process PID");
    assert_eq!(
        message,
        "process PID and process PID of pod shares-worker-1 both listen on port PORT of all addresses: either may get \
         what is meant for the other; have them listen on 127.100.100.101:PORT and 127.100.100.102:PORT"
    );
    assert!(line("shares-worker-1").unwrap().contains("of pod shares-worker-0"));
}

#[test]
fn a_pod_that_did_not_get_its_port_names_the_process_that_has_it() {
    let port = free_port();
    let listen = format!("command: [flexor, sidecar, --listen, '0.0.0.0:{port}', --upstream, '127.0.0.1:1'] # ");
    let job = torchelastic("collides").replace("command: [sh, ", &format!("{listen}["));
    let laptop = Laptop::begin(&[job]);
    let message = laptop.eventually("the one to be named", || {
        let ran = laptop.flexor(&["describe", "tej", "collides", "-n", "elastic-job"]);
        ran.stdout.lines().find(|line| line.contains("found an address in use")).map(str::to_owned)
    });
    let message = regex::Regex::new(r"process \d+").unwrap().replace_all(message.trim(), "process PID").into_owned();
    let message = message.replace(&port.to_string(), "PORT");
    let (one, other) = if message.starts_with("pod collides-worker-0") { (0, 1) } else { (1, 0) };
    let address = format!("127.100.100.10{}", other + 1);
    assert_eq!(
        message,
        format!(
            "pod collides-worker-{one}: its program found an address in use: process PID of pod collides-worker-{other} \
             listens on port PORT of all addresses; have programs listen on the address of their pod, {address}:PORT there"
        )
    );
    let alone = laptop.says(&["describe", "pod", &format!("collides-worker-{other}"), "-n", "elastic-job"]);
    assert!(
        alone.contains(&format!("listens on port {port} of all addresses, so that no other pod can have it")),
        "{alone}"
    );
}

#[test]
fn services_are_shown_with_their_addresses_and_the_pods_that_name_them() {
    let job = dlrover("torch-mnist").replace(
        "image: none",
        "image: none\n              env: [{ name: PEER, value: 'http://elasticjob-torch-mnist-dlrover-master.default.svc:50001' }, { name: OWN, value: torch }]",
    );
    let laptop = Laptop::with(&[job]);
    laptop.says(&["scale", "torch-mnist", "--worker", "3"]);
    laptop.await_running(4);
    laptop.eventually("the plan done", || {
        let plan = laptop.json(&["get", "scaleplan", "torch-mnist-scale-0"]);
        (plan["status"]["phase"] == "Succeeded").then_some(())
    });
    insta::assert_snapshot!(
        "a_pod_that_names_a_service",
        laptop.shows(&["describe", "pod", "torch-mnist-edljob-worker-0"])
    );
    insta::assert_snapshot!("a_job_with_services_and_plans", laptop.shows(&["describe", "dej", "torch-mnist"]));
}
