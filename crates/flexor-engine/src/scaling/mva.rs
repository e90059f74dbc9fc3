//! Exact mean-value analysis of a closed queueing network with one class of customers.
//!
//! Customers are workers. A worker asks all servers at once and waits for the slowest, so servers are parallel: a cycle
//! contains the longest of their response times. All other stations are visited one after the other.

/// Stations of a network, by the seconds of service that one batch demands of each.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    /// Seconds of a worker's cycle outside of all stations.
    pub(super) think: f64,
    /// The servers.
    pub(super) parallel: Vec<f64>,
    /// Stations behind one another.
    pub(super) serial: Vec<f64>,
}

/// A cycle is never shorter, so that no throughput is infinite.
const SHORTEST_CYCLE: f64 = 1e-9;

impl Network {
    /// Batches per second of 1, 2, … `most` workers.
    pub(super) fn throughputs(&self, most: u32) -> Vec<f64> {
        let mut parallel = vec![0.0; self.parallel.len()];
        let mut serial = vec![0.0; self.serial.len()];
        let response = |demand: &f64, queue: &f64| demand * (1.0 + queue);
        let mut found = Vec::with_capacity(most as usize);
        for workers in 1..=most {
            // A worker that arrives finds the queues of a network with one worker fewer.
            let slowest = self.parallel.iter().zip(&parallel).map(|(d, q)| response(d, q)).fold(0.0, f64::max);
            let others: f64 = self.serial.iter().zip(&serial).map(|(d, q)| response(d, q)).sum();
            let throughput = f64::from(workers) / (self.think + slowest + others).max(SHORTEST_CYCLE);
            let queues = self.parallel.iter().zip(&mut parallel).chain(self.serial.iter().zip(&mut serial));
            queues.for_each(|(demand, queue)| *queue = throughput * response(demand, queue));
            found.push(throughput);
        }
        found
    }

    /// Batches per second of some workers.
    pub(super) fn throughput(&self, workers: u32) -> f64 {
        self.throughputs(workers).last().copied().unwrap_or(0.0)
    }

    /// The most batches per second of any number of workers.
    pub(super) fn bound(&self) -> f64 {
        let longest = self.parallel.iter().chain(&self.serial).copied().fold(0.0, f64::max);
        if longest > 0.0 { longest.recip() } else { f64::INFINITY }
    }
}

/// The largest number from 0 to `high` for which a condition holds that holds for all smaller ones.
pub(super) fn bisect(high: f64, mut holds: impl FnMut(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, high);
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn workers_that_only_wait_add_up() {
        let network = Network { think: 0.1, parallel: vec![], serial: vec![] };
        assert!(network.throughputs(4).iter().zip([10.0, 20.0, 30.0, 40.0]).all(|(x, expected)| close(*x, expected)));
    }

    #[test]
    fn one_station_gives_the_machine_repairman_formula() {
        // Two workers, think time 1, one station of demand 1: X(2) = 2 / (1 + 1.5).
        let network = Network { think: 1.0, parallel: vec![], serial: vec![1.0] };
        assert!(close(network.throughput(2), 0.8));
        assert!(network.throughput(50) <= 1.0 && network.throughput(50) > 0.999);
    }

    #[test]
    fn parallel_servers_cost_the_time_of_the_slowest() {
        let network = Network { think: 0.0, parallel: vec![0.01, 0.02], serial: vec![] };
        assert!(close(network.throughput(1), 50.0));
        assert!(close(network.bound(), 50.0));
    }

    #[test]
    fn bisection_finds_where_a_condition_ends() {
        assert!(close(bisect(10.0, |x| x < 3.0), 3.0));
        assert!(bisect(10.0, |_| false) < 1e-9);
    }
}
