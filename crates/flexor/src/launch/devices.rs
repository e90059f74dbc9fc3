//! Counts the devices of this machine, for `--nproc-per-node=gpu` and the like.

use std::fs;
use std::thread;

use flexor_dialects::launch_options::Device;

/// Number of devices of a kind that this process may use.
pub fn count(device: Device) -> u32 {
    let devices = match device {
        Device::Cpu => thread::available_parallelism().map_or(1, usize::from),
        Device::Gpu => visible("CUDA_VISIBLE_DEVICES").unwrap_or_else(|| numbered("/dev", "nvidia")),
        Device::Xpu => visible("ZE_AFFINITY_MASK").unwrap_or(0),
    };
    u32::try_from(devices).unwrap_or(u32::MAX)
}

/// Number of devices that an environment variable lists, if it is set.
fn visible(variable: &str) -> Option<usize> {
    let names = std::env::var(variable).ok()?;
    Some(names.split(',').map(str::trim).take_while(|name| !name.is_empty() && *name != "-1").count())
}

/// Number of device files with this prefix and a number.
fn numbered(folder: &str, name: &str) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |file: &str| file.strip_prefix(name).is_some_and(|rest| rest.parse::<u32>().is_ok());
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_one)).count()
}
