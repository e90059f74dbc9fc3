//! Runs the commands of a page of `docs/tutorials` and compares what they print with the page.
//!
//! Each line of a `bash` block is a command; `\` joins lines. A `text` block after it is the output of its last command.
//! A command that only looks (`kubectl get`, `describe`, `logs`) is repeated until it prints what the page shows.
//!
//! Some words differ in every run and match any word of their kind: ages, instants, addresses, and the random parts of
//! pods' names. A line `…` stands for any number of lines, and at the end of a line for the rest of it. Runs of spaces
//! count as one.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a state may take to be reached, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(240);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Any number of lines; the rest of a line.
const ANY_LINES: &str = "…";

/// A command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub command: String,
    /// The lines that it prints, if the page shows them.
    pub output: Option<Vec<String>>,
}

/// The commands of a page, in order.
pub fn steps(page: &str) -> Vec<Step> {
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
        let is_commands = language == "bash";
        match language {
            "bash" => {
                let joined = block.join("\n").replace("\\\n", " ");
                let commands = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                steps.extend(commands.map(|command| Step { command: command.to_owned(), output: None }));
            }
            "text" if after_commands => {
                let output = block.iter().map(|line| (*line).to_owned()).collect();
                steps.last_mut().expect("a block of commands has a command").output = Some(output);
            }
            _ => {}
        }
        after_commands = is_commands;
    }
    steps
}

impl Step {
    /// Runs the command, which `shell` makes of its text. Panics where it fails or prints something else.
    pub fn run(&self, shell: impl Fn(&str) -> Command) {
        let begun = Instant::now();
        loop {
            let output = shell(&self.command).output().expect("a shell can be started");
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_as_shown =
                output.status.success() && self.output.as_ref().is_none_or(|lines| shows(lines, &printed));
            if is_as_shown {
                return;
            }
            let shown = self.output.as_deref().unwrap_or_default().join("\n");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                self.only_looks() && begun.elapsed() < DEADLINE,
                "{}\n{}\nprinted\n{printed}{errors}\nthe page shows\n{shown}",
                self.command,
                output.status,
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn only_looks(&self) -> bool {
        let mut words = self.command.split_whitespace();
        words.next() == Some("kubectl") && words.any(|word| ["get", "describe", "logs", "wait"].contains(&word))
    }
}

/// Whether the printed text is what the page shows.
fn shows(page: &[String], printed: &str) -> bool {
    let page: Vec<Vec<&str>> = page.iter().map(|line| line.split_whitespace().collect()).collect();
    let printed: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    shows_lines(&page, &printed)
}

fn shows_lines(page: &[Vec<&str>], printed: &[Vec<&str>]) -> bool {
    let Some((first, rest)) = page.split_first() else { return printed.is_empty() };
    if first[..] == [ANY_LINES] {
        return (0..=printed.len()).any(|skipped| shows_lines(rest, &printed[skipped..]));
    }
    let Some((line, others)) = printed.split_first() else { return false };
    shows_line(first, line) && shows_lines(rest, others)
}

/// A line that ends with `…` shows only how it begins.
fn shows_line(shown: &[&str], found: &[&str]) -> bool {
    let (shown, found) = match shown.split_last() {
        Some((&ANY_LINES, beginning)) => (beginning, &found[..beginning.len().min(found.len())]),
        _ => (shown, found),
    };
    shown.len() == found.len() && shown.iter().zip(found).all(|(shown, found)| same_word(shown, found))
}

fn same_word(shown: &str, found: &str) -> bool {
    let kinds = [is_age, is_instant, is_address];
    shown == found || kinds.into_iter().any(|is_of| is_of(shown) && is_of(found)) || same_pod(shown, found)
}

/// Such as `3m12s`.
fn is_age(word: &str) -> bool {
    let mut parts = word.split_inclusive(|letter: char| !letter.is_ascii_digit());
    !word.is_empty() && parts.all(|part| part.len() > 1 && part.ends_with(['s', 'm', 'h', 'd']))
}

/// Such as `2020-03-18T07:40:53Z`, or with a fraction of the second.
fn is_instant(word: &str) -> bool {
    (20..=30).contains(&word.len()) && word.ends_with('Z') && word.as_bytes()[10] == b'T'
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok()
}

/// Pods of one Deployment, whose names end with two random parts.
fn same_pod(shown: &str, found: &str) -> bool {
    let split = |word: &str| {
        let mut parts = word.rsplitn(3, '-').map(str::to_owned);
        let (last, hash, name) = (parts.next()?, parts.next()?, parts.next()?);
        let is_random = |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (last.len() == 5 && hash.len() >= 8 && is_random(&last) && is_random(&hash)).then_some(name)
    };
    split(shown).is_some_and(|name| split(found) == Some(name))
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
";
    let step = |command: &str, output: Option<&[&str]>| Step {
        command: command.to_owned(),
        output: output.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect()),
    };
    assert_eq!(steps(page), [step("cd a", None), step("kubectl get    pods", Some(&["NAME  AGE", "p     3s"]))]);
}

#[test]
fn words_that_differ_in_every_run_are_alike() {
    for (shown, found) in [
        ("3s", "2m10s"),
        ("2020-03-18T07:40:53Z", "2026-11-18T19:00:00Z"),
        ("10.96.0.1", "10.96.14.3"),
        ("c-k8s-controller-6d4884c75b-z22cm", "c-k8s-controller-7f9c5d8b6d-x7k2p"),
    ] {
        assert!(same_word(shown, found), "{shown} {found}");
    }
    for (shown, found) in [("3s", "Running"), ("worker-0", "worker-1"), ("a-6d4884c75b-z22cm", "b-6d4884c75b-z22cm")] {
        assert!(!same_word(shown, found), "{shown} {found}");
    }
}

#[test]
fn any_lines_may_stand_between_those_that_are_shown() {
    let page = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(shows(&page(&["a", "…", "d"]), "a\nb\nc\nd\n"));
    assert!(shows(&page(&["…", "d   e"]), "d e\n"));
    assert!(!shows(&page(&["a", "…", "d"]), "a\nb\n"));
    assert!(shows(&page(&["a …"]), "a b c\n") && !shows(&page(&["a b …"]), "a\n"));
    assert!(!shows(&page(&["a"]), "a\nb\n"), "a line more than shown");
    assert!(!shows(&page(&["a", "b"]), "a\n"), "a line less than shown");
}
