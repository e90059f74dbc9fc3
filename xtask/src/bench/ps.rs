//! Pulls and pushes of embedding rows: ours against ElasticDL's released server and Redis, and beside PaddlePaddle's.
//!
//! Our server and ElasticDL's get the same load ([`wire_load`]): the same bytes of `proto.Pserver`, made before the
//! clock starts, from clients with one request in flight each. Redis gets the same rows as values ([`redis`]), which is
//! a parameter server without its optimizer. PaddlePaddle's server is driven on its own wire ([`paddle`]) and has no
//! target. The load on our native API uses our client ([`native`]), which sorts, sends and reads as a worker does, so
//! that load costs more than the others'.
//!
//! Each repeat starts a new server. **First touch** requests rows that do not exist yet; **pull** and **push** use
//! existing rows. The load has one half of the cores and the servers the other ([`cores`]), one side at a time. The
//! cost of a server is its CPU time per row.

mod case;
mod cores;
mod go_server;
mod keys;
mod measure;
mod native;
mod our_server;
mod paddle;
mod redis;
mod side;
mod wire_load;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use self::case::{Case, Optimizer};
use self::keys::Keys;
use self::measure::Measurement;
use self::side::{Phase, Programs, Side};
use super::row::Row;

/// More repeats would take longer and show nothing new.
const MOST_REPEATS: u32 = 5;

/// The target speedup over ElasticDL's server: where it draws every row anew or has state, and elsewhere.
const SLOW_THERE: f64 = 5.0;
const ELSEWHERE: f64 = 2.0;
/// How much faster than Redis.
const REDIS: f64 = 2.0;

/// The measurements of one side in one repeat.
struct PsSample {
    first_touch: Measurement,
    pull: Measurement,
    push: Measurement,
}

type Selector = fn(&PsSample) -> Measurement;

/// A few informative cases; takes minutes.
pub(super) fn quick(repeats: u32) -> Result<Vec<Row>> {
    let cases = [
        Case { dim: 8, optimizer: Optimizer::Sgd, batch: 10_000, clients: 2, keys: Keys::Uniform },
        Case { dim: 16, optimizer: Optimizer::Adam, batch: 10_000, clients: 2, keys: Keys::Uniform },
        Case { dim: 64, optimizer: Optimizer::Adagrad, batch: 1_000, clients: 4, keys: Keys::Skewed },
    ];
    run(&cases, &[(8, Optimizer::Sgd), (16, Optimizer::Adam)], repeats)
}

/// All of them: hours.
pub(super) fn full(repeats: u32) -> Result<Vec<Row>> {
    let mut cases = Vec::new();
    for optimizer in [Optimizer::Sgd, Optimizer::Adagrad, Optimizer::Adam] {
        for dim in [8, 16, 64] {
            for batch in [1_000, 10_000, 50_000] {
                for clients in [1, 2, 4, 8] {
                    for keys in [Keys::Uniform, Keys::Skewed] {
                        cases.push(Case { dim, optimizer, batch, clients, keys });
                    }
                }
            }
        }
    }
    let optimizers = [Optimizer::Sgd, Optimizer::Adagrad, Optimizer::Adam];
    let memory: Vec<_> = optimizers.into_iter().flat_map(|of| [8, 16, 64].map(|dim| (dim, of))).collect();
    run(&cases, &memory, repeats)
}

fn run(cases: &[Case], memory: &[(u32, Optimizer)], repeats: u32) -> Result<Vec<Row>> {
    let programs = Programs::ensure()?;
    let runtime = Runtime::new().context("cannot start tokio")?;
    let mut rows = Vec::new();
    for case in cases {
        let mut samples: [Vec<PsSample>; Side::ALL.len()] = Default::default();
        for _ in 0..repeats.min(MOST_REPEATS) {
            for (side, samples) in Side::ALL.into_iter().zip(&mut samples) {
                let one = runtime.block_on(play(&programs, side, case))?;
                eprintln!("{case}, {side}: first touch {}, pull {}, push {}", one.first_touch, one.pull, one.push);
                samples.push(one);
            }
        }
        rows.extend(judged(case, &samples)?);
    }
    for (dim, optimizer) in memory {
        rows.push(runtime.block_on(remembered(&programs, *dim, *optimizer))?);
    }
    Ok(rows)
}

