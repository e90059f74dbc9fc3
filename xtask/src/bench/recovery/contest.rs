//! One of our sides, its peers, and its marks: the rows of the result.

use anyhow::Result;

use super::ScenarioRun;
use super::outcome::Outcome;
use super::scenario::{Cause, Marks, RELEASED, Scenario};
use super::side::Side;
use crate::bench::row::Row;

/// One side of ours against its peers.
pub(super) struct Contest<'a> {
    /// The prefix of its metrics.
    prefix: &'static str,
    ours: &'a Side,
    peers: &'a [Side],
    mark: fn(&Marks) -> f64,
    counts: &'static [Counter],
    scenarios: Vec<&'a Scenario>,
}

/// A count over all scenarios and repeats, of which the maximum is shown.
struct Counter {
    metric: &'static str,
    unit: &'static str,
    mark: f64,
    of: fn(&ScenarioRun) -> f64,
}

const WITH_TORCHRUN: &[Counter] = &[
    Counter {
        metric: "restarts that torchrun charged for one change, at most",
        unit: "restarts",
        mark: 1.0,
        of: charged_per_change,
    },
    STARTS,
];

const WITH_LAUNCH: &[Counter] = &[
    Counter {
        metric: "restarts charged for one change of the nodes, at most",
        unit: "restarts",
        mark: 0.0,
        of: |one| match one.cause {
            Cause::Nodes => charged_per_change(one),
            Cause::Program => 0.0,
        },
    },
    STARTS,
];

const STARTS: Counter = Counter {
    metric: "times that the workers of a node were started for one change, at most",
    unit: "starts",
    mark: 1.0,
    of: |one| one.outcome.starts as f64 / f64::from(one.changes),
};

fn charged_per_change(one: &ScenarioRun) -> f64 {
    f64::from(one.outcome.charged) / f64::from(one.changes)
}

