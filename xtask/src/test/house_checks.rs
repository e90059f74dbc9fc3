//! `tidy` and `gen --check` as tests of the unit tier, one test per rule and per page.

use std::time::Instant;

use anyhow::Result;

use super::report::{self, Outcome, Verdict};
use super::tier::Tier;
use crate::generate;
use crate::tidy::{self, Finding, Weight};
use crate::tree::Tree;

/// Runs the checks whose name contains `filter`.
pub(super) fn run(filter: Option<&str>) -> Result<Vec<Outcome>> {
    let tree = Tree::of_project()?;
    let begun = Instant::now();
    let mut outcomes = Vec::new();
    let mut judge = |test: String, complaints: &dyn Fn() -> Result<Vec<String>>| {
        if filter.is_some_and(|wanted| !test.contains(wanted)) {
            return;
        }
        let started = Instant::now();
        // A check that cannot run is a failure of that check, not of the run.
        let complaints = complaints().unwrap_or_else(|error| vec![format!("{error:#}")]);
        let verdict = if complaints.is_empty() { Verdict::Passed } else { Verdict::Failed };
        if verdict == Verdict::Failed {
            println!("---- FAILED {test}\n{}\n----", complaints.join("\n"));
        }
        let (program, time) = ("xtask".to_owned(), started.elapsed());
        outcomes.push(Outcome { program, test, verdict, time, output: complaints.join("\n") });
    };
    for check in tidy::CHECKS {
        judge(format!("tidy::{}", check.name), &|| {
            let (fails, noted): (Vec<_>, Vec<_>) =
                (check.run)(&tree)?.into_iter().partition(|finding| finding.weight == Weight::Fails);
            noted.iter().for_each(|finding| println!("note: {finding}"));
            Ok(fails.iter().map(Finding::to_string).collect())
        });
    }
    for page in generate::PAGES {
        judge(format!("gen::{}", page.name), &|| {
            let mut complaints = generate::stale(&tree, page)?;
            if !complaints.is_empty() {
                complaints.push(generate::REMEDY.to_owned());
            }
            Ok(complaints)
        });
    }
    if !outcomes.is_empty() {
        println!("{}", report::group_line(Tier::Unit, "tidy and gen", &outcomes, begun.elapsed()));
    }
    Ok(outcomes)
}
