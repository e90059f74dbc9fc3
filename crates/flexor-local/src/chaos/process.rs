//! Stops programs of this cluster's pods for a while, with all their descendants.

use flexor_agent::processes::Process;
use rustix::process::Signal;

use crate::proc::PodProcess;

/// How many passes look for children that were started while their parents were being stopped.
const PASSES: usize = 5;

/// A stopped program with its descendants. Dropping this continues them.
#[derive(Debug)]
pub(super) struct StoppedProcesses(Vec<PodProcess>);

impl StoppedProcesses {
    /// Stops a program and its descendants, parents before children, so that they start no more.
    pub(super) fn stop(program: PodProcess) -> Option<Self> {
        let pid = program.pid;
        program.send(Signal::STOP).then_some(())?;
        let mut stopped = Self(vec![program]);
        for _ in 0..PASSES {
            let before = stopped.0.len();
            let family = Process::read(pid).map(Process::with_descendants).unwrap_or_default();
            for process in family {
                stopped.add(&process);
            }
            if stopped.0.len() == before {
                break;
            }
        }
        Some(stopped)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, process: &Process) {
        if self.0.iter().any(|known| known.pid == process.pid) {
            return;
        }
        let Ok(held) = PodProcess::open(process.pid) else { return };
        let is_it = Process::read(process.pid).is_some_and(|now| now.started == process.started);
        if is_it && held.send(Signal::STOP) {
            self.0.push(held);
        }
    }
}

impl Drop for StoppedProcesses {
    fn drop(&mut self) {
        for process in self.0.iter().rev() {
            // The process may have been killed meanwhile.
            process.send(Signal::CONT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    struct Program(Child);

    impl Program {
        fn start(script: &str) -> Self {
            Self(Command::new("sh").args(["-c", script]).spawn().unwrap())
        }

        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn state(pid: i32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    fn await_state(pid: i32, wanted: impl Fn(Option<char>) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !wanted(state(pid)) {
            assert!(Instant::now() < deadline, "{pid} is in {:?}", state(pid));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_program_stops_and_continues_with_its_children() {
        let program = Program::start("sleep 20 & wait");
        let family = || Process::read(program.pid()).unwrap().with_descendants();
        let deadline = Instant::now() + Duration::from_secs(20);
        while family().len() < 2 {
            assert!(Instant::now() < deadline);
        }
        let stopped = StoppedProcesses::stop(PodProcess::program(crate::proc::own(), program.pid()).unwrap()).unwrap();
        assert_eq!(stopped.count(), 2);
        let family = family();
        for process in &family {
            await_state(process.pid, |state| state == Some('T'));
        }
        drop(stopped);
        for process in &family {
            await_state(process.pid, |state| state != Some('T'));
        }
        assert!(PodProcess::open(family[1].pid).unwrap().kill());
    }

    #[test]
    fn processes_of_others_are_not_touched() {
        let (own, started) = crate::proc::own();
        let program = Program::start("sleep 20");
        assert!(PodProcess::program((own, started + 1), program.pid()).is_none(), "another process had that number");
        assert!(PodProcess::program((1, 1), program.pid()).is_none(), "it is another process's child");
        assert!(PodProcess::supervisor((own, started + 1)).is_none() && PodProcess::supervisor((-1, 0)).is_none());
        assert!(PodProcess::program((own, started), program.pid()).is_some_and(|held| held.kill()));
    }
}
