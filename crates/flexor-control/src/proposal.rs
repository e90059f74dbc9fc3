//! What a job's master proposes over the feed, read for the controller.
//!
//! The master reports how training goes, that the run is closed for good, and which parameter servers may leave, and
//! proposes plans. A new
//! training status is compared with the one before: what has changed for people becomes events.

use std::collections::BTreeSet;

use flexor_engine::Cause;
use flexor_model::{MigratePod, Plan, PlanOrigin, Reason, RoleChange, UnixTime};
use flexor_wire::master::v1 as wire;

use crate::sizing_view::{automatic_plan_name, read_resources};
use crate::training_status::{PsClusterStatus, TrainingStatus};

/// What a proposal changes.
#[derive(Debug, Clone, PartialEq)]
pub enum MasterUpdate {
    /// The job's training status, and events that follow from it.
    Training { status: Box<TrainingStatus>, events: Vec<Cause> },
    /// The job's programs can form no world any more. The controller has to decide.
    RunClosed(Cause),
    /// The parameter servers that are leaving and keep nothing any more. The controller has to decide.
    Released(BTreeSet<String>),
    /// A plan to create, unless it exists.
    Plan { number: u32, plan: Box<Plan> },
    /// What the automatic plan of this number has brought.
    PlanResult { number: u32, message: String },
}

/// Reads a proposal of the master of the job `job`, after the training status that it reported before. None if it is
/// about another run, or says what this version does not know.
pub fn read_proposal(
    proposal: wire::Proposal,
    job: &str,
    before: Option<&TrainingStatus>,
    now: UnixTime,
) -> Option<MasterUpdate> {
    match proposal.kind? {
        wire::proposal::Kind::Training(reported) => {
            let status = TrainingStatus::after(before, &reported, now);
            let events = events(before, &status, &reported);
            Some(MasterUpdate::Training { status: Box::new(status), events })
        }
        wire::proposal::Kind::Closed(closed) if closed.run == job => {
            Some(MasterUpdate::RunClosed(Cause::new(closed.reason.parse().ok()?, closed.detail)))
        }
        wire::proposal::Kind::Closed(_) => None,
        wire::proposal::Kind::Plan(proposed) => {
            let number = proposed.number;
            proposed_plan(proposed, job).map(|plan| MasterUpdate::Plan { number, plan: Box::new(plan) })
        }
        wire::proposal::Kind::Result(result) => {
            Some(MasterUpdate::PlanResult { number: result.number, message: result.message })
        }
        wire::proposal::Kind::Released(released) => Some(MasterUpdate::Released(released.pods.into_iter().collect())),
    }
}

/// The plan that the master proposes; none where it is not one. Whether the job may carry it out is decided later.
fn proposed_plan(proposed: wire::ProposedPlan, job: &str) -> Option<Plan> {
    let role = |change: wire::SizeChange| {
        let resources = read_resources(change.resources)?;
        Some((change.role.parse().ok()?, RoleChange { replicas: change.replicas, resources }))
    };
    let migration = |migration: wire::Migration| {
        Some(MigratePod { pod: migration.pod.parse().ok()?, resources: read_resources(migration.resources)? })
    };
    Some(Plan {
        name: automatic_plan_name(job, proposed.number).parse().ok()?,
        namespace: None,
        job: job.parse().ok()?,
        origin: PlanOrigin::Auto,
        roles: proposed.roles.into_iter().map(role).collect::<Option<_>>()?,
        create: Vec::new(),
        remove: Vec::new(),
        migrate: proposed.migrate.into_iter().map(migration).collect::<Option<_>>()?,
        gives_back: false,
        message: proposed.message,
        server_addresses: Vec::new(),
    })
}

