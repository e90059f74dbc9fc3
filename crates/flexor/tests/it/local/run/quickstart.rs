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

/// The size of the quickstart, and its changes.
#[derive(Debug, Clone, Copy)]
pub struct Quickstart<'a> {
    pub records: u32,
    /// Of a batch.
    pub batch: u32,
    pub servers: u32,
    /// The chief is one of them.
    pub workers: u32,
    /// How often parameters are kept.
    pub replication_factor: u32,
    /// The value of `checkpoints:`; without it there are none.
    pub checkpoints: Option<&'a str>,
    /// More arguments for the workers, each after a comma.
    pub words: &'a str,
}

/// The results of a successful run.
pub struct FinishedRun {
    pub stdout: String,
    /// The job's part of the report.
    pub job: Value,
    /// The best AUC that any model could have on its test data.
    pub best: f64,
}

impl Default for Quickstart<'_> {
    fn default() -> Self {
        Self {
            records: 160_000,
            batch: 64,
            servers: 2,
            workers: 2,
            replication_factor: 1,
            checkpoints: None,
            words: "",
        }
    }
}

impl Quickstart<'_> {
    /// Writes its manifest, `job.yaml`.
    pub fn write(self, workspace: &Workspace) {
        let Self { records, batch, servers, workers, replication_factor, checkpoints, words } = self;
        let checkpoints = checkpoints.map(|such| format!("    checkpoints: {such}\n")).unwrap_or_default();
        let mut text = fs::read_to_string(root().join("examples/quickstart.yaml")).unwrap();
        for (output, instead) in [
            ("--records=600000, --test-records=100000", format!("--records={records}, --test-records=20000")),
            ("--test-data=quickstart-test.csv", format!("--test-data=quickstart-test.csv, --batch={batch}{words}")),
            ("\nspec:\n", format!("\nspec:\n  flexor:\n    psReplicationFactor: {replication_factor}\n{checkpoints}")),
            ("    ps:\n      replicas: 2", format!("    ps:\n      replicas: {servers}")),
            ("    worker:\n      replicas: 2", format!("    worker:\n      replicas: {workers}")),
        ] {
            assert!(text.contains(output), "the manifest says {output:?}");
            text = text.replacen(output, &instead, 1);
        }
        fs::write(workspace.folder.path().join("job.yaml"), text).unwrap();
    }

    /// Runs it in a folder, with a report and these further arguments.
    pub fn start<'a>(self, workspace: &'a Workspace, words: &[&str]) -> Training<'a> {
        self.write(workspace);
        let words = [&["job.yaml", "--report", "report"], words].concat();
        Training::new(workspace, workspace.run(&words).patient(PATIENCE))
    }

    /// Runs it to its end.
    pub fn finish(self, workspace: &Workspace) -> FinishedRun {
        self.start(workspace, &[]).finish()
    }

    /// A fraction of all records.
    pub fn share(self, part: u32, of: u32) -> u64 {
        u64::from(self.records) * u64::from(part) / u64::from(of)
    }

    /// Checks that every record is accounted for, no update was lost or applied twice, and the model has learnt.
    pub fn assert_all_is_well(self, finished: &FinishedRun) {
        self.assert_accounted(finished);
        assert_eq!(finished.job["updates"]["lost"], 0, "{}", finished.stdout);
    }

    /// The same, and the model has had exactly the updates of an undisturbed run: the data determines the rows of a
    /// batch. Only for runs without a killed worker, because a killed worker loses its last count.
    pub fn assert_same_updates(self, finished: &FinishedRun, undisturbed: &FinishedRun) {
        self.assert_all_is_well(finished);
        assert_eq!(finished.updates("applied"), undisturbed.updates("applied"), "{}", finished.stdout);
    }

    /// Checks that every record is accounted for, no update was applied twice, and the model has learnt.
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
    /// A count of updates in its report.
    pub fn updates(&self, what: &str) -> u64 {
        let count = self.job["updates"][what].as_u64();
        count.unwrap_or_else(|| panic!("no count of {what} in {}", self.job["updates"]))
    }

    /// Reads the results of a successful run from its folder.
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
