//! Parses the lines of libtest's JSON format.

use std::time::Duration;

use serde::Deserialize;

use super::super::report::Verdict;

/// One event of a test program.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Started {
        name: String,
    },
    Finished {
        name: String,
        verdict: Verdict,
        time: Duration,
        output: String,
    },
    /// The program's last event.
    AllDone,
    /// A line that is not libtest's: some process of the test writes to the terminal.
    Noise(String),
}

/// The prefix that a test prints when it cannot run here.
const SKIPPED: &str = "skipped:";

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "type")]
    subject: String,
    event: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    exec_time: f64,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    message: String,
}

impl Event {
    /// The events in a line; a process may have written in front of libtest's message without ending its own line.
    pub(super) fn from_line(line: &str) -> Vec<Event> {
        let (before, message) = line.split_at(line.find("{ \"type\": \"").unwrap_or(0));
        let noise = |text: &str| (!text.trim().is_empty()).then(|| Event::Noise(text.to_owned()));
        match serde_json::from_str::<Message>(message) {
            Ok(message) => noise(before).into_iter().chain(Event::from_message(message)).collect(),
            Err(_) => noise(line).into_iter().collect(),
        }
    }

    fn from_message(message: Message) -> Option<Event> {
        let Message { subject, event, name, exec_time, stdout, message } = message;
        let time = Duration::try_from_secs_f64(exec_time).unwrap_or_default();
        let finished = |verdict, output| Some(Event::Finished { name: name.clone(), verdict, time, output });
        match (subject.as_str(), event.as_str()) {
            ("suite", "ok" | "failed") => Some(Event::AllDone),
            ("test", "started") => Some(Event::Started { name }),
            ("test", "ok") => {
                let reason = stdout.lines().find_map(|line| line.strip_prefix(SKIPPED));
                finished(reason.map_or(Verdict::Passed, |reason| Verdict::Skipped(reason.trim().to_owned())), stdout)
            }
            ("test", "ignored") => {
                let reason = if message.is_empty() { "marked #[ignore]".to_owned() } else { message };
                finished(Verdict::Skipped(reason), stdout)
            }
            // The reason of a test that should have panicked is in the message.
            ("test", "failed") => finished(Verdict::Failed, [stdout, message].join("\n")),
            // A suite that starts, and libtest's note that a test takes more than a minute.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(line: &str) -> (Verdict, Duration, String) {
        match Event::from_line(line).pop() {
            Some(Event::Finished { verdict, time, output, .. }) => (verdict, time, output),
            other => panic!("not the end of a test: {other:?}"),
        }
    }

    #[test]
    fn a_passed_test_has_its_time() {
        let (verdict, time, _) = finished(r#"{ "type": "test", "name": "a", "event": "ok", "exec_time": 1.5 }"#);
        assert_eq!((verdict, time), (Verdict::Passed, Duration::from_millis(1500)));
    }

    #[test]
    fn a_test_that_says_skipped_is_skipped_with_its_reason() {
        let line = r#"{ "type": "test", "name": "a", "event": "ok", "stdout": "hm\nskipped: needs Go 1.26\n" }"#;
        assert_eq!(finished(line).0, Verdict::Skipped("needs Go 1.26".to_owned()));
        let line = r#"{ "type": "test", "name": "a", "event": "ok", "stdout": "not skipped: fine\n" }"#;
        assert_eq!(finished(line).0, Verdict::Passed);
        let line = r#"{ "type": "test", "name": "a", "event": "ignored", "message": "slow" }"#;
        assert_eq!(finished(line).0, Verdict::Skipped("slow".to_owned()));
    }

    #[test]
    fn a_failed_test_failed_even_if_it_said_skipped() {
        let line = r#"{ "type": "test", "name": "a", "event": "failed", "stdout": "skipped: x\n", "message": "m" }"#;
        let (verdict, _, output) = finished(line);
        assert_eq!(verdict, Verdict::Failed);
        assert!(output.contains('m'));
    }

    #[test]
    fn output_of_a_child_process_is_passed_on_and_hides_no_result() {
        let line = r#"half a line{ "type": "test", "event": "started", "name": "a" }"#;
        let expected = [Event::Noise("half a line".to_owned()), Event::Started { name: "a".to_owned() }];
        assert_eq!(Event::from_line(line), expected);
        assert_eq!(Event::from_line(r#"{"level":"info"}"#), [Event::Noise(r#"{"level":"info"}"#.to_owned())]);
        assert_eq!(Event::from_line(""), []);
    }

    #[test]
    fn the_end_of_the_suite_ends_the_listening() {
        assert_eq!(Event::from_line(r#"{ "type": "suite", "event": "failed", "passed": 1 }"#), [Event::AllDone]);
        assert_eq!(Event::from_line(r#"{ "type": "suite", "event": "started", "test_count": 1 }"#), []);
    }
}
