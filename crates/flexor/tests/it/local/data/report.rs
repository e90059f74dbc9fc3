//! Compares the master's report on the records with the records that the workers wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;

use serde::Deserialize;

use super::super::faults::deadline::eventually_or_explain;
use super::super::launch::folder::Folder;
use super::api;

/// The answer of `/api/datasets/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Report {
    pub totals: Totals,
    pub quarantine: Vec<Quarantined>,
    pub finished: bool,
}

/// Counts of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub expected: u64,
    pub accounted: u64,
    pub quarantined: u64,
    pub outstanding: u64,
    pub repeated_at_most: u64,
    pub rewound: u64,
}

/// A batch that was taken out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Quarantined {
    pub first: u64,
    pub count: u64,
}

impl Report {
    /// Asks a master about the dataset of `examples/any-program`.
    pub fn ask(master: SocketAddr) -> Option<Self> {
        Self::of("numbers", master)
    }

    /// Queries a master about a dataset; `None` before its registration.
    ///
    /// The records add up at any time.
    pub fn of(dataset: &str, master: SocketAddr) -> Option<Self> {
        let (status, body) = api::get(master, &format!("datasets/{dataset}"));
        if status == 404 {
            return None;
        }
        assert_eq!(status, 200, "{body}");
        let report: Self = serde_json::from_value(body).unwrap();
        let Totals { expected, accounted, quarantined, outstanding, .. } = report.totals;
        assert_eq!(expected, accounted + quarantined + outstanding, "{report:?}");
        Some(report)
    }

    /// Waits until this many records are accounted for or quarantined.
    pub fn await_done(master: SocketAddr, records: u64, explain: impl FnOnce() -> String) -> Self {
        let done = |report: &Self| report.totals.accounted + report.totals.quarantined >= records;
        let look = || Self::ask(master).filter(done);
        eventually_or_explain(&format!("{records} records"), look, || format!("{:?}\n{}", Self::ask(master), explain()))
    }

    /// No record is open or lost, and none was written more often than the report admits.
    pub fn fits(&self, records: u64, written: &WrittenRecords) {
        let Totals { expected, accounted, quarantined, outstanding, repeated_at_most, rewound } = self.totals;
        assert!(self.finished, "{self:?}");
        assert_eq!((expected, accounted + quarantined, outstanding), (records, records, 0), "{self:?}");
        let taken_out: BTreeSet<u64> =
            self.quarantine.iter().flat_map(|batch| batch.first..batch.first + batch.count).collect();
        assert_eq!(taken_out.len() as u64, quarantined, "{self:?}");
        let lost: Vec<u64> =
            (0..records).filter(|record| !written.0.contains_key(record) && !taken_out.contains(record)).collect();
        assert!(lost.is_empty(), "never written: {lost:?}; {self:?}");
        assert!(written.0.keys().all(|record| *record < records), "a record that does not exist was written");
        let repeats = written.repeats();
        assert!(repeats <= repeated_at_most + rewound, "{repeats} were written again; {self:?}");
        println!("{repeats} of {records} written again, the report says at most {repeated_at_most}; {quarantined} out");
    }
}

/// How often each record was written, by all workers together.
pub struct WrittenRecords(BTreeMap<u64, u64>);

impl WrittenRecords {
    /// Reads the files that the workers wrote into the folder `out`.
    pub fn read(folder: &Folder) -> Self {
        let mut written = BTreeMap::new();
        let files = fs::read_dir(folder.path().join("out")).into_iter().flatten();
        for file in files {
            for line in fs::read_to_string(file.unwrap().path()).unwrap().lines() {
                *written.entry(line.parse().unwrap_or_else(|_| panic!("{line:?} is no record"))).or_default() += 1;
            }
        }
        Self(written)
    }

    /// How many lines are repeats because of kills.
    pub fn repeats(&self) -> u64 {
        self.0.values().map(|times| times - 1).sum()
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        self.0.len() as u64
    }
}
