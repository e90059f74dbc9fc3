//! A running quickstart: the status from its master, and control of its progress.
//!
//! The speed of the machine must not decide what a test observes. The test therefore stops the workers at a step and
//! lets them continue later.

use std::cell::Cell;
use std::net::SocketAddr;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use super::super::cluster::{LocalPod, Workspace};
use super::FinishedRun;
use crate::local::faults::http;
use crate::local::faults::process::server;
use crate::local::launch::launcher::{Launcher, LauncherOutput};

/// A quickstart that runs.
pub struct Training<'a> {
    workspace: &'a Workspace,
    run: Launcher,
    master: Cell<Option<SocketAddr>>,
}

impl<'a> Training<'a> {
    /// A job that the caller has started.
    pub fn new(workspace: &'a Workspace, run: Launcher) -> Self {
        Self { workspace, run, master: Cell::new(None) }
    }

    /// The master's status; null while none answers.
    pub fn status(&self) -> Value {
        let Some(master) = self.master.get().or_else(|| self.find_master()) else { return Value::Null };
        let token = self.workspace.token("quickstart");
        let answer = http::try_get(master, "/api/status", &token).ok().filter(|(code, _)| *code == 200);
        self.master.set(answer.is_some().then_some(master));
        answer.and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or_default()
    }

    fn find_master(&self) -> Option<SocketAddr> {
        let mut describe = server(&["describe", "elasticjob", "quickstart", "--state-dir", "home"]);
        let log = describe.current_dir(self.workspace.folder.path()).output().unwrap();
        let log = String::from_utf8(log.stdout).unwrap();
        log.lines().find(|line| line.starts_with("Master:"))?.rsplit_once(' ')?.1.parse().ok()
    }

    /// The names of the parameter servers, in their order.
    pub fn servers(&self) -> Vec<String> {
        names_of_servers(&self.status())
    }

    /// How many records are accounted for.
    pub fn accounted(&self) -> u64 {
        accounted(&self.status())
    }

    /// Waits until this many records are accounted for.
    pub fn reaches(&self, records: u64) {
        self.run.await_or_explain(&format!("{records} records"), || accounted(&self.status()) >= records);
    }

    /// Lets it train up to this many records until the master's status fulfils a condition; then it continues freely.
    /// `what` completes "waited for".
    pub fn no_further_than(&self, records: u64, what: &str, is_so: impl Fn(&Value) -> bool) {
        self.run.await_or_explain(what, || {
            let status = self.status();
            let is_so = is_so(&status);
            if !is_so && accounted(&status) >= records {
                self.signal_workers(Signal::SIGSTOP);
            }
            is_so
        });
        self.signal_workers(Signal::SIGCONT);
    }

    /// Lets it train only as faults are injected, so that records are left after each of this many faults.
    pub fn train_under_faults(&self, count: u32, records: u32) {
        for nth in 1..=count {
            let part = u64::from(records) * u64::from(nth) / u64::from(count + 1);
            self.no_further_than(part, &format!("fault {nth}"), |_| injected_faults(&self.stdout()) >= nth as usize);
        }
    }

    fn signal_workers(&self, signal: Signal) {
        let is_worker = |name: &str| name.contains("-worker-") || name.contains("-chief-");
        for worker in self.workspace.pods().iter().filter(|pod| is_worker(&pod.name)).filter_map(LocalPod::main_id) {
            // It may have just ended.
            let _ = kill(worker, signal);
        }
    }

    /// Kills a server with SIGKILL.
    pub fn kill(&self, pod: &str) {
        self.signal(pod, Signal::SIGKILL);
    }

    /// Sends a signal to the program of a pod.
    pub fn signal(&self, pod: &str, signal: Signal) {
        let pod = self.workspace.await_running(pod);
        kill(pod.main_id().unwrap(), signal).unwrap();
    }

    /// Waits until the master's status fulfils a condition. `what` completes "waited for".
    pub fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        self.run.await_or_explain(what, || is_so(&self.status()));
    }

    pub fn stdout(&self) -> String {
        self.run.stdout()
    }

    /// Waits for its successful end.
    pub fn finish(self) -> FinishedRun {
        let workspace = self.workspace;
        FinishedRun::read(workspace, self.ends_with(0))
    }

    /// Waits for its end with this code.
    pub fn ends_with(self, code: i32) -> LauncherOutput {
        self.run.wait_for(code)
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(self) {
        self.run.signal(Signal::SIGINT);
        self.run.wait_for(130);
    }
}

/// How many faults of `--chaos` were injected, by the output.
pub fn injected_faults(stdout: &str) -> usize {
    stdout.lines().filter(|line| line.contains("FaultInjected: ") && !line.contains(": missed, ")).count()
}

/// How many records are accounted for, by a master's status.
pub fn accounted(status: &Value) -> u64 {
    status["datasets"][0]["totals"]["accounted"].as_u64().unwrap_or(0)
}

/// The names of the servers that a master knows.
pub fn names_of_servers(status: &Value) -> Vec<String> {
    let servers = status["servers"]["servers"].as_array().into_iter().flatten();
    servers.filter_map(|server| server["name"].as_str().map(str::to_owned)).collect()
}

/// Whether everything is where it should be, as often as it should be kept.
pub fn is_settled(status: &Value) -> bool {
    status["servers"]["settled"] == true && status["servers"]["redundant"] == true
}

/// The number of the latest complete checkpoint; 0 where there is none.
pub fn latest_checkpoint(status: &Value) -> u64 {
    status["servers"]["checkpoints"]["latest"].as_u64().unwrap_or(0)
}
