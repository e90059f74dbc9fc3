//! Images in a folder of files with a fixed number of records each.

use std::path::{Path, PathBuf};

use crate::generate::{GenerateError, GeneratedFile, GenerationPlan, MOST_FILES};
use crate::output::{Existing, OutputError};

/// The files of a part: the numbered files of its folder, or the part itself. Without records there is one empty file.
pub(super) fn split(part: &GeneratedFile, records_per_file: Option<u64>) -> impl Iterator<Item = GeneratedFile> {
    let per_file = records_per_file.unwrap_or(part.records).max(1);
    let count = part.records.div_ceil(per_file).max(1);
    let (first, end, out) = (part.first, part.first + part.records, part.path.clone());
    (0..count).map(move |number| {
        let from = first + number * per_file;
        let path = if records_per_file.is_some() { numbered(&out, number) } else { out.clone() };
        GeneratedFile { path, first: from, records: per_file.min(end - from) }
    })
}

/// The same names as those of `flexor data convert`.
fn numbered(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("data-{number:05}"))
}

/// Refuses more files than can be open at once, and a folder with files behind the last one, which would count as well.
pub(super) fn check(plan: &GenerationPlan, parts: &[GeneratedFile]) -> Result<(), GenerateError> {
    let Some(records_per_file) = plan.records_per_file else { return Ok(()) };
    let files: u64 = parts.iter().map(|part| part.records.div_ceil(records_per_file)).sum();
    if files > MOST_FILES {
        return Err(GenerateError::TooManyFiles {
            records: parts.iter().map(|part| part.records).sum(),
            records_per_file,
        });
    }
    match older(parts, records_per_file).next() {
        Some(path) if plan.existing == Existing::Keep => Err(OutputError::Exists(path).into()),
        Some(_) | None => Ok(()),
    }
}

/// Removes files of an earlier, larger set.
pub(super) fn remove_older(plan: &GenerationPlan, parts: &[GeneratedFile]) -> Result<(), GenerateError> {
    let Some(records_per_file) = plan.records_per_file else { return Ok(()) };
    older(parts, records_per_file).try_for_each(|path| {
        std::fs::remove_file(&path).map_err(|error| GenerateError::Write { path, source: error.into() })
    })
}

/// The numbered files behind the last one of each part.
fn older(parts: &[GeneratedFile], records_per_file: u64) -> impl Iterator<Item = PathBuf> {
    parts.iter().flat_map(move |part| {
        let count = part.records.div_ceil(records_per_file).max(1);
        (count..).map(|number| numbered(&part.path, number)).take_while(|path| path.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::super::{DigitsFormat, files, write};
    use super::*;
    use crate::recordio::{Compressor, WriterOptions};
    use crate::{Content, Dataset, Options};

    const FORMAT: DigitsFormat =
        DigitsFormat::RecordIo(WriterOptions { compressor: Compressor::None, chunk_limit: 1 << 20 });

    fn plan(folder: &Path, records: u64, per_file: u64) -> GenerationPlan {
        GenerationPlan {
            out: folder.join("mnist"),
            records,
            test_records: 3,
            records_per_file: Some(per_file),
            existing: Existing::Keep,
        }
    }

    #[test]
    fn the_files_of_a_folder_hold_the_same_records_as_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let in_files = plan(folder.path(), 25, 10);
        let truth = write(1, &in_files, FORMAT, &mut |_| {}).unwrap();
        assert_eq!(
            truth.files.iter().map(|file| (&*file.file, file.records)).collect::<Vec<_>>(),
            [("mnist", 25), ("mnist-test", 3)]
        );
        let names = ["mnist/data-00000", "mnist/data-00001", "mnist/data-00002", "mnist-test/data-00000"];
        assert_eq!(files(&in_files, FORMAT), names.map(|name| folder.path().join(name)));

        let one = GenerationPlan { out: folder.path().join("one"), records_per_file: None, ..in_files.clone() };
        write(1, &one, FORMAT, &mut |_| {}).unwrap();
        let records = |path: &Path| {
            let dataset = Dataset::open(&[path.to_owned()], &Options::default()).unwrap();
            let mut records: Vec<Vec<u8>> = Vec::new();
            let read = dataset.read(0..dataset.len(), &mut |record| match record.content {
                Content::Whole(bytes) => records.push(bytes.to_vec()),
                other => panic!("{other:?}"),
            });
            read.unwrap();
            records
        };
        assert_eq!(records(&in_files.out).len(), 25);
        assert_eq!(records(&in_files.out), records(&one.out));
    }

    #[test]
    fn files_of_a_larger_set_are_refused_or_removed() {
        let folder = tempfile::tempdir().unwrap();
        write(1, &plan(folder.path(), 40, 10), FORMAT, &mut |_| {}).unwrap();
        std::fs::remove_file(folder.path().join("mnist.truth.json")).unwrap();
        for number in 0..2 {
            std::fs::remove_file(folder.path().join(format!("mnist/data-0000{number}"))).unwrap();
        }
        let smaller = plan(folder.path(), 20, 10);
        let error = write(1, &smaller, FORMAT, &mut |_| {}).unwrap_err();
        assert!(
            matches!(&error, GenerateError::Output(OutputError::Exists(path)) if path.ends_with("data-00002")),
            "{error}"
        );
        assert!(!folder.path().join("mnist/data-00000").exists(), "nothing was written");
        let replaced = GenerationPlan { existing: Existing::Replace, ..smaller };
        write(1, &replaced, FORMAT, &mut |_| {}).unwrap();
        assert_eq!(folder.path().join("mnist").read_dir().unwrap().count(), 2);
    }

    #[test]
    fn as_many_files_as_cannot_be_open_at_once_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(1, &plan(folder.path(), 1_000, 1), FORMAT, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("1003 records make more than 500 files of 1"), "{error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
