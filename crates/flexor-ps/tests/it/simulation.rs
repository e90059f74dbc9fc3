//! Random histories of the real components: master service, servers and clients, in one thread with paused time.
//!
//! Each seed is one history. Servers are added, drained, killed and partitioned from the network. The master is killed
//! and restarted on its journal. Workers crash, and others push the same batches again. Checkpoints are written and
//! restored. Invariants: no partition applies a batch twice; an acknowledged update is present as long as it had two
//! replicas; in synchronous training the model equals the sequential one bit for bit. The engine simulates the
//! decisions alone, and faster; this simulation checks that the components carry them out.
//!
//! `FLEXOR_SEED` replays one seed. `FLEXOR_SIMULATION_LOG` prints events as they happen.

mod cut_off;
mod dice;
mod history;
mod model;
mod network;
mod storms;
mod workers;
mod world;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use tokio::runtime::Builder;

use self::history::History;

/// The default number of histories.
const HISTORIES: u64 = 100;

thread_local! {
    /// Panics in the history of this thread. A panic of a background task or of a thread that writes files would
    /// otherwise go unnoticed.
    static PANICS: RefCell<Arc<AtomicU64>> = RefCell::default();
}

#[test]
fn in_any_history_every_update_is_applied_once() {
    let seeds = flexor_seeds::range(0..number("FLEXOR_SIMULATIONS").unwrap_or(HISTORIES));
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stderr).init();
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let test = std::thread::current();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // A failure names the test by its thread.
            let thread = std::thread::Builder::new().name(test.name().unwrap_or_default().to_owned());
            let play_all = || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    play(seed, History::begin(seed));
                }
            };
            thread.spawn_scoped(scope, play_all).unwrap();
        }
    });
}

/// Plays a history in a runtime of its own.
fn play(seed: u64, history: impl Future<Output = History>) {
    count_panics();
    let panics = Arc::new(AtomicU64::new(0));
    PANICS.set(Arc::clone(&panics));
    let of_threads = Arc::clone(&panics);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_start(move || PANICS.set(Arc::clone(&of_threads)))
        .build()
        .unwrap();
    runtime.block_on(async { history.await.play().await });
    assert_eq!(panics.load(Ordering::Relaxed), 0, "a task or thread panicked in the history of seed {seed}");
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.with_borrow(|panics| panics.fetch_add(1, Ordering::Relaxed));
            report(panic);
        }));
    });
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}
