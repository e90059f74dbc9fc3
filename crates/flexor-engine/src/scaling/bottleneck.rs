//! What limits the throughput of a job.

use std::fmt;

use super::model::{BUSY, QueueingModel};
use super::{Measurement, Sample};

/// What limits a job, with the figure that shows it. Shares are parts of one.
#[derive(Debug, Clone, PartialEq)]
pub enum Bottleneck {
    /// Workers wait for nothing else: more of them bring more.
    Workers {
        /// What they do for most of their time, and its share; none where they report no times.
        longest_part: Option<(&'static str, f64)>,
    },
    /// All servers are busy.
    Servers {
        /// The used share of the busiest one's CPU.
        used: f64,
    },
    /// One server is much busier than the others.
    HotServer {
        /// Its pod.
        pod: String,
        /// The used share of its CPU.
        used: f64,
    },
    /// The machine that all pods share is busy.
    Machine {
        /// The used share of its CPU.
        used: f64,
    },
    /// Something that reports no load, such as a network or a disk.
    Unseen,
}

impl Bottleneck {
    pub(super) fn of(model: &QueueingModel, sample: &Sample, measured: &Measurement) -> Self {
        let servers = model.utilizations().into_iter().fold(0.0, f64::max);
        let (machine, unseen) = (model.machine_utilization(), model.unseen * model.rate);
        let hot = model.hot_server().and_then(|(position, _)| sample.measured_servers().get(position));
        let most = servers.max(machine).max(unseen);
        if most < BUSY {
            Self::Workers { longest_part: measured.longest_part }
        } else if unseen >= most {
            Self::Unseen
        } else if machine >= most {
            Self::Machine { used: machine }
        } else if let Some(pod) = hot {
            Self::HotServer { pod: pod.name.as_str().to_owned(), used: servers }
        } else {
            Self::Servers { used: servers }
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| 100.0 * share;
        match self {
            Self::Workers { longest_part: Some((part, share)) } => {
                write!(f, "workers limit the job: {part} takes {:.0} % of their time", percent(share))
            }
            Self::Workers { longest_part: None } => f.write_str("workers limit the job"),
            Self::Servers { used } => {
                write!(f, "the servers limit the job: {:.0} % of their CPU is used", percent(used))
            }
            Self::HotServer { pod, used } => {
                write!(f, "the server {pod} limits the job: {:.0} % of its CPU is used", percent(used))
            }
            Self::Machine { used } => {
                write!(f, "the machine limits the job: {:.0} % of its CPU is used", percent(used))
            }
            Self::Unseen => f.write_str("something shared that reports no load limits the job"),
        }
    }
}
