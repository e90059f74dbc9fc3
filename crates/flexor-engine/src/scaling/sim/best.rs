//! The best throughput of a job by exhaustive search: every size is played.

use super::queues::Queues;
use super::shape::JobShape;
use crate::scaling::Allotment;

const MOST_WORKERS: u32 = 60;
const MOST_SERVERS: usize = 15;
/// The CPU of the hot server, in multiples of the others'.
const HOT: [f64; 6] = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// The best throughput at a load, with tables as large as some batches make them.
pub(super) fn best(shape: &JobShape, load: f64, batches: f64) -> f64 {
    let mut best = 0.0_f64;
    for servers in 1..=MOST_SERVERS {
        let can_migrate = shape.hot > 0.0 && servers > 1 && shape.machine.is_none();
        for factor in HOT.iter().take(if can_migrate { HOT.len() } else { 1 }) {
            let pods: Vec<Allotment> =
                (0..servers).map(|rank| server(shape, batches, rank, servers, *factor)).collect();
            let Some(most) = most_workers(shape, &pods) else { continue };
            for workers in counts(most, shape) {
                best = best.max(play(shape, load, workers, &pods));
            }
        }
    }
    best
}

fn server(shape: &JobShape, batches: f64, rank: usize, servers: usize, factor: f64) -> Allotment {
    let needed = shape.server_bytes(batches, rank, servers);
    let millicores = if rank == 0 { shape.pod.millicores as f64 * factor } else { shape.pod.millicores as f64 };
    Allotment { millicores: millicores as u64, bytes: shape.pod.bytes.max(needed) }
}

/// The most workers beside these servers, the chief included.
fn most_workers(shape: &JobShape, servers: &[Allotment]) -> Option<u32> {
    let fixed = servers.iter().fold(Allotment::default(), |sum, pod| sum.plus(*pod));
    let room = shape.ceiling.and(shape.capacity);
    (1..=MOST_WORKERS + 1).rev().find(|workers| room.fits(fixed.plus_times(shape.pod, *workers)))
}

/// More workers only do harm where they prolong the work of something shared.
fn counts(most: u32, shape: &JobShape) -> Vec<u32> {
    match shape.unseen {
        Some((_, contention)) if contention > 0.0 => {
            (1..=most).filter(|count| *count < 12 || *count % 4 == 0 || *count == most).collect()
        }
        Some(_) | None => vec![most],
    }
}

/// Batches per second of a layout.
fn play(shape: &JobShape, load: f64, workers: u32, servers: &[Allotment]) -> f64 {
    const WARM_UP: f64 = 3.0;
    const LENGTH: f64 = 12.0;
    let mut queues = Queues::new(shape, shape.seed ^ 0xBE57);
    queues.load = load;
    queues.set_servers(&servers.iter().map(|pod| pod.cores()).collect::<Vec<_>>(), 0.0);
    queues.set_workers(&(0..workers).map(|number| (number, shape.pod.cores())).collect::<Vec<_>>());
    queues.play_until(WARM_UP);
    let before = queues.batches;
    queues.play_until(WARM_UP + LENGTH);
    (queues.batches - before) as f64 / LENGTH
}
