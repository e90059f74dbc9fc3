//! Random jobs under virtual time, sized by our rules and by DLRover's.
//!
//! Each side sees the same job: the same seed, queues, noise, start times, drifting load and growing tables. The best
//! throughput is that of an exhaustive search. DLRover's memory rule is mended, as [`flexor_engine::scaling::sim`] says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};
use flexor_engine::scaling::sim::{Figures, JobShape, Policy, Run, run as play, table};

use super::{Row, Setup};

const PEER: &str = "DLRover's rules";
/// Seconds to 90 % of the best.
const MEDIAN_SECONDS: f64 = 30.0;
const P90_SECONDS: f64 = 120.0;
/// Throughput at rest, in percent of the best.
const MEDIAN_REST: f64 = 95.0;
const P5_REST: f64 = 85.0;
/// Changes after which the job was slower, in percent of all.
const SLOWER: f64 = 5.0;

/// A job under both policies.
struct Pair {
    dlrover: Run,
    flexor: Run,
}

pub(super) fn run(setup: &Setup) -> Result<Vec<Row>> {
    let (jobs, first) = (setup.sizes.get("jobs")?, u64::from(setup.sizes.get("seed")?));
    let seconds = setup.sizes.get("seconds")? as usize;
    let end = first + u64::from(jobs);
    eprintln!("simulates {jobs} jobs for {seconds} s each, with the seeds from {first} to {}", end.saturating_sub(1));
    let pairs = play_all(first, end, seconds)?;
    for Pair { dlrover, flexor } in &pairs {
        let seconds = |run: &Run| run.seconds_to_90.map_or("never".to_owned(), |seconds| format!("{seconds} s"));
        eprintln!(
            "seed {}: 90 % of the best after {} ({}), at rest {:.0} % ({:.0} %), {} changes ({}), {} workers, {} servers",
            flexor.seed,
            seconds(flexor),
            seconds(dlrover),
            100.0 * flexor.at_rest,
            100.0 * dlrover.at_rest,
            flexor.changes.len(),
            dlrover.changes.len(),
            flexor.workers,
            flexor.servers,
        );
    }
    let (dlrover, flexor): (Vec<Run>, Vec<Run>) = pairs.into_iter().map(|pair| (pair.dlrover, pair.flexor)).unzip();
    let (peer, ours) = (Figures::of(&dlrover), Figures::of(&flexor));
    eprintln!("{}", table(&peer, &ours));
    rows(&ours, &peer)
}

fn rows(ours: &Figures, peer: &Figures) -> Result<Vec<Row>> {
    let what = format!("{} simulated jobs", ours.jobs);
    let metric = |name: &str| format!("{what}: {name}");
    let seconds =
        |name: &str, ours: f64, peer: f64, mark: f64| Row::seconds_within(&metric(name), &[ours], PEER, &[peer], mark);
    let part = |name: &str, ours: f64, peer: f64, mark: f64| {
        Row::rate_at_least(&metric(name), "% of the best", &[100.0 * ours], PEER, &[100.0 * peer], mark)
    };
    let count = |name: &str, unit: &'static str, ours: f64, peer: f64, mark: f64| {
        Row::cost_within(&metric(name), unit, &[ours], PEER, &[peer], mark)
    };
    let slower = |figures: &Figures| 100.0 * figures.slower as f64 / figures.changes.max(1) as f64;
    Ok(vec![
        seconds("to 90 % of the best, median", ours.median_seconds, peer.median_seconds, MEDIAN_SECONDS)?,
        seconds("to 90 % of the best, p90", ours.p90_seconds, peer.p90_seconds, P90_SECONDS)?,
        count("never at 90 % of the best", "jobs", ours.never as f64, peer.never as f64, f64::NAN)?.for_information(),
        part("throughput at rest, median", ours.median_rest, peer.median_rest, MEDIAN_REST)?,
        part("throughput at rest, p5", ours.p5_rest, peer.p5_rest, P5_REST)?,
        count("changes after which the job was slower", "% of changes", slower(ours), slower(peer), SLOWER)?,
        count("those of them that were kept", "changes", ours.slower_kept as f64, peer.slower_kept as f64, 0.0)?,
        count("changes of a job, most", "changes", ours.most_changes as f64, peer.most_changes as f64, f64::NAN)?
            .for_information(),
        count("lost a server to its memory limit", "jobs", ours.oom_jobs as f64, peer.oom_jobs as f64, 0.0)?,
        count("above the ceiling", "jobs", ours.over_ceiling as f64, peer.over_ceiling as f64, 0.0)?,
    ])
}

/// Plays all seeds, on all cores of this machine. Virtual time does not care how busy they are.
fn play_all(first: u64, end: u64, seconds: usize) -> Result<Vec<Pair>> {
    let (next, done) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let player = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return;
                }
                let shape = JobShape::random(seed);
                let of = |policy| play(&shape, policy, seconds);
                let pair = Pair { dlrover: of(Policy::Dlrover), flexor: of(Policy::Flexor) };
                if let Ok(mut done) = done.lock() {
                    done.push(pair);
                }
            }
        };
        (0..cores).for_each(|_| _ = scope.spawn(player));
    });
    let mut pairs = done.into_inner().ok().context("a simulated job has failed; its message is above")?;
    pairs.sort_by_key(|pair| pair.flexor.seed);
    Ok(pairs)
}
