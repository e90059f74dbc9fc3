//! How long a job of stock torchrun stands still when its nodes change: against torchrun's own store, and against ours.
//!
//! Every [scenario] is played once per repeat on every [`Side`], with torchrun's default timers, three nodes and a
//! minimum of two. What counts is the time until the workers of the new world are started; the first step comes after
//! torch was imported, which is the same for everyone, and is printed beside it. A job that has not come back after
//! [`outcome::LIMIT`] is said to take forever.

mod first_byte;
mod flexor;
mod job;
mod outcome;
mod scenario;
mod side;

use anyhow::{Context, Result};
use flexor_testbed::Torch;

use self::outcome::Outcome;
use self::side::Side;
use super::row::Row;
use crate::compile;
use crate::tree::project_root;

pub(super) fn run(repeats: u32) -> Result<Vec<Row>> {
    let torch = Torch::ensure()?;
    let flexor = compile::flexor(&project_root()?, "release")?;
    let sides = [Side::Flexor { program: flexor }, Side::StockAsItIs, Side::StockAtItsBest];
    let mut rows = Vec::new();
    for scenario in scenario::ALL {
        let metric = scenario.metric;
        let mut outcomes: [Vec<Outcome>; 3] = Default::default();
        for _ in 0..repeats {
            for (side, outcomes) in sides.iter().zip(&mut outcomes) {
                let outcome = scenario.play(&torch, side).with_context(|| format!("{metric}, {side}"))?;
                eprintln!("{metric}, {side}: {outcome}");
                outcomes.push(outcome);
            }
        }
        let [ours, peers @ ..] = outcomes;
        for (side, peer) in sides[1..].iter().zip(peers) {
            rows.push(Row::seconds_within(metric, &seconds(&ours), &side.to_string(), &seconds(&peer), scenario.mark)?);
        }
    }
    Ok(rows)
}

fn seconds(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.recovered.unwrap_or(f64::INFINITY)).collect()
}
