//! Follows a page of `docs/tutorials`: runs its commands and compares what they print with the page.
//!
//! [`step`] reads the commands from the page, [`shown`] compares an output with it, and [`shell`] runs a command as a
//! user in `cargo xtask cluster shell` does. [`Reader`] puts them together. It has two terminals: a program in the
//! second one runs beside the commands that follow, and must have ended when the page does.

mod shell;
mod shown;
mod step;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use flexor_testbed::Cluster;
use tempfile::TempDir;

use self::shell::Shell;
pub use self::shell::in_path;
pub use self::step::Step;
use self::step::Terminal;
use crate::program::root;

/// How long a state may take to be reached, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The text of a page.
pub fn text(page: &str) -> String {
    fs::read_to_string(root().join("docs/tutorials").join(page)).unwrap()
}

/// The commands of a page, in order.
pub fn steps(page: &str) -> Vec<Step> {
    let steps = step::of(&text(page));
    assert!(steps.len() > 10, "{page} has commands: {steps:?}");
    steps
}

/// The reader of a page, who runs its commands.
pub struct Reader<'a> {
    first: Shell<'a>,
    second: Shell<'a>,
    /// What runs in the second terminal.
    beside: Option<Program>,
}

impl<'a> Reader<'a> {
    /// Both terminals begin in the root of the repository.
    pub fn new(cluster: &'a Cluster) -> Self {
        Self { first: Shell::new(cluster), second: Shell::new(cluster), beside: None }
    }

    /// Does one step.
    pub fn follow(&mut self, step: &Step) {
        let shell = match step.terminal {
            Terminal::First => &mut self.first,
            Terminal::Second => &mut self.second,
        };
        if let Some(folder) = step.command.strip_prefix("cd ") {
            return shell.enter(folder);
        }
        match step.terminal {
            Terminal::First => step.run(|line| self.first.command(line)),
            Terminal::Second => {
                self.await_second_terminal();
                self.beside = Some(Program::start(step, &self.second));
            }
        }
    }

    /// Waits until what runs in the second terminal has ended.
    pub fn finish(mut self) {
        self.await_second_terminal();
    }

    fn await_second_terminal(&mut self) {
        if let Some(program) = self.beside.take() {
            program.await_end();
        }
    }
}

/// A program in the second terminal; dropping it ends it.
struct Program {
    step: Step,
    child: Child,
    /// Where its output is.
    folder: TempDir,
}

impl Program {
    /// Starts it, and waits for the lines that the page shows first.
    fn start(step: &Step, shell: &Shell<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        // The shell becomes the program, so that it can be ended.
        let mut command = shell.command(&format!("exec {}", step.command));
        let child = command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
        let mut program = Self { step: step.clone(), child, folder };
        program.until("its first lines", |step, printed, _| step.begins_like(printed));
        program
    }

    /// Waits until it has ended, with what the page shows.
    fn await_end(mut self) {
        self.until("its end", |_, _, ended| ended.is_some());
        let (printed, ended) = (self.printed("stdout"), self.child.wait().unwrap());
        assert!(ended.success() && self.step.is_shown(&printed), "{}", self.explain(&format!("it ended with {ended}")));
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Step, &str, Option<ExitStatus>) -> bool) {
        let began = Instant::now();
        loop {
            // What it printed before its end is read after it.
            let ended = self.child.try_wait().unwrap();
            if is_so(&self.step, &self.printed("stdout"), ended) {
                return;
            }
            let may_come = ended.is_none() && began.elapsed() < DEADLINE;
            assert!(may_come, "{}", self.explain(&format!("waited for {what}; it ended: {ended:?}")));
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn printed(&self, name: &str) -> String {
        read(self.folder.path(), name)
    }

    fn explain(&self, what: &str) -> String {
        self.step.explain(what, &self.printed("stdout"), &self.printed("stderr"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(folder: &Path, name: &str) -> String {
    String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap()).into_owned()
}
