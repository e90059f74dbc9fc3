//! `flexor run --chaos`: reads or generates a script of faults, and injects them while the jobs run.
//!
//! The script is generated, checked and written before anything starts. The kinds of faults and their injection are in
//! `flexor_local::chaos`.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use flexor_local::chaos::{FaultTally, FaultTarget, Injector, Rate, ScheduledFault, Script};
use flexor_local::cluster::{Cluster, JobKey, Options};
use flexor_model::Job;
use tokio::task::JoinHandle;

use crate::output;

/// File name of the script that a run writes.
const FILE: &str = "chaos.json";
/// Largest number of faults that are listed at the start.
const LISTED: usize = 6;

/// The value of `--chaos`.
#[derive(Debug, Clone, PartialEq)]
pub enum ChaosArg {
    /// Faults generated from a seed, at this rate.
    Seed(u64, Rate),
    /// Faults from a script.
    File(PathBuf),
}

impl FromStr for ChaosArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(file) = text.strip_prefix('@') {
            return if file.is_empty() {
                Err("no file is named after @".to_owned())
            } else {
                Ok(Self::File(file.into()))
            };
        }
        let (seed, rate) = text.split_once(',').map_or((text, None), |(seed, rate)| (seed, Some(rate)));
        let rate = rate.map_or_else(|| Ok(Rate::default()), str::parse).map_err(|error| error.to_string())?;
        let seed = seed.parse().map_err(|_| "write SEED, SEED,RATE or @FILE; a seed is a whole number".to_owned())?;
        Ok(Self::Seed(seed, rate))
    }
}

/// Faults to inject.
pub struct FaultScript {
    script: Script,
    /// The seed or the file that they come from, for output.
    source: String,
}

impl FaultScript {
    /// Prepares the faults for these jobs. A generated script is written into `folder`, to be used again.
    ///
    /// # Errors
    ///
    /// A message for the user. Nothing has been started.
    pub fn prepare<'a>(arg: &ChaosArg, jobs: impl Iterator<Item = &'a Job>, folder: &Path) -> Result<Self, String> {
        match arg {
            ChaosArg::File(file) => {
                let keys: Vec<JobKey> = jobs.map(JobKey::of).collect();
                let script = Script::read(file, &keys).map_err(|error| format!("--chaos {error}"))?;
                Ok(Self { script, source: format!("@{}", file.display()) })
            }
            ChaosArg::Seed(seed, rate) => {
                let targets: Vec<FaultTarget> = jobs.flat_map(FaultTarget::of).collect();
                let script = Script::of_seed(*seed, *rate, &targets);
                let file = folder.join(FILE);
                let at = file.strip_prefix(".").unwrap_or(&file).display();
                script
                    .write(&file)
                    .map_err(|error| format!("--chaos: cannot write {at}: {error}; run in another folder"))?;
                Ok(Self { script, source: format!("{seed},{rate} (also in {at})") })
            }
        }
    }

    /// Prints the first faults and starts to inject them.
    pub fn start(self, cluster: Cluster) -> anyhow::Result<Chaos> {
        output::text(&self.listing())?;
        let injector = Injector::new(cluster, &self.script);
        let faults = self.script.faults();
        Ok(Chaos {
            all: faults.len(),
            first: faults.first().map(ScheduledFault::at),
            tally: injector.tally(),
            run: tokio::spawn(injector.run()),
        })
    }

    /// The first faults, and the number of others.
    fn listing(&self) -> String {
        let faults = self.script.faults();
        let mut text = format!("chaos {}: {} faults, until all jobs are over", self.source, faults.len());
        for fault in faults.iter().take(LISTED) {
            text.push_str(&format!("\n  {fault}"));
        }
        if faults.len() > LISTED {
            text.push_str(&format!("\n  … and {} more", faults.len() - LISTED));
        }
        text.push('\n');
        text
    }
}

/// Options of a cluster with fault injection. Its pods end with it, even if it is killed: only this process knows which
/// processes are stopped and have to continue.
#[must_use]
pub fn options(options: Options, faults: Option<&FaultScript>) -> Options {
    let chaos = faults.is_some();
    Options { chaos, ephemeral: options.ephemeral || chaos, ..options }
}

/// A running fault injection. Dropping it ends the injection and reverts faults that do not pass by themselves; drop it
/// before the cluster is drained.
pub struct Chaos {
    all: usize,
    /// Time of the first fault since the start.
    first: Option<Duration>,
    tally: Arc<FaultTally>,
    run: JoinHandle<()>,
}

impl Chaos {
    /// The number of injected faults, in a line.
    pub fn summary(&self) -> String {
        summary(self.all, self.first, self.tally.done(), self.tally.missed())
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.run.abort();
    }
}

fn summary(all: usize, first: Option<Duration>, done: usize, missed: usize) -> String {
    let mut text = format!("{done} of {all} faults were injected");
    if missed > 0 {
        text.push_str(&format!(", {missed} missed"));
    }
    let left = all.saturating_sub(done + missed);
    match first {
        Some(first) if left == all => {
            text.push_str(&format!("; the first was scheduled after {:.1}s", first.as_secs_f64()));
        }
        _ if left > 0 => text.push_str(&format!(", {left} were still scheduled")),
        _ => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_may_have_a_rate_and_a_file_an_at_sign() {
        assert_eq!("7".parse(), Ok(ChaosArg::Seed(7, Rate::default())));
        assert_eq!("7,1.5".parse(), Ok(ChaosArg::Seed(7, "1.5".parse().unwrap())));
        assert_eq!("@a/chaos.json".parse(), Ok(ChaosArg::File("a/chaos.json".into())));
    }

    #[test]
    fn the_summary_counts_injected_missed_and_scheduled_faults() {
        let first = Some(Duration::from_millis(3900));
        assert_eq!(summary(109, first, 0, 0), "0 of 109 faults were injected; the first was scheduled after 3.9s");
        assert_eq!(summary(109, first, 5, 2), "5 of 109 faults were injected, 2 missed, 102 were still scheduled");
        assert_eq!(summary(3, first, 3, 0), "3 of 3 faults were injected");
        assert_eq!(summary(0, None, 0, 0), "0 of 0 faults were injected");
    }

    #[test]
    fn a_wrong_value_is_refused_with_the_expected_format() {
        for (text, message) in [
            ("", "write SEED"),
            ("x", "write SEED"),
            ("-1", "write SEED"),
            ("1,", "no rate"),
            ("1,0", "no rate"),
            ("1,fast", "fast is no rate"),
            ("1,2,3", "2,3 is no rate"),
            ("@", "no file"),
        ] {
            let error = text.parse::<ChaosArg>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
