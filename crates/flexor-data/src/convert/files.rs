//! The output of a conversion: one file, or a folder of files with a fixed number of records each.

use std::io::Write;
use std::path::PathBuf;

use super::{Conversion, ConvertError, Target};
use crate::output::{Existing, Output};
use crate::recordio::{WriteError, Writer};

/// Writes the files.
pub(super) struct Files<'a> {
    conversion: &'a Conversion,
    header: Vec<u8>,
    open: Option<File>,
    in_open: u64,
    whole: Vec<PathBuf>,
}

struct File {
    path: PathBuf,
    format: InFormat,
}

enum InFormat {
    RecordIo(Box<Writer<Output>>),
    Lines(Box<Output>),
}

impl<'a> Files<'a> {
    pub(super) fn new(conversion: &'a Conversion) -> Self {
        Self { conversion, header: Vec::new(), open: None, in_open: 0, whole: Vec::new() }
    }

    /// Sets the first bytes of each file.
    pub(super) fn set_header(&mut self, header: Vec<u8>) {
        self.header = header;
    }

    pub(super) fn write(&mut self, record: &[u8]) -> Result<(), ConvertError> {
        if self.conversion.records_per_file == Some(self.in_open) {
            self.close()?;
        }
        let open = self.open()?;
        open.write(record).map_err(|source| ConvertError::Write { path: open.path.clone(), source })?;
        self.in_open += 1;
        Ok(())
    }

    /// Completes the last file. Without records there is one empty file. When a folder is replaced, older files behind
    /// the last one are removed: their records would count as well.
    pub(super) fn finish(mut self) -> Result<Vec<PathBuf>, ConvertError> {
        if self.whole.is_empty() {
            self.open()?;
        }
        self.close()?;
        if self.conversion.existing == Existing::Replace && self.conversion.records_per_file.is_some() {
            for path in (self.whole.len()..).map(|number| self.path(number)).take_while(|path| path.is_file()) {
                let removed = std::fs::remove_file(&path);
                removed.map_err(|error| ConvertError::Write { path, source: error.into() })?;
            }
        }
        Ok(self.whole)
    }

    /// The path of the file with this number.
    fn path(&self, number: usize) -> PathBuf {
        let Conversion { target, to, records_per_file, .. } = self.conversion;
        match records_per_file {
            Some(_) => to.join(format!("data-{number:05}{}", target.extension())),
            None => to.clone(),
        }
    }

    fn open(&mut self) -> Result<&mut File, ConvertError> {
        let file = match self.open.take() {
            Some(file) => file,
            None => self.begin()?,
        };
        Ok(self.open.insert(file))
    }

    fn begin(&self) -> Result<File, ConvertError> {
        let Conversion { target, existing, .. } = self.conversion;
        let path = self.path(self.whole.len());
        let mut output = Output::create(&path, *existing)?;
        let format = match target {
            Target::RecordIo(options) => InFormat::RecordIo(Box::new(Writer::new(output, *options))),
            Target::Csv | Target::Text => {
                let written = output.write_all(&self.header);
                written.map_err(|error| ConvertError::Write { path: path.clone(), source: error.into() })?;
                InFormat::Lines(Box::new(output))
            }
        };
        Ok(File { path, format })
    }

    fn close(&mut self) -> Result<(), ConvertError> {
        let Some(File { path, format }) = self.open.take() else { return Ok(()) };
        let output = match format {
            InFormat::RecordIo(writer) => {
                let finished = writer.finish();
                finished.map_err(|error| ConvertError::Write { path: path.clone(), source: error.into() })?.0
            }
            InFormat::Lines(output) => *output,
        };
        output.commit()?;
        self.whole.push(path);
        self.in_open = 0;
        Ok(())
    }
}

impl File {
    fn write(&mut self, record: &[u8]) -> Result<(), WriteError> {
        match &mut self.format {
            InFormat::RecordIo(writer) => writer.write(record),
            InFormat::Lines(output) => {
                output.write_all(record)?;
                Ok(output.write_all(b"\n")?)
            }
        }
    }
}

impl Target {
    /// The extension of numbered files. ElasticDL's files have none.
    fn extension(self) -> &'static str {
        match self {
            Self::RecordIo(_) => "",
            Self::Csv => ".csv",
            Self::Text => ".txt",
        }
    }
}
