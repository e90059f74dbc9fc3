//! How many processes a node runs: a number, or one for each device of a kind.

use flexor_model::Reason;

use super::{given::Wrong, python_number, table};
use crate::{Finding, finding::quoted, suggest::closest};

/// The most processes of a node. Linux has no more of them by default.
const MOST_PROCESSES: u32 = 32_768;

/// How many processes a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processes {
    /// So many, at least 1.
    Count(u32),
    /// One for each device of this kind, of which there must be some.
    Each(Device),
    /// One for each GPU; where there is none, for each XPU; where there is none either, for each CPU.
    Auto,
    /// One for each GPU; where there is none, so many.
    GpusOr(u32),
}

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A processor core that the launcher may use.
    Cpu,
    /// A GPU.
    Gpu,
    /// An accelerator of Intel's.
    Xpu,
}

const WORDS: [(&str, Processes); 4] = [
    ("cpu", Processes::Each(Device::Cpu)),
    ("gpu", Processes::Each(Device::Gpu)),
    ("xpu", Processes::Each(Device::Xpu)),
    ("auto", Processes::Auto),
];

impl Processes {
    /// Their number on a machine of which `devices` tells how many it has.
    pub fn count(self, devices: impl Fn(Device) -> u32) -> Result<u32, Finding> {
        let some = |device| Some(devices(device)).filter(|count| *count > 0);
        let cores = || devices(Device::Cpu).max(1);
        match self {
            Processes::Count(count) => Ok(count),
            Processes::Auto => Ok(some(Device::Gpu).or_else(|| some(Device::Xpu)).unwrap_or_else(cores)),
            Processes::GpusOr(count) => Ok(some(Device::Gpu).unwrap_or(count)),
            Processes::Each(device) => some(device).ok_or_else(|| {
                let message = format!("this machine has no {}", device.as_str());
                Finding::new(Reason::InvalidValue, table::NPROC_PER_NODE.name, message)
                    .help("write a number of processes, or auto")
            }),
        }
    }

    pub(super) fn read(text: &str) -> Result<Self, Wrong> {
        if let Some((_, processes)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*processes);
        }
        let help = match closest(text, WORDS.iter().map(|(word, _)| *word)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("write a number from 1 to {MOST_PROCESSES}, cpu, gpu, xpu or auto"),
        };
        let count = python_number::integer(text).and_then(|number| u32::try_from(number).ok());
        let count = count.filter(|count| (1..=MOST_PROCESSES).contains(count));
        count
            .map(Processes::Count)
            .ok_or_else(|| Wrong::new(format!("{} is no number of processes", quoted(text)), help))
    }
}

impl Device {
    fn as_str(self) -> &'static str {
        match self {
            Device::Cpu => "CPU",
            Device::Gpu => "GPU",
            Device::Xpu => "XPU",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_by_whoever_can_see_them() {
        let machine = |gpus, xpus| {
            move |device| match device {
                Device::Cpu => 8,
                Device::Gpu => gpus,
                Device::Xpu => xpus,
            }
        };
        let auto = Processes::Auto;
        assert_eq!(auto.count(machine(2, 4)), Ok(2));
        assert_eq!(auto.count(machine(0, 4)), Ok(4));
        assert_eq!(auto.count(machine(0, 0)), Ok(8));
        assert_eq!(Processes::GpusOr(3).count(machine(0, 0)), Ok(3));
        assert_eq!(Processes::GpusOr(3).count(machine(2, 0)), Ok(2));
        assert_eq!(Processes::Each(Device::Cpu).count(machine(1, 1)), Ok(8));
        let error = Processes::Each(Device::Gpu).count(machine(0, 1)).unwrap_err().to_string();
        assert_eq!(error, "--nproc-per-node: this machine has no GPU; write a number of processes, or auto");
    }
}
