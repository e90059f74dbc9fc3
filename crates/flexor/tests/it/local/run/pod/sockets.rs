//! Tests the listening sockets of a pod, and which containers inherit them.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd;

use super::pod;

/// The name of a socket in `/proc`.
fn name(socket: &TcpListener) -> String {
    let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
    link.display().to_string()
}

#[test]
fn containers_find_only_their_own_sockets_from_descriptor_3() {
    let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let names = sockets.each_ref().map(name);
    let list_sockets = |file: &str| {
        format!(
            "echo ${{LISTEN_FDS:-none}} >> {file}; for fd in /proc/$$/fd/*; do readlink $fd; done | grep socket: >> {file}"
        )
    };
    let mut design = pod().sidecar("sidecar", "");
    design.plan.init[0].command[2] = format!("{}; sleep 1000", list_sockets("sidecar"));
    design.plan.init[0].sockets = 1;
    let main = format!("while ! grep -q socket: sidecar; do sleep 0.02; done; {}", list_sockets("main"));
    let design =
        design.main_but("main", &main, |main| main.sockets = 2).main("other", &list_sockets("other")).grace(300);
    let mut pod = sockets.into_iter().fold(design, super::PodBuilder::socket).start();
    pod.wait();
    assert_eq!(pod.work.lines("sidecar"), ["1", &names[0]]);
    assert_eq!(pod.work.lines("main"), ["2", &names[1], &names[2]]);
    assert_eq!(pod.work.lines("other"), ["none"]);
}
