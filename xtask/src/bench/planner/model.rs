//! EDL's published experiments on the model of `flexor sim`.
//!
//! All policies play the same cases. The model has no chance in it, so each is played once. Our figures stand beside
//! those of EDL's autoscaler of 2017; in case 2 beside the same with pod priority, the better opponent there.

use anyhow::{Context, Result};
use flexor_sched::sim::{Experiment, Policy, Report, run as play};

use super::{Row, Setup};

/// A case with pods that take so long to end, and what our planner is to reach there.
struct Marks {
    grace: u32,
    /// Seconds until a job starts, in case 1.
    mean_pending: f64,
    longest_pending: f64,
    /// The mean pending time of EDL 2017 in the model that reproduces the published run.
    edl_pending: f64,
}

const MARKS: [Marks; 2] = [
    Marks { grace: 5, mean_pending: 8.0, longest_pending: 10.0, edl_pending: 114.7 },
    Marks { grace: 30, mean_pending: 26.0, longest_pending: 36.0, edl_pending: 46.65 },
];
/// How far EDL 2017 may be from that, in percent: otherwise its figures here are no opponent.
const EDL_TOLERANCE: f64 = 5.0;
/// CPU use of case 1 in percent. Pods of five and four cores leave at most 93.5 % of these nodes.
const CASE1_CPU: f64 = 92.0;
const JAIN: f64 = 0.98;
/// Trainers that are ended before their job is.
const ENDED: f64 = 360.0;

const CPU: &str = "% of the CPUs";

pub(super) fn run(_: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for marks in &MARKS {
        rows.extend(case1(marks)?);
        rows.extend(case2(marks.grace)?);
    }
    Ok(rows)
}

/// The reports of all policies, which are printed.
fn play_all(case: fn(Policy, u32) -> Experiment, grace: u32) -> Vec<Report> {
    let reports: Vec<Report> = Policy::ALL.iter().map(|policy| play(&case(*policy, grace))).collect();
    for report in &reports {
        eprintln!(
            "{} with {grace} s to end, {}: pending {:.1} s, longest {} s, {} never; CPU {:.1} % from 300 to 500 s, \
             {:.1} % until 550 s; Jain {:.2}; {} trainers ended; attainment {:.3}",
            report.experiment,
            report.policy,
            report.mean_pending(),
            report.longest_pending(),
            report.never_started(),
            report.cpu_percent(300, 500),
            report.cpu_percent(0, 550),
            report.jain(550),
            report.trainers_ended,
            report.attainment().unwrap_or(f64::NAN),
        );
    }
    reports
}

fn of(reports: &[Report], policy: Policy) -> Result<&Report> {
    reports.iter().find(|report| report.policy == policy).with_context(|| format!("no run of {policy}"))
}

fn case1(marks: &Marks) -> Result<Vec<Row>> {
    let reports = play_all(Experiment::case1, marks.grace);
    let (ours, theirs) = (of(&reports, Policy::Planned)?, of(&reports, Policy::Edl)?);
    let metric = |what: &str| format!("case 1, pods take {} s to end: {what}", marks.grace);
    let peer = theirs.policy.to_string();
    let seconds = |what: &str, of: fn(&Report) -> f64, mark| {
        Row::seconds_within(&metric(what), &[of(ours)], &peer, &[of(theirs)], mark)
    };
    let most = |what: &str, unit, of: fn(&Report) -> f64, mark| {
        Row::rate_at_least(&metric(what), unit, &[of(ours)], &peer, &[of(theirs)], mark)
    };
    let off = 100.0 * (theirs.mean_pending() / marks.edl_pending - 1.0).abs();
    Ok(vec![
        seconds("jobs pending, mean", Report::mean_pending, marks.mean_pending)?,
        seconds("jobs pending, longest", |report| f64::from(report.longest_pending()), marks.longest_pending)?,
        Row::within(&metric("mean of EDL 2017, off the published model"), "%", &[off], EDL_TOLERANCE)?,
        most("CPU, 300 to 500 s", CPU, |report| report.cpu_percent(300, 500), CASE1_CPU)?,
        most("Jain's index at 550 s", "", |report| report.jain(550), JAIN)?,
        Row::cost_within(
            &metric("trainers ended"),
            "trainers",
            &[f64::from(ours.trainers_ended)],
            &peer,
            &[f64::from(theirs.trainers_ended)],
            ENDED,
        )?,
    ])
}

/// No planner reaches more than about 89 % of the CPUs here: Nginx stays where the scheduler has put it.
fn case2(grace: u32) -> Result<Vec<Row>> {
    let reports = play_all(Experiment::case2, grace);
    let (ours, theirs) = (of(&reports, Policy::Planned)?, of(&reports, Policy::EdlWithPriority)?);
    let metric = |what: &str| format!("case 2, pods take {grace} s to end: {what}");
    let peer = theirs.policy.to_string();
    let not_below = |what: &str, unit, of: fn(&Report) -> f64| {
        Row::rate(&metric(what), unit, &[of(ours)], &peer, &[of(theirs)], 1.0)
    };
    let missed = |report: &Report| report.steps.iter().filter(|step| step.reached_after.is_none()).count() as f64;
    Ok(vec![
        not_below("attainment of Nginx", "", |report| report.attainment().unwrap_or(f64::NAN))?,
        not_below("CPU, 0 to 550 s", CPU, |report| report.cpu_percent(0, 550))?,
        Row::cost_within(
            &metric("sizes that Nginx did not reach"),
            "of 6",
            &[missed(ours)],
            &peer,
            &[missed(theirs)],
            0.0,
        )?,
    ])
}
