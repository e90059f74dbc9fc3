//! The throughput of a job at other sizes, from one measurement.
//!
//! A job is a closed queueing network. Workers are its customers; each server is a station, and so is the machine where all
//! pods share one. The demand of a station follows from the utilisation law: cores in use, by cores, by throughput. The
//! rest of a worker's cycle is waiting, as long as the response law says. A station that reports nothing, such as a
//! network, shows when a change brings less than promised; its demand comes in from [`super::trial`].

use super::mva::{Network, bisect};
use super::{Allotment, Layout, Measurement, PodSample, Sample};

/// A server this much busier than the mean of the others is hot.
const HOT: f64 = 1.3;
/// A station this busy holds the job up.
pub(super) const BUSY: f64 = 0.8;

/// A job as a network whose sizes can be changed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueingModel {
    /// The measured throughput.
    pub(super) rate: f64,
    /// The sizes at which it was measured.
    measured: Layout,
    chiefs: u32,
    think: f64,
    /// Core seconds of all servers for one batch.
    work: f64,
    /// What the busiest server does beyond its even share, as a part of `work`.
    surplus: f64,
    /// The busiest server.
    pub(super) busiest: Option<usize>,
    /// The cores of each server; empty where servers have no station of their own.
    servers: Vec<f64>,
    /// The cores of a server that is added.
    added: f64,
    /// Seconds of the machine for one batch.
    machine: f64,
    /// Seconds of a station that reports nothing, for one batch.
    pub(super) unseen: f64,
    /// What the fitted network gives for the measured sizes: `rate`, unless even no waiting would be too long.
    fitted: f64,
}

impl QueueingModel {
    /// Fits the network to a measurement.
    pub(super) fn fit(measured: &Measurement, sample: &Sample, unseen: f64) -> Self {
        let rate = measured.rate;
        let in_use: f64 = measured.server_cores.iter().sum();
        let all: f64 = in_use + measured.worker_cores.iter().sum::<f64>();
        let machine = sample.machine.map_or(0.0, |all| Allotment { millicores: all, bytes: 0 }.cores());
        let owned = sample.measured_servers().iter().filter(|_| sample.machine.is_none());
        let mut model = Self {
            rate,
            measured: Layout::of(sample),
            chiefs: sample.chiefs(),
            think: 0.0,
            work: in_use / rate,
            surplus: surplus(&measured.server_cores),
            busiest: busiest(&measured.server_cores),
            servers: owned.map(|pod: &PodSample| pod.allotment.cores()).collect(),
            added: sample.servers.pod.cores(),
            machine: if machine > 0.0 { all / machine / rate } else { 0.0 },
            unseen,
            fitted: rate,
        };
        let (workers, mut network) = (model.chiefs + model.measured.workers, model.network(model.measured));
        let longest = f64::from(workers) / rate;
        model.think = bisect(longest, |think| {
            network.think = think;
            network.throughput(workers) > rate
        });
        network.think = model.think;
        model.fitted = network.throughput(workers);
        model
    }

    /// The throughput with any number of workers up to `most`, at the servers of a layout: element 0 is for none.
    pub(super) fn rates(&self, servers: Layout, most: u32) -> Vec<f64> {
        let network = self.network(servers);
        let all = network.throughputs(self.chiefs.saturating_add(most));
        let of = |workers: u32| {
            let found = (self.chiefs + workers).checked_sub(1).and_then(|i| all.get(i as usize));
            found.map_or(0.0, |rate| (rate * self.rate / self.fitted).min(network.bound().max(self.rate)))
        };
        (0..=most).map(of).collect()
    }

    /// The throughput of a layout.
    pub(super) fn rate_of(&self, layout: Layout) -> f64 {
        self.rates(layout, layout.workers).last().copied().unwrap_or(0.0)
    }

    fn network(&self, layout: Layout) -> Network {
        Network { think: self.think, parallel: self.server_demands(layout), serial: vec![self.machine, self.unseen] }
    }

    fn server_demands(&self, layout: Layout) -> Vec<f64> {
        if self.servers.is_empty() {
            return Vec::new();
        }
        let even = (1.0 - self.surplus) / f64::from(layout.servers.max(1));
        let of_server = |position: usize| {
            let is_busiest = self.busiest == Some(position);
            let share = if is_busiest { even + self.surplus } else { even };
            let cores = self.servers.get(position).copied().unwrap_or(self.added);
            let cores = match layout.hot {
                Some(millicores) if is_busiest => Allotment { millicores, bytes: 0 }.cores(),
                Some(_) | None => cores,
            };
            self.work * share / cores
        };
        (0..layout.servers as usize).map(of_server).collect()
    }

    /// The share of its cores that each server uses.
    pub(super) fn utilizations(&self) -> Vec<f64> {
        self.server_demands(self.measured).into_iter().map(|demand| demand * self.rate).collect()
    }

    /// The share of its cores that the machine uses.
    pub(super) fn machine_utilization(&self) -> f64 {
        self.machine * self.rate
    }

    /// The busy server that the others do not keep up with, and the cores at which they would.
    pub(super) fn hot_server(&self) -> Option<(usize, f64)> {
        let busiest = self.busiest?;
        let busy = self.utilizations();
        let others = busy.iter().enumerate().filter(|(position, _)| *position != busiest).map(|(_, used)| used);
        let mean = others.sum::<f64>() / (busy.len().checked_sub(1).filter(|n| *n > 0)? as f64);
        let mine = *busy.get(busiest)?;
        (mine > BUSY && mine > HOT * mean).then(|| (busiest, self.servers[busiest] * mine / mean.max(0.1 * mine)))
    }
}

fn busiest(cores: &[f64]) -> Option<usize> {
    (0..cores.len()).max_by(|a, b| cores[*a].total_cmp(&cores[*b]))
}

/// What the busiest server does beyond the mean of the others, as a part of all. One server tells nothing about it.
fn surplus(cores: &[f64]) -> f64 {
    let sum: f64 = cores.iter().sum();
    let most = cores.iter().copied().fold(0.0, f64::max);
    match cores.len() {
        0 | 1 => 0.0,
        _ if sum <= 0.0 => 0.0,
        count => (most - (sum - most) / (count - 1) as f64) / sum,
    }
}
