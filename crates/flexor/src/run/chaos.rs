//! `flexor run --chaos`: from what was typed to a script of acts, and the hand that does them while the jobs run.
//!
//! The script is made, checked and written down before anything starts. Which acts there are and how they are done is
//! `flexor_local::chaos`'s.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use flexor_local::chaos::{FaultTally, FaultTarget, Injector, Rate, ScheduledFault, Script};
use flexor_local::cluster::{Cluster, JobKey, Options};
use flexor_model::Job;
use tokio::task::JoinHandle;

use crate::output;

/// What the script is called that a run leaves behind.
const FILE: &str = "chaos.json";
/// How many acts are told at the start.
const TOLD: usize = 6;

/// What was typed after `--chaos`.
#[derive(Debug, Clone, PartialEq)]
pub enum ChaosArg {
    /// The acts of a seed, so many in a second.
    Seed(u64, Rate),
    /// The acts in a file.
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

/// Acts that are to be done.
pub struct FaultScript {
    script: Script,
    /// Where they come from, and where they are.
    source: String,
}

impl FaultScript {
    /// The acts that are to be done to these jobs. Those of a seed are written into `folder`, to be done again.
    ///
    /// # Errors
    ///
    /// What to say to the user; nothing has been started.
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
                script.write(&file).map_err(|error| format!("--chaos: cannot write {at}: {error}; stand elsewhere"))?;
                Ok(Self { script, source: format!("{seed},{rate} (also in {at})") })
            }
        }
    }

    /// Begins, and tells what will be done.
    pub fn begin(self, cluster: Cluster) -> anyhow::Result<Chaos> {
        output::text(&self.told())?;
        let injector = Injector::new(cluster, &self.script);
        let faults = self.script.faults();
        Ok(Chaos {
            all: faults.len(),
            first: faults.first().map(ScheduledFault::at),
            tally: injector.tally(),
            run: tokio::spawn(injector.run()),
        })
    }

    /// The acts that come first, and how many others there are.
    fn told(&self) -> String {
        let faults = self.script.faults();
        let mut text = format!("chaos {}: {} acts, until all jobs are over", self.source, faults.len());
        for fault in faults.iter().take(TOLD) {
            text.push_str(&format!("\n  {fault}"));
        }
        if faults.len() > TOLD {
            text.push_str(&format!("\n  … and {} more", faults.len() - TOLD));
        }
        text.push('\n');
        text
    }
}

/// How a cluster is run that these acts are done to. Its pods end with it, however it ends: nobody else knows what is
/// stopped and has to go on.
#[must_use]
pub fn options(options: Options, faults: Option<&FaultScript>) -> Options {
    let chaos = faults.is_some();
    Options { chaos, ephemeral: options.ephemeral || chaos, ..options }
}

/// Acts that are being done. When it is dropped no more are, and what does not pass by itself is undone: to be dropped
/// before the cluster is drained.
pub struct Chaos {
    all: usize,
    /// When the first was to be done.
    first: Option<Duration>,
    tally: Arc<FaultTally>,
    run: JoinHandle<()>,
}

impl Chaos {
    /// How many acts were done, in a line.
    pub fn told(&self) -> String {
        told(self.all, self.first, self.tally.done(), self.tally.missed())
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.run.abort();
    }
}

fn told(all: usize, first: Option<Duration>, done: usize, missed: usize) -> String {
    let mut told = format!("{done} of {all} acts were done");
    if missed > 0 {
        told.push_str(&format!(", {missed} missed"));
    }
    let left = all.saturating_sub(done + missed);
    match first {
        Some(first) if left == all => {
            told.push_str(&format!("; the first was to come after {:.1}s", first.as_secs_f64()));
        }
        _ if left > 0 => told.push_str(&format!(", {left} were still to come")),
        _ => {}
    }
    told
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
    fn how_many_acts_were_done_is_told() {
        let first = Some(Duration::from_millis(3900));
        assert_eq!(told(109, first, 0, 0), "0 of 109 acts were done; the first was to come after 3.9s");
        assert_eq!(told(109, first, 5, 2), "5 of 109 acts were done, 2 missed, 102 were still to come");
        assert_eq!(told(3, first, 3, 0), "3 of 3 acts were done");
        assert_eq!(told(0, None, 0, 0), "0 of 0 acts were done");
    }

    #[test]
    fn what_is_neither_is_refused_with_what_to_write() {
        for (text, told) in [
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
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