async fn play(programs: &Programs, side: Side, case: &Case) -> Result<PsSample> {
    let store = side.start(programs, case).await?;
    let pid = store.pid();
    let first_touch = measure::until_done(store.lanes(Phase::FirstTouch).await?, pid).await?;
    measure::until_done(store.lanes(Phase::Fill).await?, pid).await?;
    let pull = measure::for_a_while(store.lanes(Phase::Pull).await?, pid).await?;
    let push = measure::for_a_while(store.lanes(Phase::Push).await?, pid).await?;
    Ok(PsSample { first_touch, pull, push })
}

fn judged(case: &Case, samples: &[Vec<PsSample>; Side::ALL.len()]) -> Result<Vec<Row>> {
    let [ours, native, go, redis, paddle] = samples;
    let rates =
        |of: &[PsSample], what: Selector| -> Vec<f64> { of.iter().map(|one| what(one).rows_per_second).collect() };
    let costs = |of: &[PsSample], what: Selector| -> Vec<f64> { of.iter().map(|one| what(one).cpu_micros).collect() };
    let push_target = if case.optimizer == Optimizer::Adam { SLOW_THERE } else { ELSEWHERE };
    let phases: [(&str, Selector, f64); 3] = [
        ("first touch", |sample| sample.first_touch, SLOW_THERE),
        ("pull", |sample| sample.pull, ELSEWHERE),
        ("push", |sample| sample.push, push_target),
    ];
    let mut rows = Vec::new();
    for (phase, what, target) in phases {
        let metric = format!("{case}: {phase}");
        let (peer, unit) = (rates(go, what), "rows/s");
        rows.push(Row::rate(&metric, unit, &rates(ours, what), go_server::NAME, &peer, target)?);
        let cpu = format!("{metric}, CPU");
        rows.push(Row::cost(&cpu, "us/row", &costs(ours, what), go_server::NAME, &costs(go, what), target)?);
        rows.push(Row::rate(&metric, unit, &rates(ours, what), redis::NAME, &rates(redis, what), REDIS)?);
        let own = format!("{metric}, our own API");
        rows.push(Row::rate(&own, unit, &rates(native, what), go_server::NAME, &peer, target)?);
        let beside = Row::rate(&metric, unit, &rates(ours, what), paddle::NAME, &rates(paddle, what), 0.0)?;
        rows.push(beside.for_information());
        let beside = Row::cost(&cpu, "us/row", &costs(ours, what), paddle::NAME, &costs(paddle, what), 0.0)?;
        rows.push(beside.for_information());
    }
    Ok(rows)
}

/// How much a server's memory grows in relation to its payload: weights, slots and keys.
async fn remembered(programs: &Programs, dim: u32, optimizer: Optimizer) -> Result<Row> {
    let case = Case { dim, optimizer, batch: 10_000, clients: 1, keys: Keys::Uniform };
    let mut grown = Vec::new();
    for side in [Side::Ours, Side::GoServer] {
        let store = side.start(programs, &case).await?;
        let before = super::process_cost::anonymous_mib(store.pid())?;
        measure::until_done(store.lanes(Phase::Fill).await?, store.pid()).await?;
        measure::until_done(store.lanes(Phase::PushAll).await?, store.pid()).await?;
        let bytes = (super::process_cost::anonymous_mib(store.pid())? - before) * 1_048_576.0;
        grown.push(bytes / (keys::PRESENT as f64 * case.payload()));
    }
    let mark = if dim < 16 { 2.5 } else { 2.0 };
    let metric = format!("dim {dim}, {optimizer}: memory, over weights, slots and keys");
    Row::cost_within(&metric, "x", &grown[..1], go_server::NAME, &grown[1..], mark)
}
