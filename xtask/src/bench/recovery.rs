//! How long a job of stock torchrun stands still when its nodes change: against torchrun's own store, and against ours.
//!
//! Every [scenario] is played once per repeat on every [`Side`], with torchrun's default timers, three nodes and a
//! minimum of two. What counts is the time until the workers of the new world are started; the first step comes after
//! torch was imported, which is the same for everyone, and is printed beside it. A job that has not come back after
//! [`outcome::LIMIT`] is said to take forever.
//!
//! Ours is played alone, one job at a time. Stock torchrun recovers by its timers, tens of seconds long: its jobs are
//! played [`STOCK_JOBS_AT_ONCE`], which costs them little and saves most of an hour.

mod first_byte;
mod job;
mod outcome;
mod scenario;
mod side;

use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};
use flexor_testbed::Torch;
use nix::unistd::Uid;

use self::outcome::Outcome;
use self::scenario::Scenario;
use self::side::Side;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// How often each scenario is played when nobody says: with this a run ends in about 25 minutes.
pub(super) const REPEATS: u32 = 2;

/// How many jobs of stock torchrun run side by side, a dozen mostly idle processes each.
const STOCK_JOBS_AT_ONCE: usize = 4;

/// Plays all scenarios whose metric contains `filter`.
pub(super) fn run(repeats: u32, filter: Option<&str>) -> Result<Vec<Row>> {
    let chosen: Vec<&Scenario> = scenario::ALL.iter().filter(|scenario| is_wanted(scenario, filter)).collect();
    if chosen.is_empty() {
        let known: Vec<_> = scenario::ALL.iter().map(|scenario| scenario.metric).collect();
        bail!("no scenario has '{}' in its name; there are:\n  {}", filter.unwrap_or_default(), known.join("\n  "));
    }
    let torch = Torch::ensure()?;
    let ours = Side::Flexor { program: compile::flexor(&project_root()?, "release")? };
    let peers = [Side::StockAsItIs, Side::StockAtItsBest];
    let mut played = play_all(&torch, &chosen, &[&ours], repeats, 1)?;
    played.extend(play_all(&torch, &chosen, &peers.each_ref(), repeats, STOCK_JOBS_AT_ONCE)?);
    rows(&chosen, &played, &ours, &peers)
}

/// What was played, against each peer: the time of every scenario, and what is counted over all of them.
fn rows(scenarios: &[&Scenario], played: &[Played], ours: &Side, peers: &[Side]) -> Result<Vec<Row>> {
    let of_side = |side: &Side| {
        let name = side.to_string();
        played.iter().filter(move |one| one.side == name)
    };
    let mut rows = Vec::new();
    for Scenario { metric, mark, .. } in scenarios {
        let seconds = |side: &Side| -> Vec<f64> {
            let samples = of_side(side).filter(|one| one.metric == *metric);
            samples.map(|one| one.outcome.recovered.unwrap_or(f64::INFINITY)).collect()
        };
        for peer in peers {
            rows.push(Row::seconds_within(metric, &seconds(ours), &peer.to_string(), &seconds(peer), *mark)?);
        }
    }
    for Count { metric, unit, of } in PER_CHANGE {
        let most = |side: &Side| [of_side(side).map(of).fold(0.0, f64::max)];
        for peer in peers {
            rows.push(Row::cost_within(metric, unit, &most(ours), &peer.to_string(), &most(peer), 1.0)?);
        }
    }
    Ok(rows)
}

/// Something that is counted over all scenarios and repeats, and of which the most is told.
struct Count {
    metric: &'static str,
    unit: &'static str,
    of: fn(&Played) -> f64,
}

const PER_CHANGE: [Count; 2] = [
    Count {
        metric: "restarts that torchrun charged for one change, at most",
        unit: "restarts",
        of: |one| f64::from(one.outcome.charged) / f64::from(one.changes),
    },
    Count {
        metric: "times that the workers of a node were started for one change, at most",
        unit: "starts",
        of: |one| one.outcome.starts as f64 / f64::from(one.changes),
    },
];

fn is_wanted(scenario: &Scenario, filter: Option<&str>) -> bool {
    if filter.is_some_and(|wanted| !scenario.metric.contains(wanted)) {
        return false;
    }
    let possible = !scenario.needs_root || Uid::effective().is_root();
    if !possible {
        eprintln!("skipped: {} (needs root to make network namespaces)", scenario.metric);
    }
    possible
}

/// One scenario that was played on one side.
struct Played {
    metric: &'static str,
    changes: u32,
    side: String,
    outcome: Outcome,
}

/// Plays every scenario on every side, so many jobs side by side.
fn play_all(
    torch: &Torch,
    scenarios: &[&Scenario],
    sides: &[&Side],
    repeats: u32,
    at_once: usize,
) -> Result<Vec<Played>> {
    let games =
        (0..repeats).flat_map(|_| scenarios.iter().flat_map(|game| sides.iter().map(move |side| (*game, *side))));
    let games = Mutex::new(games);
    let next = || games.lock().ok().and_then(|mut games| games.next());
    let play_on = || -> Result<Vec<Played>> {
        let mut played = Vec::new();
        while let Some((scenario, side)) = next() {
            let (metric, changes) = (scenario.metric, scenario.changes);
            let outcome = scenario.play(torch, side).with_context(|| format!("{metric}, {side}"))?;
            eprintln!("{metric}, {side}: {outcome}");
            played.push(Played { metric, changes, side: side.to_string(), outcome });
        }
        Ok(played)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let players: Vec<_> = (0..at_once).map(|_| scope.spawn(play_on)).collect();
        players.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut all = Vec::new();
    for result in results {
        let Ok(played) = result else { bail!("a thread that played scenarios panicked; its message is above") };
        all.extend(played?);
    }
    Ok(all)
}
