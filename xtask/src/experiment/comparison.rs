//! How far a run on the real control plane is from the model's run of the same policy.

use flexor::sim::table::Figures;
use flexor_sched::sim::Report;

use super::Case;

/// The mark: so far may a figure be from the model's.
const MARK: f64 = 0.10;

/// A figure that both runs have.
struct Figure {
    name: &'static str,
    unit: &'static str,
    decimals: usize,
    /// None where the run has no such figure.
    of: fn(&Report) -> Option<f64>,
}

const fn figure(name: &'static str, unit: &'static str, decimals: usize, of: fn(&Report) -> Option<f64>) -> Figure {
    Figure { name, unit, decimals, of }
}

const CASE1: &[Figure] = &[
    figure("pending, mean", " s", 1, |run| Some(run.mean_pending())),
    figure("pending, longest", " s", 0, |run| Some(f64::from(run.longest_pending()))),
    figure("CPU 300-500 s", " %", 1, |run| Some(run.cpu_percent(300, 500))),
    figure("CPU 0-550 s", " %", 1, |run| Some(run.cpu_percent(0, 550))),
    figure("trainers at 550 s", "", 0, |run| Some(f64::from(run.trainers(550)))),
    figure("Jain at 550 s", "", 2, |run| Some(run.jain(550))),
    figure("trainers ended", "", 0, |run| Some(f64::from(run.trainers_ended))),
];

const CASE2: &[Figure] = &[
    figure("attainment", "", 3, Report::attainment),
    figure("attainment from 389 s", "", 3, |run| run.attainment_from(389)),
    figure("400 reached after", " s", 0, |run| run.steps.last()?.reached_after.map(f64::from)),
    figure("CPU 0-550 s", " %", 1, |run| Some(run.cpu_percent(0, 550))),
    figure("CPU 300-370 s", " %", 1, |run| Some(run.cpu_percent(300, 370))),
    figure("pending, mean", " s", 1, |run| Some(run.mean_pending())),
    figure("trainers ended", "", 0, |run| Some(f64::from(run.trainers_ended))),
];

/// A row for each figure.
pub(super) fn of(case: Case, real: &Report, model: &Report) -> Figures {
    let figures = match case {
        Case::Case1 => CASE1,
        Case::Case2 => CASE2,
    };
    let heading = ["FIGURE", "REAL", "MODEL", "DISTANCE", "WITHIN 10 %"].map(str::to_owned).to_vec();
    Figures { heading, rows: figures.iter().map(|figure| row(figure, real, model)).collect() }
}

fn row(figure: &Figure, real: &Report, model: &Report) -> Vec<String> {
    let (real, model) = ((figure.of)(real), (figure.of)(model));
    let cell = |value: Option<f64>| {
        value.map_or_else(|| "never".to_owned(), |value| format!("{value:.*}{}", figure.decimals, figure.unit))
    };
    let distance = real.zip(model).and_then(|(real, model)| distance(real, model));
    // That neither run has a figure is no difference.
    let is_within = distance.map_or(real.is_none() && model.is_none(), |distance| distance.abs() <= MARK);
    let distance = distance.map_or_else(|| "-".to_owned(), |distance| format!("{:+.1} %", 100.0 * distance));
    let is_within = if is_within { "yes" } else { "no" };
    vec![figure.name.to_owned(), cell(real), cell(model), distance, is_within.to_owned()]
}

/// The difference as a part of the model's figure. None if that is 0 and the real one is not.
fn distance(real: f64, model: f64) -> Option<f64> {
    match (real == model, model == 0.0) {
        (true, _) => Some(0.0),
        (false, true) => None,
        (false, false) => Some((real - model) / model),
    }
}

#[cfg(test)]
mod tests {
    use flexor_sched::sim::{Experiment, Policy, run};

    use super::*;

    fn rows(case: Case, real: &Report, model: &Report) -> Vec<[String; 3]> {
        let rows = of(case, real, model).rows.into_iter();
        rows.map(|row| [row[0].clone(), row[3].clone(), row[4].clone()]).collect()
    }

    #[test]
    fn a_run_is_as_far_from_itself_as_nothing() {
        for (case, experiment) in [(Case::Case1, Experiment::case1 as fn(_, _) -> _), (Case::Case2, Experiment::case2)]
        {
            let report = run(&experiment(Policy::Planned, 5));
            assert!(rows(case, &report, &report).iter().all(|row| row[1] == "+0.0 %" && row[2] == "yes"));
        }
    }

    #[test]
    fn a_figure_beyond_the_mark_is_named() {
        let model = run(&Experiment::case1(Policy::Planned, 5));
        let ended = model.trainers_ended + model.trainers_ended / 5;
        let real = Report { trainers_ended: ended, ..model.clone() };
        let beyond: Vec<[String; 3]> =
            rows(Case::Case1, &real, &model).into_iter().filter(|row| row[2] == "no").collect();
        assert_eq!(beyond.len(), 1);
        assert_eq!(beyond[0][0], "trainers ended");
    }

    #[test]
    fn a_state_that_one_run_never_reached_is_beyond_the_mark() {
        let model = run(&Experiment::case2(Policy::Planned, 5));
        let real = Report { steps: Vec::new(), ..model.clone() };
        let row = rows(Case::Case2, &real, &model).into_iter().find(|row| row[0] == "400 reached after").unwrap();
        assert_eq!(row[1..], ["-", "no"]);
        assert_eq!(distance(1.0, 0.0), None);
    }
}
