//! How long a job pauses when its nodes change: stock torchrun on our store and `flexor launch`, against stock torchrun
//! alone.
//!
//! Each [scenario] runs once per repeat on every [`Side`], with torchrun's default timers, three nodes and a minimum of
//! two. There are two clocks: the time until the workers of the new world are started, which has a mark, and the time
//! until all of them have done the next training step. The second includes the import of torch, which is the same for
//! every side. A job that has not recovered after
//! [`outcome::LIMIT`] counts as never recovering.
//!
//! Our jobs run one at a time. Stock torchrun recovers by timers of tens of seconds, so [`STOCK_JOBS_AT_ONCE`] of its
//! jobs run concurrently. That costs them little and saves most of an hour.

mod contest;
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

use self::contest::Contest;
use self::outcome::Outcome;
use self::scenario::{Cause, Scenario};
use self::side::Side;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

/// The default number of repeats: a run then takes about half an hour.
pub(super) const REPEATS: u32 = 2;

/// How many jobs of stock torchrun run side by side, a dozen mostly idle processes each.
const STOCK_JOBS_AT_ONCE: usize = 4;

/// A scenario and the side that runs it.
type Game<'a> = (&'a Scenario, &'a Side);

/// Runs everything whose metric contains `filter`.
pub(super) fn run(repeats: u32, filter: Option<&str>) -> Result<Vec<Row>> {
    let possible: Vec<&Scenario> = scenario::ALL.iter().filter(|scenario| is_possible(scenario)).collect();
    let program = compile::flexor(&project_root()?, "release")?;
    let ours = [Side::Flexor { program: program.clone() }, Side::FlexorLaunch { program }];
    let peers = [Side::StockAsItIs, Side::StockAtItsBest];
    let contests = [Contest::of_stores(&ours[0], &peers), Contest::of_launchers(&ours[1], &peers[1..])];
    let contests = contests.map(|contest| contest.choose(&possible, filter));
    if contests.iter().all(|contest| contest.scenarios().is_empty()) {
        let known: Vec<_> = possible.iter().map(|scenario| scenario.metric).collect();
        let wanted = filter.unwrap_or_default();
        bail!(
            "no metric has '{wanted}' in its name; there are, alone and for flexor launch:\n  {}",
            known.join("\n  ")
        );
    }
    let torch = Torch::ensure()?;
    let wanted = |game: &Game<'_>| contests.iter().any(|contest| contest.needs(game.0, game.1));
    let games = |sides| all_games(&possible, sides).filter(wanted).collect::<Vec<_>>();
    let mut runs = play_all(&torch, &games(&ours), repeats, 1)?;
    runs.extend(play_all(&torch, &games(&peers), repeats, STOCK_JOBS_AT_ONCE)?);
    let mut rows = Vec::new();
    for contest in &contests {
        rows.extend(contest.rows(&runs)?);
    }
    Ok(rows)
}

/// Every scenario on every side.
fn all_games<'a>(scenarios: &'a [&Scenario], sides: &'a [Side]) -> impl Iterator<Item = Game<'a>> {
    scenarios.iter().flat_map(move |scenario| sides.iter().map(move |side| (*scenario, side)))
}

fn is_possible(scenario: &Scenario) -> bool {
    let possible = !scenario.needs_root || Uid::effective().is_root();
    if !possible {
        eprintln!("skipped: {} (needs root to make network namespaces)", scenario.metric);
    }
    possible
}

/// One scenario on one side, with its outcome.
struct ScenarioRun {
    metric: &'static str,
    changes: u32,
    cause: Cause,
    side: String,
    outcome: Outcome,
}

/// Runs every game, this many jobs side by side.
fn play_all(torch: &Torch, games: &[Game<'_>], repeats: u32, at_once: usize) -> Result<Vec<ScenarioRun>> {
    let games = Mutex::new((0..repeats).flat_map(|_| games.iter().copied()));
    let next = || games.lock().ok().and_then(|mut games| games.next());
    let play_on = || -> Result<Vec<ScenarioRun>> {
        let mut runs = Vec::new();
        while let Some((scenario, side)) = next() {
            let Scenario { metric, changes, cause, .. } = *scenario;
            let outcome = scenario.play(torch, side).with_context(|| format!("{metric}, {side}"))?;
            eprintln!("{metric}, {side}: {outcome}");
            runs.push(ScenarioRun { metric, changes, cause, side: side.to_string(), outcome });
        }
        Ok(runs)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let players: Vec<_> = (0..at_once).map(|_| scope.spawn(play_on)).collect();
        players.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let mut all = Vec::new();
    for result in results {
        let Ok(runs) = result else { bail!("a thread that played scenarios panicked; its message is above") };
        all.extend(runs?);
    }
    Ok(all)
}
