//! The failure of a local group: what the node reports, in which order, and where its next workers start.
//!
//! First the node reports the worker that failed, before a worker that fails in consequence elsewhere can be taken for the
//! cause. Then it leaves the world, so that other nodes can go on without it. Only then it ends and reports its other
//! workers, which may take as long as their grace period.

use std::path::Path;

use flexor_model::Reason;
use nix::unistd::gethostname;

use super::launch_end::LaunchEnd;
use super::local_group::{LocalGroup, RestartCount};
use super::{Launcher, NextStep, reports};
use crate::workers::{ERROR_FILE_VARIABLE, FailureReport, WorkerExit, command_line, printable, propagate, root_cause};

/// The last failure of the program on a node.
pub(super) struct LastFailure {
    report: FailureReport,
    /// The exit that is the root cause.
    exit: WorkerExit,
}

impl Launcher<'_> {
    /// A worker has failed, or some workers are not where they should be. The group ends and another one starts. Where the
    /// other nodes can go on without this one, it starts outside the world.
    pub(super) async fn handle_failure(&mut self, mut group: LocalGroup) -> NextStep {
        let first = group.workers.first_failure();
        if let Some(first) = first {
            self.membership.report(reports::first_failed(self.launch, &group, first));
        }
        if group.opted_in {
            self.membership.stand_aside();
        }
        self.end_group(&mut group).await;
        self.membership.report(reports::all_ended_but(self.launch, &group, first.map(|first| first.local_rank)));
        match first {
            Some(_) if group.opted_in => self.charge_and_restart(&group),
            Some(_) => {
                // The master counts it, unless it follows from a failure on another node.
                let before = self.membership.job().map_or(0, |job| job.program_failures);
                self.report_failure(&group, Some(before + 1));
                match root_cause(group.workers.exits()).filter(|exit| before == 0 && exit.is_final()) {
                    Some(exit) => NextStep::End(LaunchEnd::Refused { exit_code: exit.outcome.number(), report: None }),
                    None => NextStep::AwaitWorld(None),
                }
            }
            None => NextStep::StartOutside(group.started.elapsed()),
        }
    }

    /// The program has failed in a group without which others go on: this launcher counts the failure.
    fn charge_and_restart(&mut self, group: &LocalGroup) -> NextStep {
        let before = self.restarts.failures();
        let failures = self.restarts.charge(group.workers.exits());
        self.report_failure(group, Some(failures).filter(|failures| *failures > before));
        let max = self.restart_count().max_restarts;
        if failures > max {
            let detail = format!("the program failed {failures} times on this node, {max} restarts are allowed");
            return NextStep::End(LaunchEnd::closed(format!("{}: {detail}", Reason::RestartsExhausted)));
        }
        NextStep::StartOutside(group.started.elapsed())
    }

    /// Logs a failure of the program, reports it to the master and records it. `number` counts the failures; none where
    /// this one is not charged.
    fn report_failure(&mut self, group: &LocalGroup, number: Option<u32>) {
        let exits = group.workers.exits();
        let command = command_line(&self.launch.program, &self.launch.args);
        let host = gethostname().map_or_else(|_| self.launch.node.0.to_string(), |name| name.to_string_lossy().into());
        let report = FailureReport::new(command, host, exits.len(), exits);
        let Some((report, exit)) = report.zip(root_cause(exits).cloned()) else { return };
        // The report names files in the log folder.
        self.launch.logs.keep();
        let (location, message) = (report.root_cause.location(), printable(&report.root_cause.message));
        let max = self.restart_count().max_restarts;
        let count = match number {
            None => "not counted".to_owned(),
            Some(number) if number > max => format!("failure {number}, and {max} are forgiven"),
            Some(number) => format!("failure {number} of {max} that are forgiven"),
        };
        tracing::warn!("the program failed at {location} ({count}): {message}");
        self.membership.report(reports::failure(&report));
        self.membership.record_failure(LastFailure { report, exit });
    }

    /// The job's count, as far as it is known.
    pub(super) fn restart_count(&self) -> RestartCount {
        let job = self.membership.job();
        job.map_or_else(RestartCount::default, |job| RestartCount {
            failures: job.program_failures,
            max_restarts: job.limits.max_restarts,
        })
    }
}

impl LastFailure {
    /// Adds the report to an end that carries one, and writes the error to the launcher's own error file, if it has one.
    pub(super) fn attach_to(self, end: &mut LaunchEnd) {
        let Some(report) = end.report_mut() else { return };
        if let Some(file) = std::env::var_os(ERROR_FILE_VARIABLE)
            && let Err(error) = propagate(&self.exit, Path::new(&file))
        {
            tracing::warn!(?file, "the error file of the launcher cannot be written: {error}");
        }
        *report = Some(Box::new(self.report));
    }
}
