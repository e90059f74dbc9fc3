//! The quickstart for tests: smaller or otherwise changed, with a report that tests read.

pub mod running_job;
mod unchanged;

use std::fs;
use std::time::Duration;

use serde_json::Value;

use self::running_job::Training;
use super::cluster::Workspace;
use crate::local::launch::launcher::LauncherOutput;
use crate::program::root;

/// How long it may take. A machine under load is slow, not wrong.
pub const PATIENCE: Duration = Duration::from_secs(170);

/// How much of it there is, and what is different.
#[derive(Debug, Clone, Copy)]
pub struct Quickstart<'a> {
    pub records: u32,
    /// Of a batch.
    pub batch: u32,
    pub servers: u32,
    /// The chief is one of them.
    pub workers: u32,
    /// How often parameters are kept.
    pub copies: u32,
    /// What stands behind `checkpoints:`; without it none are made.
    pub checkpoints: Option<&'a str>,
    /// More words for the workers, each after a comma.
    pub words: &'a str,
}

/// What came of it.
pub struct FinishedRun {
    pub stdout: String,
    /// What its report says of the job.
    pub job: Value,
    /// The best AUC that any model could have on its test data.
    pub best: f64,
}

impl Default for Quickstart<'_> {
    fn default() -> Self {
        Self { records: 160_000, batch: 64, servers: 2, workers: 2, copies: 1, checkpoints: None, words: "" }
    }
}

impl Quickstart<'_> {
    /// Writes its manifest, `job.yaml`.
    pub fn write(self, workspace: &Workspace) {
        let Self { records, batch, servers, workers, copies, checkpoints, words } = self;
        let checkpoints = checkpoints.map(|such| format!("    checkpoints: {such}\n")).unwrap_or_default();
        let mut text = fs::read_to_string(root().join("examples/quickstart.yaml")).unwrap();
        for (output, instead) in [
            ("--records=600000, --test-records=100000", format!("--records={records}, --test-records=20000")),
            ("--test-data=quickstart-test.csv", format!("--test-data=quickstart-test.csv, --batch={batch}{words}")),
            ("\nspec:\n", format!("\nspec:\n  flexor:\n    psReplicationFactor: {copies}\n{checkpoints}")),
            ("    ps:\n      replicas: 2", format!("    ps:\n      replicas: {servers}")),
            ("    worker:\n      replicas: 2", format!("    worker:\n      replicas: {workers}")),
        ] {
            assert!(text.contains(output), "the manifest says {output:?}");
            text = text.replacen(output, &instead, 1);
        }
        fs::write(workspace.folder.path().join("job.yaml"), text).unwrap();
    }

    /// Runs it in a folder, with a report and these words more.
    pub fn start<'a>(self, workspace: &'a Workspace, words: &[&str]) -> Training<'a> {
        self.write(workspace);
        let words = [&["job.yaml", "--report", "report"], words].concat();
        Training::new(workspace, workspace.run(&words).patient(PATIENCE))
    }

    /// Runs it to its end.
    pub fn finish(self, workspace: &Workspace) -> FinishedRun {
        self.start(workspace, &[]).finish()
    }

    /// So many records, of a part of all.
    pub fn share(self, part: u32, of: u32) -> u64 {
        u64::from(self.records) * u64::from(part) / u64::from(of)
    }

    /// Every record was accounted for, no update was lost or applied twice, and the model has learnt.
    pub fn assert_all_is_well(self, finished: &FinishedRun) {
        self.assert_accounted(finished);
        assert_eq!(finished.job["updates"]["lost"], 0, "{}", finished.stdout);
    }

    /// The same, and the model has had the very updates of a run that was left alone: which rows a batch is about follows
    /// from the data. For runs of which no worker was killed: one that is takes what it was last told with it.
    pub fn assert_same_updates(self, finished: &FinishedRun, undisturbed: &FinishedRun) {
        self.assert_all_is_well(finished);
        assert_eq!(finished.updates("applied"), undisturbed.updates("applied"), "{}", finished.stdout);
    }

    /// Every record was accounted for, no update was applied twice, and the model has learnt.
    pub fn assert_accounted(self, finished: &FinishedRun) {
        let FinishedRun { stdout, job, best } = finished;
        let records = &job["records"];
        assert_eq!(records["accounted"], self.records, "{stdout}");
        assert_eq!((&records["lost"], &records["expected"]), (&0.into(), &records["accounted"]), "{stdout}");
        assert_eq!(job["updates"]["reapplied"], 0, "{stdout}");
        let found = finished.auc();
        assert!(found > best - 0.02, "an AUC of {found}, where {best} is possible: {stdout}");
    }
}

impl FinishedRun {
    /// What its report counts of updates.
    pub fn updates(&self, what: &str) -> u64 {
        let count = self.job["updates"][what].as_u64();
        count.unwrap_or_else(|| panic!("no count of {what} in {}", self.job["updates"]))
    }

    /// What a run that has ended well has left in its folder.
    pub fn read(workspace: &Workspace, ended: LauncherOutput) -> Self {
        let read = |name: &str| -> Value {
            serde_json::from_slice(&fs::read(workspace.folder.path().join(name)).unwrap()).unwrap()
        };
        let best = read("quickstart.truth.json")["best_auc"].as_f64().unwrap();
        Self { stdout: ended.stdout, job: read("report/report.json")["jobs"][0].take(), best }
    }

    /// How well the model does on other data.
    pub fn auc(&self) -> f64 {
        self.job["learning"]["test"]["auc"].as_f64().unwrap_or_else(|| panic!("no AUC in {}", self.job["learning"]))
    }
}
