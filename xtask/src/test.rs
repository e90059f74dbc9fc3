//! `cargo xtask test`: builds everything once and runs the tests tier by tier.
//!
//! Flow: [`build`] compiles the test programs, [`tier`] sorts their tests, [`program`] runs one program and reads its
//! events, [`house_checks`] adds `tidy` and `gen --check` to the unit tier, [`report`] adds up. A test makes what it
//! needs beyond the binary (clusters, namespaces) itself. [`preparation`] makes only what is slow the first time,
//! before the clock of the tests runs.

mod build;
mod house_checks;
mod preparation;
mod program;
mod report;
mod tier;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use self::build::TestProgram;
use self::report::{Outcome, Report, Verdict};
use self::tier::Tier;
use crate::tree::project_root;

/// As many failed tests of a program are run a second time; see [`give_a_second_chance`].
const SECOND_CHANCES: usize = 3;

/// Arguments of `cargo xtask test`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask test                          everything
  cargo xtask test --tier unit              what needs nothing but cargo
  cargo xtask test --tier unit,cluster
  cargo xtask test --tier cluster -- crd    tests of that tier whose path contains 'crd'

A test below crates/*/tests/ is in the tier that the first module of its path names (local,
peers, cluster, node); every other test is in the unit tier.")]
pub(crate) struct TestArgs {
    /// Run only these tiers, in their usual order
    #[arg(long = "tier", value_name = "TIER", value_enum, value_delimiter = ',')]
    tiers: Vec<Tier>,

    /// Run only tests whose path contains this
    #[arg(last = true, value_name = "FILTER")]
    filter: Option<String>,
}

/// Runs the tests; fails when one failed.
pub(crate) fn run(args: TestArgs) -> Result<ExitCode> {
    let filter = args.filter.as_deref();
    let root = project_root()?;
    let build::Build { flexor, programs } = build::workspace(&root)?;
    let mut sorted = Vec::new();
    for program in &programs {
        sorted.push((program, tests_by_tier(program, filter)?));
    }

    let mut report = Report::default();
    let wanted = |tier: &Tier| args.tiers.is_empty() || args.tiers.contains(tier);
    for tier in Tier::ALL.into_iter().filter(wanted) {
        let started = Instant::now();
        let before = report.totals();
        let chosen = sorted.iter().filter_map(|(program, tests)| Some((*program, tests.get(&tier)?.as_slice())));
        run_tier(tier, &chosen.collect::<Vec<_>>(), &flexor, &mut report)?;
        if tier == Tier::Unit {
            report.add(tier, house_checks::run(filter)?);
        }
        println!("{}", report.tier_line(tier, before, started.elapsed()));
    }
    if report.totals().all() == 0 {
        match filter {
            Some(filter) => bail!("no test of these tiers has '{filter}' in its path"),
            None => bail!("there are no tests in these tiers"),
        }
    }
    println!("{}", report.closing());
    Ok(if report.totals().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the tests of one tier, program by program.
fn run_tier(tier: Tier, chosen: &[(&TestProgram, &[String])], flexor: &Path, report: &mut Report) -> Result<()> {
    if !chosen.is_empty()
        && let Err(failure) = preparation::prepare(tier)
    {
        report.add(tier, vec![failure]);
        return Ok(());
    }
    for (program, tests) in chosen {
        let mut outcomes = program.run(flexor, tests, tier, &mut |line| println!("{line}"))?;
        give_a_second_chance(program, flexor, tier, &mut outcomes)?;
        report.add(tier, outcomes);
    }
    Ok(())
}

/// Runs failed tests once more, each alone. Most of ours are about real processes in real time, and machines are
/// shared: one stall must not hide the results of the other two thousand tests. The closing report names each test that
/// passes only then as a defect to mend. Where many fail it was no stall, and nothing is run again.
fn give_a_second_chance(program: &TestProgram, flexor: &Path, tier: Tier, outcomes: &mut [Outcome]) -> Result<()> {
    let failed: Vec<_> = outcomes.iter_mut().filter(|outcome| outcome.verdict == Verdict::Failed).collect();
    if failed.len() > SECOND_CHANCES {
        return Ok(());
    }
    for outcome in failed {
        println!("{:<8} {} failed; once more, alone", tier.name(), outcome.test);
        let again = program.run(flexor, std::slice::from_ref(&outcome.test), tier, &mut |line| println!("{line}"))?;
        if again.iter().all(|again| again.verdict == Verdict::Passed) {
            outcome.verdict = Verdict::Unsteady;
        }
    }
    Ok(())
}

fn tests_by_tier(program: &TestProgram, filter: Option<&str>) -> Result<BTreeMap<Tier, Vec<String>>> {
    let mut tests: BTreeMap<Tier, Vec<String>> = BTreeMap::new();
    for test in program.list()? {
        if filter.is_none_or(|wanted| test.contains(wanted)) {
            tests.entry(Tier::of(program.kind, &test)).or_default().push(test);
        }
    }
    Ok(tests)
}