/// The events that follow from a training status which the master reported.
fn events(before: Option<&TrainingStatus>, after: &TrainingStatus, reported: &wire::TrainingStatus) -> Vec<Cause> {
    let mut events = Vec::new();
    if after.program_failures > before.map_or(0, |before| before.program_failures) {
        let message = format!("the program has failed ({} in all)", after.program_failures);
        events.push(Cause::new(Reason::ProgramFailed, message));
    }
    let journal_before = before.map(|before| (before.journal_loss.as_ref(), before.journal_failure.as_str()));
    let (loss_before, failure_before) = journal_before.unwrap_or_default();
    if let Some(loss) = after.journal_loss.as_ref().filter(|loss| loss_before != Some(*loss)) {
        let reason = if loss.damage { Reason::JournalDamaged } else { Reason::JournalTorn };
        events.push(Cause::new(reason, loss.detail.as_str()));
    }
    match (failure_before, after.journal_failure.as_str()) {
        ("", failure) if !failure.is_empty() => events.push(Cause::new(Reason::JournalFull, failure)),
        (failed, "") if !failed.is_empty() => {
            events.push(Cause::new(Reason::JournalWritable, "the journal can be written again"));
        }
        (_, _) => {}
    }
    let no_servers = PsClusterStatus::default();
    let before = before.and_then(|before| before.servers.as_ref()).unwrap_or(&no_servers);
    let Some((after, reported)) = after.servers.as_ref().zip(reported.servers.as_ref()) else { return events };
    for passed_over in after.passed_over.iter().filter(|one| !before.passed_over.contains(one)) {
        let message = format!("a checkpoint is passed over: {passed_over}");
        events.push(Cause::new(Reason::CheckpointDamaged, message));
    }
    if after.went_on_from != before.went_on_from {
        events.push(Cause::new(Reason::CheckpointFound, after.went_on_from.as_str()));
    }
    // A checkpoint that fails again and again is one event.
    if !after.checkpoint_failure.is_empty() && before.checkpoint_failure.is_empty() {
        let failure = after.checkpoint_failure.as_str();
        let message = failure.strip_prefix("CheckpointFailed: ").unwrap_or(failure);
        events.push(Cause::new(Reason::CheckpointFailed, message));
    }
    let has_backups = after.each.iter().any(|server| server.copies > 0);
    if has_backups && after.redundant && !before.redundant && before.epoch > 0 {
        let message = format!("{} servers keep every partition as often as it should be kept", after.each.len());
        events.push(Cause::new(Reason::ReplicationRestored, message));
    }
    if after.restorations > before.restorations {
        events.push(Cause::new(Reason::PartitionsRestored, reported.last_restoration.as_str()));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1000);

    fn proposal(kind: wire::proposal::Kind) -> wire::Proposal {
        wire::Proposal { generation: 1, kind: Some(kind), ..wire::Proposal::default() }
    }

    #[test]
    fn a_loss_of_the_journal_and_a_full_disk_are_one_event_each() {
        let loss = wire::JournalLoss { damage: true, detail: "at most 20 records are open again".to_owned() };
        let full = wire::TrainingStatus {
            journal_loss: Some(loss),
            journal_failure: "the disk is full".to_owned(),
            ..Default::default()
        };
        let mut before = None;
        let mut told = Vec::new();
        // The next master found no loss, and its disk has room.
        for reported in [full.clone(), full, wire::TrainingStatus::default(), wire::TrainingStatus::default()] {
            let proposal = proposal(wire::proposal::Kind::Training(Box::new(reported)));
            let Some(MasterUpdate::Training { status, events }) = read_proposal(proposal, "j", before.as_ref(), NOW)
            else {
                panic!("a training status")
            };
            before = Some(*status);
            told.extend(events.into_iter().map(|cause| cause.reason));
        }
        assert_eq!(told, [Reason::JournalDamaged, Reason::JournalFull, Reason::JournalWritable]);
    }

    #[test]
    fn a_checkpoint_that_is_passed_over_is_one_event() {
        let servers =
            wire::PsClusterStatus { passed_over: vec!["'a.flx' is damaged".to_owned()], ..Default::default() };
        let reported = wire::TrainingStatus { servers: Some(servers), ..wire::TrainingStatus::default() };
        let first = TrainingStatus::after(None, &reported, NOW);
        let expected = [Cause::new(Reason::CheckpointDamaged, "a checkpoint is passed over: 'a.flx' is damaged")];
        assert_eq!(events(None, &first, &reported), expected);
        let again = TrainingStatus::after(Some(&first), &reported, NOW);
        assert_eq!(events(Some(&first), &again, &reported), []);
    }

    #[test]
    fn only_the_end_of_the_jobs_own_run_closes_it() {
        let closed = |run: &str, reason: &str| {
            let closed =
                wire::RunClosed { run: run.to_owned(), reason: reason.to_owned(), detail: "4 of 3".to_owned() };
            read_proposal(proposal(wire::proposal::Kind::Closed(closed)), "mnist", None, NOW)
        };
        let cause = Cause::new(Reason::RestartsExhausted, "4 of 3");
        assert_eq!(closed("mnist", "RestartsExhausted"), Some(MasterUpdate::RunClosed(cause)));
        assert_eq!(closed("other", "RestartsExhausted"), None);
        assert_eq!(closed("mnist", "AReasonOfTomorrow"), None);
    }

    #[test]
    fn a_proposed_plan_is_an_automatic_plan_of_the_job() {
        let roles = vec![wire::SizeChange { role: "worker".to_owned(), replicas: Some(3), resources: [].into() }];
        let migrate = vec![wire::Migration {
            pod: "m-edljob-ps-0".to_owned(),
            resources: [("cpu".to_owned(), "2".to_owned())].into(),
        }];
        let message = "3 workers more".to_owned();
        let proposed = wire::ProposedPlan { number: 7, message, roles, migrate };
        let read = |proposed| read_proposal(proposal(wire::proposal::Kind::Plan(proposed)), "m", None, NOW);
        let Some(MasterUpdate::Plan { number: 7, plan }) = read(proposed.clone()) else { panic!("a plan") };
        assert_eq!(
            (plan.name.as_str(), plan.origin, plan.message.as_str()),
            ("m-auto-7", PlanOrigin::Auto, "3 workers more")
        );
        assert_eq!(plan.roles.values().next().and_then(|change| change.replicas), Some(3));
        assert_eq!(plan.migrate[0].resources.to_string(), "cpu=2");
        let mut unreadable = proposed;
        unreadable.migrate[0].resources.insert("cpu".to_owned(), "many".to_owned());
        assert_eq!(read(unreadable), None);
    }

    #[test]
    fn a_released_server_replaces_those_before_it() {
        let released = wire::ServersReleased { pods: vec!["ps-1".to_owned()] };
        let update = read_proposal(proposal(wire::proposal::Kind::Released(released)), "mnist", None, NOW);
        assert_eq!(update, Some(MasterUpdate::Released(BTreeSet::from(["ps-1".to_owned()]))));
        assert_eq!(read_proposal(wire::Proposal::default(), "mnist", None, NOW), None);
    }
}
