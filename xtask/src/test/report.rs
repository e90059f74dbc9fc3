//! Adds up the results of the tests and prints them at the end.
//!
//! The last line is also for machines: `N passed, N failed, N skipped`, alone.

use std::fmt;
use std::ops::Sub;
use std::time::Duration;

use super::tier::Tier;

/// A test that takes longer is named at the end.
const SLOW: Duration = Duration::from_secs(30);

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// It could not run here, for this reason.
    Skipped(String),
    Failed,
    /// It failed, and passed when it was run again alone.
    Unsteady,
}

/// One test that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The package and the target of the test.
    pub(super) program: String,
    pub(super) test: String,
    pub(super) verdict: Verdict,
    pub(super) time: Duration,
    pub(super) output: String,
}

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Totals {
    pub(super) fn all(self) -> usize {
        self.passed + self.failed + self.skipped
    }
}

impl Sub for Totals {
    type Output = Totals;

    fn sub(self, earlier: Totals) -> Totals {
        Totals {
            passed: self.passed - earlier.passed,
            failed: self.failed - earlier.failed,
            skipped: self.skipped - earlier.skipped,
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The line that closes a group of tests inside a tier.
pub(super) fn group_line(tier: Tier, name: &str, outcomes: &[Outcome], time: Duration) -> String {
    let failed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Failed).count();
    let failed = if failed > 0 { format!("  {failed} FAILED") } else { String::new() };
    format!("{:<8} {name:<28} {:>4} tests  {:>6.1} s{failed}", tier.name(), outcomes.len(), time.as_secs_f64())
}

/// Everything that was run so far.
#[derive(Default)]
pub(super) struct Report {
    outcomes: Vec<(Tier, Outcome)>,
}

impl Report {
    pub(super) fn add(&mut self, tier: Tier, outcomes: Vec<Outcome>) {
        self.outcomes.extend(outcomes.into_iter().map(|outcome| (tier, outcome)));
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (_, outcome) in &self.outcomes {
            match outcome.verdict {
                Verdict::Passed | Verdict::Unsteady => totals.passed += 1,
                Verdict::Failed => totals.failed += 1,
                Verdict::Skipped(_) => totals.skipped += 1,
            }
        }
        totals
    }

    /// The line that closes a tier.
    pub(super) fn tier_line(&self, tier: Tier, before: Totals, time: Duration) -> String {
        let totals = self.totals() - before;
        match totals.all() {
            0 => format!("{}: no tests", tier.name()),
            _ => format!("{}: {totals} in {:.1} s", tier.name(), time.as_secs_f64()),
        }
    }

    /// Slow tests, skipped tests with reasons, and failed tests; the totals last.
    pub(super) fn closing(&self) -> String {
        let mut text = String::new();
        let mut section = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                text.push_str(&format!("\n{title}\n  {}\n", lines.join("\n  ")));
            }
        };
        let named = |tier: &Tier, outcome: &Outcome| format!("{} {} ({})", tier.name(), outcome.test, outcome.program);
        section(
            &format!("over {} s:", SLOW.as_secs()),
            self.pick(|tier, outcome| {
                let slow = outcome.time > SLOW;
                slow.then(|| format!("{:.0} s  {}", outcome.time.as_secs_f64(), named(tier, outcome)))
            }),
        );
        section(
            "skipped:",
            self.pick(|tier, outcome| match &outcome.verdict {
                Verdict::Skipped(reason) => Some(format!("{}: {reason}", named(tier, outcome))),
                Verdict::Passed | Verdict::Failed | Verdict::Unsteady => None,
            }),
        );
        section(
            "unsteady, each a defect of the test or of what it tests (failed, and passed when run again alone; the output is above):",
            self.pick(|tier, outcome| (outcome.verdict == Verdict::Unsteady).then(|| named(tier, outcome))),
        );
        section(
            "failed (the output of each is above):",
            self.pick(|tier, outcome| (outcome.verdict == Verdict::Failed).then(|| named(tier, outcome))),
        );
        format!("{text}\n{}", self.totals())
    }

    fn pick(&self, line: impl Fn(&Tier, &Outcome) -> Option<String>) -> Vec<String> {
        self.outcomes.iter().filter_map(|(tier, outcome)| line(tier, outcome)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(test: &str, verdict: Verdict, seconds: u64) -> Outcome {
        let time = Duration::from_secs(seconds);
        Outcome { program: "flexor it".to_owned(), test: test.to_owned(), verdict, time, output: String::new() }
    }

    #[test]
    fn the_last_line_is_the_totals_alone() {
        let mut report = Report::default();
        report.add(Tier::Unit, vec![outcome("a", Verdict::Passed, 1), outcome("b", Verdict::Passed, 31)]);
        let before = report.totals();
        let skipped = Verdict::Skipped("needs Go 1.26".to_owned());
        report.add(Tier::Cluster, vec![outcome("cluster::c", skipped, 0), outcome("cluster::d", Verdict::Failed, 2)]);
        assert_eq!(
            report.closing(),
            "\nover 30 s:\n  31 s  unit b (flexor it)\n\
             \nskipped:\n  cluster cluster::c (flexor it): needs Go 1.26\n\
             \nfailed (the output of each is above):\n  cluster cluster::d (flexor it)\n\
             \n2 passed, 1 failed, 1 skipped"
        );
        let line = report.tier_line(Tier::Cluster, before, Duration::from_millis(2500));
        assert_eq!(line, "cluster: 0 passed, 1 failed, 1 skipped in 2.5 s");
    }

    #[test]
    fn an_unsteady_test_counts_as_passed_and_is_named() {
        let mut report = Report::default();
        report.add(Tier::Unit, vec![outcome("a", Verdict::Unsteady, 1)]);
        let closing = report.closing();
        assert!(closing.contains("unsteady") && closing.contains("unit a (flexor it)"), "{closing}");
        assert!(closing.ends_with("\n1 passed, 0 failed, 0 skipped"), "{closing}");
    }

    #[test]
    fn a_tier_without_tests_says_so() {
        let report = Report::default();
        assert_eq!(report.tier_line(Tier::Node, report.totals(), Duration::ZERO), "node: no tests");
    }
}
