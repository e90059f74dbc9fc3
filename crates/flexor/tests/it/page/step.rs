//! Reads the commands of a page, and runs one.
//!
//! Each line of a `bash` block is a command; `\` joins lines. A `text` block after it is the output of its last
//! command. One that begins with `error: ` is the answer to a command that is refused. A command that only looks
//! (`kubectl get`, `describe`, `logs`, `wait`, `paddlecloud get`) is repeated until it prints what the page shows.
//!
//! The commands of a `bash second terminal` block run in the other terminal.

use std::process::{Command, Output};
use std::time::Instant;

use super::{DEADLINE, LOOK_EVERY, shown};

/// The language of blocks for each terminal.
const TERMINALS: [(&str, Terminal); 2] = [("bash", Terminal::First), ("bash second terminal", Terminal::Second)];
const REFUSAL: &str = "error: ";

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    /// The lines that it prints, if the page shows them.
    pub output: Option<Vec<String>>,
    pub(super) terminal: Terminal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terminal {
    First,
    Second,
}

/// The commands in the text of a page.
pub(super) fn of(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = page.lines();
    // Whether the last block was one of commands.
    let mut after_commands = false;
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            after_commands &= line.trim().is_empty();
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
        let terminal = TERMINALS.iter().find(|(name, _)| *name == language).map(|(_, terminal)| *terminal);
        if let Some(terminal) = terminal {
            let joined = block.join("\n").replace("\\\n", " ");
            let commands = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            steps.extend(commands.map(|command| Step { command: command.to_owned(), output: None, terminal }));
        } else if language == "text" && after_commands {
            let output = block.iter().map(|line| (*line).to_owned()).collect();
            steps.last_mut().expect("a block of commands has a command").output = Some(output);
        }
        after_commands = terminal.is_some();
    }
    steps
}

impl Step {
    /// Runs the command, which `shell` makes of its text. Panics where it ends otherwise than the page shows.
    pub(super) fn run(&self, shell: impl Fn(&str) -> Command) {
        let begun = Instant::now();
        loop {
            let output = shell(&self.command).output().expect("a shell can be started");
            if self.is_answered(&output) {
                return;
            }
            let text = String::from_utf8_lossy;
            let explain = || self.explain(&output.status.to_string(), &text(&output.stdout), &text(&output.stderr));
            assert!(self.only_looks() && begun.elapsed() < DEADLINE, "{}", explain());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn is_answered(&self, output: &Output) -> bool {
        let is_refusal = self.lines().first().is_some_and(|line| line.starts_with(REFUSAL));
        let printed = if is_refusal { &output.stderr } else { &output.stdout };
        output.status.success() != is_refusal && self.is_shown(&String::from_utf8_lossy(printed))
    }

    /// Whether the page shows this, or nothing at all.
    pub(super) fn is_shown(&self, printed: &str) -> bool {
        self.output.as_ref().is_none_or(|lines| shown::shows(lines, printed))
    }

    /// Whether this has the first lines that the page shows.
    pub(super) fn begins_like(&self, printed: &str) -> bool {
        shown::begins(self.lines(), printed)
    }

    fn lines(&self) -> &[String] {
        self.output.as_deref().unwrap_or_default()
    }

    pub(super) fn explain(&self, what: &str, printed: &str, errors: &str) -> String {
        let (command, page) = (&self.command, self.lines().join("\n"));
        format!("{command}\n{what}\nprinted\n{printed}{errors}\nthe page shows\n{page}")
    }

    fn only_looks(&self) -> bool {
        let mut words = self.command.split_whitespace();
        match words.next() {
            Some("kubectl") => words.any(|word| ["get", "describe", "logs", "wait"].contains(&word)),
            Some("paddlecloud") => words.next() == Some("get"),
            _ => false,
        }
    }
}

#[test]
fn blocks_of_a_page_are_commands_and_what_they_print() {
    let page = "\
Text.

```bash
cd a
# a comment
kubectl get \\
  pods
```

```text
NAME  AGE
p     3s
```

```sh
kubectl delete everything
```

```text
no output of a command
```

```bash second terminal
watch
```
";
    let step = |command: &str, output: Option<&[&str]>, terminal| Step {
        command: command.to_owned(),
        output: output.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect()),
        terminal,
    };
    let expected = [
        step("cd a", None, Terminal::First),
        step("kubectl get    pods", Some(&["NAME  AGE", "p     3s"]), Terminal::First),
        step("watch", None, Terminal::Second),
    ];
    assert_eq!(of(page), expected);
}

#[test]
fn a_refusal_is_an_answer_where_the_page_shows_it() {
    let [refused, accepted] = ["error: no\n", "yes\n"].map(|line| {
        let page = format!("```bash\na\n```\n\n```text\n{line}```\n");
        of(&page).remove(0)
    });
    let ended = |script: &str| Command::new("sh").args(["-c", script]).output().unwrap();
    let (no, yes) = (ended("echo error: no >&2; exit 1"), ended("echo yes"));
    assert!(refused.is_answered(&no) && !refused.is_answered(&yes));
    assert!(accepted.is_answered(&yes) && !accepted.is_answered(&no));
    assert!(!refused.is_answered(&ended("echo error: no >&2")), "it has to fail");
}

#[test]
fn commands_that_only_look_may_be_repeated() {
    let looks =
        |command: &str| Step { command: command.to_owned(), output: None, terminal: Terminal::First }.only_looks();
    assert!(looks("kubectl -n a get pods") && looks("paddlecloud get jobs"));
    assert!(!looks("kubectl create -f get.yaml") && !looks("paddlecloud kill get") && !looks("wait"));
}
