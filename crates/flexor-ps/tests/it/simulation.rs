//! Random histories of the real parts: the master's service, servers and clients, in one thread and in a time that only
//! passes when nobody has anything to do.
//!
//! Each seed is one history: servers come, leave, are killed and cut off; the master is killed and started again on its
//! journal; workers crash and others push the same batches again; checkpoints are made and begun again with. Whatever
//! happens, no batch is applied twice to a partition, what was answered is there as long as it was kept twice, and in
//! steps the model is the sequential one to the last bit. What is decided is simulated by itself, and faster, in the
//! engine; here is whether the parts do what was decided.
//!
//! A seed is played again with `FLEXOR_SIMULATION_SEED`, and `FLEXOR_SIMULATION_LOG` tells what happens as it does.

mod cut_off;
mod dice;
mod history;
mod model;
mod network;
mod workers;
mod world;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Builder;

use self::history::History;

/// How many histories there are, where nobody has asked for more.
const HISTORIES: u64 = 100;

thread_local! {
    /// How often something has panicked in the history that this thread belongs to: a task that does, or a thread that
    /// writes files, is not missed by everybody.
    static PANICS: RefCell<Arc<AtomicU64>> = RefCell::default();
}

#[test]
fn whatever_happens_every_update_counts_once() {
    let seeds = match number("FLEXOR_SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FLEXOR_SIMULATIONS").unwrap_or(HISTORIES),
    };
    count_panics();
    let said = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(said).without_time().with_writer(std::io::stderr).init();
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    play(seed);
                }
            });
        }
    });
}

fn play(seed: u64) {
    let panics = Arc::new(AtomicU64::new(0));
    PANICS.set(Arc::clone(&panics));
    let of_threads = Arc::clone(&panics);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_start(move || PANICS.set(Arc::clone(&of_threads)))
        .build()
        .unwrap();
    runtime.block_on(async { History::begin(seed).await.play().await });
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked in the history of seed {seed}");
}

fn count_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.with_borrow(|panics| panics.fetch_add(1, Ordering::Relaxed));
        report(panic);
    }));
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}
