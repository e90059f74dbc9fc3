//! A crew is lost: who is told what and when, and where the next workers of the node start.
//!
//! First the master hears of the worker that failed, before anybody who fails of it elsewhere can be taken for the cause.
//! Then those hear who can go on without this node. Only then its other workers are ended, which may take as long as they
//! are given, and told of.

use std::path::Path;

use flexor_model::Reason;
use nix::unistd::gethostname;

use super::crew::{Counted, Crew};
use super::outcome::Over;
use super::{Launcher, Then, reports};
use crate::workers::{ERROR_FILE_VARIABLE, FailureReport, WorkerExit, command_line, printable, propagate, root_cause};

/// What went wrong on a node.
pub(super) struct LastFailure {
    report: FailureReport,
    /// How its root cause ended.
    exit: WorkerExit,
}

impl Launcher<'_> {
    /// A worker has failed, or not all are where they should be: the crew ends, and another one starts. Among others
    /// that can go on without it that is outside.
    pub(super) async fn lose(&mut self, mut crew: Crew) -> Then {
        let first = crew.group.first_failure();
        if let Some(first) = first {
            self.membership.report(reports::first_failed(self.launch, &crew, first));
        }
        if crew.opted_in {
            self.membership.stand_aside();
        }
        self.end(&mut crew).await;
        self.membership.report(reports::all_ended_but(self.launch, &crew, first.map(|first| first.local_rank)));
        match first {
            Some(_) if crew.opted_in => self.replace_failed(&crew),
            Some(_) => {
                // The master counts it, unless it follows from what happened elsewhere.
                let before = self.membership.job().map_or(0, |job| job.program_failures);
                self.tell_of_failure(&crew, Some(before + 1));
                Then::Join(None)
            }
            None => Then::StartOutside(crew.started.elapsed()),
        }
    }

    /// The program has failed in a crew that others go on without: counted here.
    fn replace_failed(&mut self, crew: &Crew) -> Then {
        let before = self.restarts.failures();
        let failures = self.restarts.charge(crew.group.exits());
        self.tell_of_failure(crew, Some(failures).filter(|failures| *failures > before));
        let max = self.max_restarts();
        if failures > max {
            let detail = format!("the program failed {failures} times on this node, {max} restarts are allowed");
            return Then::End(Over::closed(format!("{}: {detail}", Reason::RestartsExhausted)));
        }
        Then::StartOutside(crew.started.elapsed())
    }

    /// The program has failed on this node, for the so-manieth time if that is counted: people hear of what and why.
    fn tell_of_failure(&mut self, crew: &Crew, number: Option<u32>) {
        let exits = crew.group.exits();
        let command = command_line(&self.launch.program, &self.launch.args);
        let host = gethostname().map_or_else(|_| self.launch.node.0.to_string(), |name| name.to_string_lossy().into());
        let report = FailureReport::new(command, host, exits.len(), exits);
        let Some((report, exit)) = report.zip(root_cause(exits).cloned()) else { return };
        // The report names files in it.
        self.launch.logs.keep();
        let (place, message) = (report.root_cause.place(), printable(&report.root_cause.message));
        let max = self.max_restarts();
        let count = match number {
            None => "not counted".to_owned(),
            Some(number) if number > max => format!("failure {number}, and {max} are forgiven"),
            Some(number) => format!("failure {number} of {max} that are forgiven"),
        };
        tracing::warn!("the program failed at {place} ({count}): {message}");
        self.membership.report(reports::failure(&report));
        self.membership.failed(LastFailure { report, exit });
    }

    /// How often the program may fail, as far as is known.
    pub(super) fn max_restarts(&self) -> u32 {
        self.counted().max_restarts
    }

    pub(super) fn counted(&self) -> Counted {
        let job = self.membership.job();
        job.map_or_else(Counted::default, |job| Counted {
            failures: job.program_failures,
            max_restarts: job.limits.max_restarts,
        })
    }
}

impl LastFailure {
    /// Puts the report into an end that has to tell it, and the error where whoever started the launcher finds it.
    pub(super) fn explain(self, over: &mut Over) {
        let Some(told) = over.report_mut() else { return };
        if let Some(file) = std::env::var_os(ERROR_FILE_VARIABLE)
            && let Err(error) = propagate(&self.exit, Path::new(&file))
        {
            tracing::warn!(?file, "the error file of the launcher cannot be written: {error}");
        }
        *told = Some(Box::new(self.report));
    }
}
