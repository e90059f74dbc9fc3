//! The program has failed on this node: who is told what, and where its next workers start.

use nix::unistd::gethostname;

use super::crew::{Counted, Crew};
use super::{Launcher, Then, reports};
use crate::workers::{ERROR_FILE_VARIABLE, FailureReport, command_line, printable, propagate, root_cause};

impl Launcher<'_> {
    /// A worker has failed, and all are ended. Among others that can go on without it the next ones start outside.
    pub(super) fn after_failure(&mut self, crew: Crew) -> Then {
        if !crew.opted_in {
            // The master counts it, unless it follows from what happened elsewhere.
            let before = self.membership.job().map_or(0, |job| job.program_failures);
            self.tell_of_failure(&crew, Some(before + 1));
            return Then::Join(None);
        }
        let before = self.restarts.failures();
        let failures = self.restarts.charge(crew.group.exits());
        self.tell_of_failure(&crew, Some(failures).filter(|failures| *failures > before));
        self.replace_failed(&crew, failures)
    }

    /// The program has failed on this node, for the so-manieth time if that is counted: the master and people hear of
    /// what and why.
    fn tell_of_failure(&mut self, crew: &Crew, number: Option<u32>) {
        let exits = crew.group.exits();
        let command = command_line(&self.launch.program, &self.launch.args);
        let host = gethostname().map_or_else(|_| self.launch.node.0.to_string(), |name| name.to_string_lossy().into());
        // The report names files in it.
        self.launch.logs.keep();
        if let Some(file) = std::env::var_os(ERROR_FILE_VARIABLE)
            && let Some(exit) = root_cause(exits)
            && let Err(error) = propagate(exit, file.as_ref())
        {
            tracing::warn!(?file, "the error file of the launcher cannot be written: {error}");
        }
        let Some(report) = FailureReport::new(command, host, exits.len(), exits) else {
            self.membership.report(reports::all_ended(self.launch, crew));
            return;
        };
        let (rank, message) = (report.root_cause.rank, printable(&report.root_cause.message));
        let max = self.max_restarts();
        let count = match number {
            None => "not counted".to_owned(),
            Some(number) if number > max => format!("failure {number}, and {max} are forgiven"),
            Some(number) => format!("failure {number} of {max} that are forgiven"),
        };
        tracing::warn!("the program failed at rank {rank} ({count}): {message}");
        self.membership.report(reports::all_ended_by_failure(self.launch, crew, &report));
        self.membership.report(reports::failure(&report));
        self.membership.failed(report);
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
