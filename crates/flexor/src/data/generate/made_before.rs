//! Data that is there before it is made: by this command at another time, by another pod at this moment, or by whoever
//! has made it otherwise, which `NAME.truth.json` beside it tells.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flexor_data::generate::Truth;

use super::SizeArgs;
use crate::data::{Refused, shown};
use crate::output;

/// How long the truth is waited for where all else is there: whoever makes it writes it at once behind the data.
const OTHERS: Duration = Duration::from_secs(5);

/// What is to be made.
pub(super) struct Wanted<'a> {
    /// Clicks, census or digits.
    pub(super) kind: &'static str,
    pub(super) size: &'a SizeArgs,
    /// The files of data.
    pub(super) files: Vec<PathBuf>,
}

impl Wanted<'_> {
    /// Whether it is there, with its truth; refused where that is another one.
    pub(super) fn is_there(&self) -> anyhow::Result<bool> {
        let plan = self.size.plan();
        if !plan.truth().exists() {
            return Ok(false);
        }
        let (out, told_by) = (shown(&self.size.out), shown(&plan.truth()));
        let Some(truth) = Truth::read(&plan) else {
            output::note(&format!("warning: {told_by} cannot be read: nobody knows whether {out} is what is wanted"));
            return self.check_files().map(|()| true);
        };
        let differences = truth.differences(self.kind, self.size.seed, &plan);
        if !differences.is_empty() {
            return refuse(format!(
                "{out} is there, but was made otherwise: {}; write what it was made with, name another file, or make it \
                 anew with --force in the place of --if-missing",
                differences.join("; ")
            ));
        }
        self.check_files().map(|()| true)
    }

    /// A part of it is there. It is whole when another is done who makes it at this moment; where nobody does, it is
    /// taken as it is.
    pub(super) fn await_others(&self) -> anyhow::Result<()> {
        let (out, truth) = (shown(&self.size.out), shown(&self.size.plan().truth()));
        let patience = OTHERS.as_secs();
        output::note(&format!("{out} is there, {truth} is not: waiting up to {patience} s for whoever makes them"));
        let until = Instant::now() + OTHERS;
        while Instant::now() < until {
            if self.is_there()? {
                output::note(&format!("{out} was made by another"));
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.check_files()?;
        output::note(&format!("warning: there is no {truth}: nobody knows whether {out} is what is wanted"));
        Ok(())
    }

    /// All files of data have to be there.
    fn check_files(&self) -> anyhow::Result<()> {
        match self.files.iter().find(|file| !file.exists()) {
            Some(missing) => refuse(format!(
                "{} is not there, though other parts of the data are; remove those, or make it anew with --force in the \
                 place of --if-missing",
                shown(missing)
            )),
            None => Ok(()),
        }
    }
}

fn refuse<T>(why: String) -> anyhow::Result<T> {
    Err(Refused(anyhow::anyhow!(why)).into())
}
