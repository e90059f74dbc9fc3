//! The figures that reports compare, a row for each run.

use flexor_sched::sim::{Policy, Report};

use super::Case;
use crate::verbs::table::Table;

/// A heading, and a row for each run.
pub struct Figures {
    pub heading: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A column: its heading, and its cell for a run.
type Column = (&'static str, fn(&Report) -> String);

const CASE1: &[Column] = &[
    ("PENDING", |run| seconds(run.mean_pending())),
    ("LONGEST", |run| format!("{} s", run.longest_pending())),
    ("NEVER STARTED", |run| run.never_started().to_string()),
    ("CPU 300-500 s", |run| percent(run.cpu_percent(300, 500))),
    ("CPU 0-550 s", |run| percent(run.cpu_percent(0, 550))),
    ("TRAINERS AT 550 s", |run| run.trainers(550).to_string()),
    ("JAIN AT 550 s", |run| format!("{:.2}", run.jain(550))),
    ("ENDED", |run| run.trainers_ended.to_string()),
];

const CASE2: &[Column] = &[
    ("ATTAINMENT", |run| attainment(run.attainment())),
    ("FROM 389 s", |run| attainment(run.attainment_from(389))),
    ("400 REACHED", reached_again),
    ("CPU 0-550 s", |run| percent(run.cpu_percent(0, 550))),
    ("CPU 300-370 s", |run| percent(run.cpu_percent(300, 370))),
    ("PENDING", |run| seconds(run.mean_pending())),
    ("ENDED", |run| run.trainers_ended.to_string()),
];

const TUTORIAL: &[Column] = &[
    ("PENDING", |run| seconds(run.mean_pending())),
    ("TRAINERS AT 60 s", |run| of_each(run, 60)),
    ("TRAINERS AT 300 s", |run| of_each(run, 300)),
    ("CPU AT 60 s", |run| percent(run.cpu_percent(60, 60))),
    ("CPU AT 300 s", |run| percent(run.cpu_percent(300, 300))),
    ("ENDED", |run| run.trainers_ended.to_string()),
];

pub fn of(case: Case, runs: &[Report]) -> Figures {
    let columns = match case {
        Case::Case1 => CASE1,
        Case::Case2 => CASE2,
        Case::Tutorial => TUTORIAL,
    };
    let fixed = ["POLICY", "GRACE"].into_iter();
    let heading = fixed.chain(columns.iter().map(|(name, _)| *name)).map(str::to_owned).collect();
    let row = |run: &Report| {
        let fixed = [run.policy.to_string(), format!("{} s", run.grace)].into_iter();
        fixed.chain(columns.iter().map(|(_, cell)| cell(run))).collect()
    };
    Figures { heading, rows: runs.iter().map(row).collect() }
}

impl Figures {
    pub fn to_text(&self) -> String {
        Table::new(self.heading.clone()).rows(&self.rows)
    }

    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.heading.len()));
        line(&self.heading) + &rule + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

/// What was measured in the published runs.
pub fn published(case: Case) -> Option<&'static str> {
    match case {
        Case::Case1 => Some(
            "Published, and recomputed from the published logs: with EDL's autoscaler jobs were pending for 42.9 s (47.2) \
             on average and used 86 % (86.3) of the CPUs from 300 s to 500 s; jobs of a fixed size were pending for \
             280.5 s (308.5), 14 of 20 until the end, and used 88 % (88.7).",
        ),
        Case::Case2 => Some(
            "Published, and recomputed from the published logs: with EDL's autoscaler 83.4 % (83.7) of the CPUs were used \
             until 550 s, and Nginx did not get back to 400 pods in any run (attainment 0.892); with jobs of a fixed size \
             61.9 % (62.9).",
        ),
        Case::Tutorial => None,
    }
}

/// The name of a policy for files and in pictures.
pub fn policy_word(policy: Policy) -> &'static str {
    match policy {
        Policy::Off => "off",
        Policy::Edl => "edl-2017",
        Policy::EdlWithPriority => "edl-with-priority",
        Policy::Planned => "flexor",
    }
}

fn seconds(value: f64) -> String {
    format!("{value:.1} s")
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn attainment(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

/// Whether the service had all of its pods again at the end, and how long it took.
fn reached_again(run: &Report) -> String {
    let after = run.steps.last().and_then(|step| step.reached_after);
    after.map_or_else(|| "no".to_owned(), |seconds| format!("after {seconds} s"))
}

fn of_each(run: &Report, second: u32) -> String {
    let sample = run.samples.iter().find(|sample| sample.second == second);
    let each = sample.into_iter().flat_map(|sample| sample.trainers.iter().map(u32::to_string));
    each.collect::<Vec<_>>().join(" + ")
}