impl<'a> Contest<'a> {
    /// Stock torchrun on our store against stock torchrun on its own.
    pub(super) fn of_stores(ours: &'a Side, peers: &'a [Side]) -> Contest<'a> {
        let scenarios = Vec::new();
        Contest { prefix: "", ours, peers, mark: |marks| marks.torchrun, counts: WITH_TORCHRUN, scenarios }
    }

    /// `flexor launch` against stock torchrun.
    pub(super) fn of_launchers(ours: &'a Side, peers: &'a [Side]) -> Contest<'a> {
        let scenarios = Vec::new();
        Contest { prefix: "flexor launch: ", ours, peers, mark: |marks| marks.launch, counts: WITH_LAUNCH, scenarios }
    }

    /// Keeps the scenarios whose metric contains `filter`.
    pub(super) fn choose(self, scenarios: &[&'a Scenario], filter: Option<&str>) -> Contest<'a> {
        let is_wanted = |scenario: &&Scenario| filter.is_none_or(|wanted| self.metric(scenario).contains(wanted));
        let scenarios = scenarios.iter().copied().filter(is_wanted).collect();
        Contest { scenarios, ..self }
    }

    pub(super) fn scenarios(&self) -> &[&'a Scenario] {
        &self.scenarios
    }

    /// Whether the contest needs this scenario on this side.
    pub(super) fn needs(&self, scenario: &Scenario, side: &Side) -> bool {
        let takes_part = self.ours == side || self.peers.contains(side);
        takes_part && self.scenarios.iter().any(|one| one.metric == scenario.metric)
    }

    /// The time of every scenario, and the counts over all of them; empty without a scenario.
    pub(super) fn rows(&self, runs: &[ScenarioRun]) -> Result<Vec<Row>> {
        if self.scenarios.is_empty() {
            return Ok(Vec::new());
        }
        let of_side = |side: &Side| {
            let name = side.to_string();
            let is_chosen = |one: &ScenarioRun| self.scenarios.iter().any(|scenario| scenario.metric == one.metric);
            runs.iter().filter(move |one| one.side == name && is_chosen(one))
        };
        let mut rows = Vec::new();
        for scenario in &self.scenarios {
            let seconds = |side: &Side, clock: fn(&Outcome) -> Option<f64>| -> Vec<f64> {
                let samples = of_side(side).filter(|one| one.metric == scenario.metric);
                samples.map(|one| clock(&one.outcome).unwrap_or(f64::INFINITY)).collect()
            };
            let (metric, mark) = (self.metric(scenario), (self.mark)(&scenario.marks));
            let stepped = step_metric(&metric);
            for peer in self.peers {
                let name = peer.to_string();
                let [ours, peers] = [self.ours, peer].map(|side| seconds(side, |outcome| outcome.recovered));
                rows.push(Row::seconds_within(&metric, &ours, &name, &peers, mark)?);
                // The time that the program itself takes to its first step is not the launcher's, so it has no mark.
                if let Some(stepped) = &stepped {
                    let [ours, peers] = [self.ours, peer].map(|side| seconds(side, |outcome| outcome.first_step));
                    rows.push(Row::seconds_within(stepped, &ours, &name, &peers, mark)?.for_information());
                }
            }
        }
        for Counter { metric, unit, mark, of } in self.counts {
            let most = |side: &Side| [of_side(side).map(of).fold(0.0, f64::max)];
            let metric = format!("{}{metric}", self.prefix);
            for peer in self.peers {
                rows.push(Row::cost_within(&metric, unit, &most(self.ours), &peer.to_string(), &most(peer), *mark)?);
            }
        }
        Ok(rows)
    }
    /// The name of a scenario of this contest in results.
    fn metric(&self, scenario: &Scenario) -> String {
        format!("{}{}", self.prefix, scenario.metric)
    }
}

/// The name of the row beside a scenario's own: until all workers of the new world have done a training step. None for a
/// scenario whose workers have no step left.
fn step_metric(metric: &str) -> Option<String> {
    let (event, measured) = metric.rsplit_once(": ")?;
    (measured != RELEASED).then(|| format!("{event}: next step done"))
}

#[cfg(test)]
mod tests {
    use super::super::scenario::ALL;
    use super::*;

    #[test]
    fn a_filter_picks_by_the_name_of_the_row() {
        let (ours, peers) = (Side::FlexorLaunch { program: "flexor".into() }, [Side::StockAtItsBest]);
        let all: Vec<&Scenario> = ALL.iter().collect();
        let chosen = |filter: &str| {
            let contests = [Contest::of_stores(&ours, &peers), Contest::of_launchers(&ours, &peers)];
            contests.map(|contest| contest.choose(&all, Some(filter)).scenarios().len())
        };
        assert_eq!(chosen("SIGSTOP"), [1, 1]);
        assert_eq!(chosen("flexor launch"), [0, all.len()]);
        assert_eq!(chosen("flexor launch: SIGTERM"), [0, 1]);
    }

    #[test]
    fn every_scenario_with_a_new_world_has_a_row_for_its_next_step() {
        let stepped: Vec<String> = ALL.iter().filter_map(|scenario| step_metric(scenario.metric)).collect();
        assert_eq!(stepped.len(), ALL.len() - 1, "workers in the exit barrier have made all their steps");
        assert_eq!(stepped[0], "SIGKILL of a node, not rank 0: next step done");
        let unlike = ALL.iter().filter_map(|scenario| step_metric(&format!("flexor launch: {}", scenario.metric)));
        assert!(unlike.zip(stepped).all(|(launched, alone)| launched == format!("flexor launch: {alone}")));
    }

    #[test]
    fn only_chosen_scenarios_are_run() {
        let (ours, peers) = (Side::FlexorLaunch { program: "flexor".into() }, [Side::StockAtItsBest]);
        let contest = Contest::of_launchers(&ours, &peers).choose(&[&ALL[0]], None);
        assert!(contest.needs(&ALL[0], &ours) && contest.needs(&ALL[0], &Side::StockAtItsBest));
        assert!(!contest.needs(&ALL[1], &ours) && !contest.needs(&ALL[0], &Side::StockAsItIs));
    }
}
