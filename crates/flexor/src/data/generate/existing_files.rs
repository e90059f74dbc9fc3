//! Datasets that exist before they are generated (`--if-missing`): left by an earlier command, or being written by
//! another pod. `NAME.truth.json` beside the data says with which options it was generated.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flexor_data::generate::{GenerationPlan, Truth};

use super::SizeArgs;
use crate::data::{Refused, shown};
use crate::output;

/// How long to wait for the truth file of another writer, which writes it directly after the data.
const OTHER_WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// The dataset that the command line requests.
pub(super) struct RequestedDataset<'a> {
    /// `clicks`, `census` or `digits`.
    pub(super) kind: &'static str,
    pub(super) size: &'a SizeArgs,
    pub(super) plan: GenerationPlan,
    /// The data files, without the truth file.
    pub(super) files: Vec<PathBuf>,
}

impl RequestedDataset<'_> {
    /// Whether the dataset exists with its truth file. An error if it was generated with other options.
    pub(super) fn exists(&self) -> anyhow::Result<bool> {
        let plan = &self.plan;
        if !plan.truth().exists() {
            return Ok(false);
        }
        let (out, truth_file) = (shown(&self.size.out), shown(&plan.truth()));
        let Some(truth) = Truth::read(plan) else {
            output::note(&format!("warning: {truth_file} cannot be read: the options of {out} are unknown"));
            return self.check_files().map(|()| true);
        };
        let differences = truth.differences(self.kind, self.size.seed, plan);
        if !differences.is_empty() {
            return refuse(format!(
                "{out} exists, but was generated with other options: {}; give those options, name another file, or \
                 generate it anew with --force instead of --if-missing",
                differences.join("; ")
            ));
        }
        self.check_files().map(|()| true)
    }

    /// Waits for another writer to finish a dataset that exists in part. Accepts the files as they are if their truth
    /// file does not appear in time.
    pub(super) fn await_other_writer(&self) -> anyhow::Result<()> {
        let (out, truth) = (shown(&self.size.out), shown(&self.plan.truth()));
        let timeout = OTHER_WRITER_TIMEOUT.as_secs();
        output::note(&format!("{out} exists, {truth} does not: waiting up to {timeout} s for another writer"));
        let deadline = Instant::now() + OTHER_WRITER_TIMEOUT;
        while Instant::now() < deadline {
            if self.exists()? {
                output::note(&format!("another process has written {out}"));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.check_files()?;
        output::note(&format!("warning: there is no {truth}: the options of {out} are unknown"));
        Ok(())
    }

    /// Checks that all data files exist.
    fn check_files(&self) -> anyhow::Result<()> {
        match self.files.iter().find(|file| !file.exists()) {
            Some(missing) => refuse(format!(
                "{} is missing, but other files of the dataset exist; remove those, or generate it anew with --force \
                 instead of --if-missing",
                shown(missing)
            )),
            None => Ok(()),
        }
    }
}

fn refuse<T>(message: String) -> anyhow::Result<T> {
    Err(Refused(anyhow::anyhow!(message)).into())
}
