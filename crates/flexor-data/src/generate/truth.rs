//! The truth about generated data: the score that no model exceeds.

use std::io::Write;

use serde::{Deserialize, Serialize};

use super::{GenerateError, GenerationPlan};

/// The content of `NAME.truth.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// The generator's name.
    pub generator: String,
    pub seed: u64,
    /// The best AUC that any model can reach on the test file, or on all data without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_auc: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_accuracy: Option<f64>,
    /// Where the data are folders of files: the records of each file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_per_file: Option<u64>,
    pub files: Vec<TruthOfFile>,
}

/// The truth about one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TruthOfFile {
    pub file: String,
    pub records: u64,
    /// Records with label 1, if labels are binary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub positives: Option<u64>,
    /// The AUC of the true probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_auc: Option<f64>,
}

impl Truth {
    /// Reads the truth beside a plan's data, if possible.
    pub fn read(plan: &GenerationPlan) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(plan.truth()).ok()?).ok()
    }

    /// The differences between the existing data and a plan, in words.
    pub fn differences(&self, generator: &str, seed: u64, plan: &GenerationPlan) -> Vec<String> {
        let records = |part: usize| self.files.get(part).map_or(0, |file| file.records);
        let numbers = [
            ("--records", records(0), plan.records),
            ("--test-records", records(1), plan.test_records),
            ("--seed", self.seed, seed),
        ];
        let numbers = numbers.into_iter().filter(|(_, made, wanted)| made != wanted);
        let numbers = numbers.map(|(option, made, wanted)| format!("{option} {made}, not {wanted}"));
        let per_file = (self.records_per_file != plan.records_per_file).then(|| {
            let option = |per_file: Option<u64>| match per_file {
                Some(records) => format!("--records-per-file {records}"),
                None => "without --records-per-file".to_owned(),
            };
            format!("{}, not {}", option(self.records_per_file), option(plan.records_per_file))
        });
        let kind = (self.generator != generator).then(|| format!("as {}, not {generator}", self.generator));
        kind.into_iter().chain(numbers).chain(per_file).collect()
    }

    /// Writes the truth beside the data.
    pub(super) fn write(&self, plan: &GenerationPlan) -> Result<(), GenerateError> {
        let path = plan.truth();
        let mut output = plan.create(&path)?;
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| writeln!(output, "{text}"));
        written.map_err(|error| GenerateError::Write { path, source: error.into() })?;
        Ok(output.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::generate::{TableFormat, clicks, write_table};
    use crate::output::Existing;

    fn plan(folder: &Path, records: u64, test_records: u64) -> GenerationPlan {
        let out = folder.join("clicks.csv");
        GenerationPlan { out, records, test_records, records_per_file: None, existing: Existing::Keep }
    }

    #[test]
    fn differences_to_existing_data_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let made = plan(folder.path(), 100, 10);
        assert_eq!(Truth::read(&made), None);
        let truth = write_table(&clicks::Clicks::new(1), &made, TableFormat::Csv, &mut |_| {}).unwrap();
        let read = Truth::read(&made).unwrap();
        assert_eq!(read, truth);
        assert_eq!(read.differences("clicks", 1, &made), [""; 0]);
        let other = read.differences("census", 7, &plan(folder.path(), 200, 0));
        assert_eq!(
            other,
            ["as clicks, not census", "--records 100, not 200", "--test-records 10, not 0", "--seed 1, not 7"]
        );
        let in_folder = read.differences("clicks", 1, &GenerationPlan { records_per_file: Some(10), ..made.clone() });
        assert_eq!(in_folder, ["without --records-per-file, not --records-per-file 10"]);
        std::fs::write(made.truth(), "{}").unwrap();
        assert_eq!(Truth::read(&made), None, "not a truth file");
    }
}
