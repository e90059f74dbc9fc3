//! The timeline of a job: when it waited, trained and recovered, and with how many nodes.
//!
//! A [`Moment`] is taken from what is observed at each change, so a state between two changes is not in it. People and
//! reports read the timeline; nothing is decided by it.

use std::time::Duration;

use flexor_engine::controller::{JobStatus, ObservedPod, Phase, PodPhase};
use flexor_model::{Job, Reason, RoleKind, RoleName, UnixTime};
use serde::{Deserialize, Serialize};

use crate::training_status::TrainingStatus;

/// Further spans than this are not recorded: a report could not show them.
const MOST_SPANS: usize = 20_000;

/// The roles that train.
const WORKERS: &[RoleKind] = &[RoleKind::Worker, RoleKind::Chief];
const SERVERS: &[RoleKind] = &[RoleKind::ParameterServer];
/// The roles that workers need.
const SUPPORT: &[RoleKind] = &[RoleKind::Master, RoleKind::ParameterServer];

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Activity {
    /// The job has not trained yet, some worker is unschedulable, or its target is no workers.
    Waiting,
    /// The world is complete or, in a job without one, its workers run. More workers may be starting.
    Training,
    /// The job trained before and replaces something that was lost.
    Recovering,
}

/// A part of a job's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub from: UnixTime,
    /// None while it lasts.
    pub to: Option<UnixTime>,
    pub activity: Activity,
    /// The nodes of the world or, in a job without one, the running workers. 0 while the job waits.
    pub nodes: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// In order, without gaps.
    pub spans: Vec<Span>,
    /// The job's programs form a world.
    #[serde(default)]
    forms_world: bool,
    /// The most workers that have run, at most as many as are desired now. Fewer running workers are a loss.
    #[serde(default)]
    had_workers: u32,
    /// The same of masters and parameter servers.
    #[serde(default)]
    had_others: u32,
    /// The accounted records when they were first reported.
    #[serde(default)]
    had_records: Option<u64>,
}

/// What is observed of a job at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub world: WorldState,
    pub workers: PodCounts,
    /// The master and the parameter servers, which workers need.
    pub support: PodCounts,
    /// Some partition of the parameters has no server.
    pub has_unowned_partitions: bool,
    /// The accounted records, if the job counts records.
    pub records: Option<u64>,
    /// Some worker finds no room.
    pub is_unschedulable: bool,
    /// The target is no workers, or no parameter servers although the job has that role.
    pub is_halted: bool,
    /// Since when nothing can be learnt although all pods run: the journal cannot be written, the master does not answer,
    /// or a server with parameters is away.
    pub stalled_since: Option<UnixTime>,
}

/// Counts of the pods of some roles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PodCounts {
    pub running: u32,
    /// The target replicas, less the pods that have succeeded.
    pub desired: u32,
}

/// The world as the master reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldState {
    /// There was none so far; not all programs form one.
    None,
    /// Its nodes wait for one another.
    Meeting,
    /// It is complete, with so many nodes.
    Complete(u32),
}

impl Moment {
    /// What is observed of a job, of which these pods exist and whose master has reported this. `silent_since` is when a
    /// master was heard last that does not answer.
    pub fn of(
        job: &Job,
        status: &JobStatus,
        pods: &[ObservedPod],
        training: Option<&TrainingStatus>,
        (silent_since, now): (Option<UnixTime>, UnixTime),
    ) -> Self {
        let view = View { job, status, pods };
        let workers = view.counts(WORKERS);
        Self {
            world: match training {
                Some(TrainingStatus { round: Some(_), meeting: false, nodes, .. }) if workers.running > 0 => {
                    WorldState::Complete(*nodes)
                }
                Some(TrainingStatus { round: Some(_), .. }) => WorldState::Meeting,
                Some(_) | None => WorldState::None,
            },
            workers,
            support: view.counts(SUPPORT),
            has_unowned_partitions: training
                .and_then(|training| training.servers.as_ref())
                .is_some_and(|servers| servers.unowned > 0),
            records: training.and_then(|training| training.records).map(|records| records.accounted),
            is_unschedulable: view.pods(WORKERS).any(is_unschedulable),
            is_halted: view.is_halted(WORKERS) || view.is_halted(SERVERS),
            stalled_since: silent_since.or_else(|| training.is_some_and(is_stalled).then_some(now)),
        }
    }
}

/// Whether the master reports that nothing can be learnt: no acknowledgement is durable, or parameters are away.
fn is_stalled(training: &TrainingStatus) -> bool {
    let mut servers = training.servers.iter().flat_map(|servers| &servers.each);
    !training.journal_failure.is_empty() || servers.any(|server| server.partitions > 0 && !server.here)
}

struct View<'a> {
    job: &'a Job,
    status: &'a JobStatus,
    pods: &'a [ObservedPod],
}

impl View<'_> {
    fn is_of(&self, role: &RoleName, kinds: &[RoleKind]) -> bool {
        self.job.roles.iter().any(|known| known.name == *role && kinds.contains(&known.kind))
    }

    fn pods(&self, kinds: &'static [RoleKind]) -> impl Iterator<Item = &ObservedPod> {
        self.pods.iter().filter(move |pod| self.is_of(&pod.role, kinds))
    }

    fn target(&self, kinds: &[RoleKind]) -> u32 {
        let targets = self.status.targets.iter().filter(|(role, _)| self.is_of(role, kinds));
        targets.map(|(_, target)| target.replicas).sum()
    }

    fn counts(&self, kinds: &'static [RoleKind]) -> PodCounts {
        let count = |phase: PodPhase| {
            let pods = self.pods(kinds).filter(|pod| pod.phase == phase && !pod.deleting).count();
            u32::try_from(pods).unwrap_or(u32::MAX)
        };
        let desired = self.target(kinds).saturating_sub(count(PodPhase::Succeeded));
        PodCounts { running: count(PodPhase::Running), desired }
    }

    /// Whether the target of some roles that the job has is 0, and none of their pods runs any more.
    fn is_halted(&self, kinds: &'static [RoleKind]) -> bool {
        let has_role = self.status.targets.keys().any(|role| self.is_of(role, kinds));
        has_role && self.target(kinds) == 0 && !self.pods(kinds).any(|pod| pod.phase == PodPhase::Running)
    }
}

fn is_unschedulable(pod: &ObservedPod) -> bool {
    pod.pending.as_ref().is_some_and(|cause| cause.reason == Reason::Unschedulable)
}

impl PodCounts {
    /// Whether fewer run than the most that did, of those that are still desired. Updates that number.
    fn has_lost(self, had: &mut u32) -> bool {
        *had = self.running.max(*had).min(self.desired);
        self.running < *had
    }
}

impl Timeline {
    /// Adds what is observed of a job now. Its first span begins when the job was created, when nothing of it ran.
    pub fn update(&mut self, moment: Moment, created_at: UnixTime, phase: Phase, now: UnixTime) {
        if self.spans.is_empty() {
            let workers = PodCounts { running: 0, ..moment.workers };
            self.add(Moment { world: WorldState::None, workers, ..moment }, created_at);
        }
        if phase.is_over() { self.end(now) } else { self.add(moment, now) }
    }

    fn add(&mut self, moment: Moment, mut now: UnixTime) {
        if moment.world != WorldState::None && !self.forms_world {
            self.forms_world = true;
            // The programs form a world, so they did not train before it was complete.
            for span in &mut self.spans {
                (span.activity, span.nodes) = (Activity::Waiting, 0);
            }
        }
        let PodCounts { running, desired } = moment.workers;
        let has_lost_workers = moment.workers.has_lost(&mut self.had_workers);
        let has_lost_support = moment.support.has_lost(&mut self.had_others) || moment.has_unowned_partitions;
        let has_lost = has_lost_workers || has_lost_support;
        self.had_records = self.had_records.or(moment.records);
        let has_begun = desired > 0 && running >= desired || running > 0 && moment.records > self.had_records;
        let trained = self.spans.iter().any(|span| span.activity == Activity::Training);
        // A world without a ledger goes on without its master.
        let stalled_since = moment
            .stalled_since
            .filter(|_| trained && !moment.is_halted && (moment.world == WorldState::None || moment.records.is_some()));
        let (activity, nodes) = match moment.world {
            _ if stalled_since.is_some() => (Activity::Recovering, running),
            WorldState::Complete(nodes) => (Activity::Training, nodes),
            WorldState::None | WorldState::Meeting if moment.is_halted => (Activity::Waiting, 0),
            // Pods that are added were not there before, so nothing is recovered for them.
            WorldState::None if trained && !has_lost => (Activity::Training, running),
            WorldState::None if !trained && has_begun => (Activity::Training, running),
            // The workers that have room go on.
            WorldState::None if trained && moment.is_unschedulable && running > 0 && !has_lost_support => {
                (Activity::Training, running)
            }
            WorldState::None | WorldState::Meeting if trained && !moment.is_unschedulable => {
                (Activity::Recovering, running)
            }
            WorldState::None | WorldState::Meeting => (Activity::Waiting, 0),
        };
        if let Some((last, since)) = self.spans.last().zip(stalled_since) {
            now = since.clamp(last.from, now.max(last.from));
        }
        match self.spans.last_mut() {
            Some(last) if last.to.is_none() && last.activity == activity && last.nodes == nodes => return,
            // A change of the number of nodes begins a span only in training.
            Some(last) if last.to.is_none() && last.activity == activity && activity != Activity::Training => {
                last.nodes = nodes;
                return;
            }
            Some(last) if last.to.is_none() => last.to = Some(now),
            Some(_) | None => {}
        }
        if self.spans.len() < MOST_SPANS {
            self.spans.push(Span { from: now, to: None, activity, nodes });
        }
    }

    /// Ends the last span.
    fn end(&mut self, now: UnixTime) {
        if let Some(last) = self.spans.last_mut() {
            last.to.get_or_insert(now);
        }
    }

    /// The time of each activity until now.
    pub fn split(&self, now: UnixTime) -> Split {
        let mut split = Split::default();
        for span in &self.spans {
            let lasted = span.to.unwrap_or(now).min(now).saturating_sub(span.from);
            match span.activity {
                Activity::Waiting => split.waiting += lasted,
                Activity::Training => split.training += lasted,
                Activity::Recovering => split.recovering += lasted,
            }
        }
        split
    }
}

/// A job's time by activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    pub waiting: Duration,
    pub training: Duration,
    pub recovering: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training_status::{PsClusterStatus, PsServerStatus};

    const SECOND: Duration = Duration::from_secs(1);

    fn second(number: u64) -> UnixTime {
        UnixTime::from_secs(number)
    }

    fn moment(world: WorldState, running: u32) -> Moment {
        let workers = PodCounts { running, desired: 2 };
        let support = PodCounts::default();
        Moment {
            world,
            workers,
            support,
            has_unowned_partitions: false,
            records: None,
            is_unschedulable: false,
            is_halted: false,
            stalled_since: None,
        }
    }

    #[test]
    fn time_in_which_nothing_can_be_learnt_is_recovering_from_when_it_began() {
        let mut timeline = Timeline::default();
        let of = |stalled: Option<u64>| Moment {
            stalled_since: stalled.map(second),
            records: Some(7),
            ..moment(WorldState::None, 2)
        };
        timeline.add(moment(WorldState::None, 0), second(0));
        timeline.add(of(None), second(1));
        // The master was heard last at 4, and found to be silent at 9.
        timeline.add(of(Some(4)), second(9));
        timeline.add(of(Some(4)), second(11));
        timeline.add(of(None), second(12));
        let split = timeline.split(second(20));
        assert_eq!(split, Split { waiting: SECOND, training: SECOND * 11, recovering: SECOND * 8 });
        assert!(timeline.spans.windows(2).all(|pair| pair[0].to == Some(pair[1].from)), "{timeline:?}");
        // A stall that began before the last span does not reach behind it.
        timeline.add(of(Some(2)), second(25));
        assert_eq!(timeline.spans.last().unwrap().from, second(12));
    }

    #[test]
    fn a_world_without_a_ledger_trains_on_without_its_master() {
        let mut timeline = Timeline::default();
        timeline.add(moment(WorldState::None, 0), second(0));
        timeline.add(moment(WorldState::Complete(2), 2), second(1));
        timeline.add(Moment { stalled_since: Some(second(2)), ..moment(WorldState::Complete(2), 2) }, second(3));
        assert_eq!(timeline.split(second(5)).recovering, Duration::ZERO);
        let counts = Moment { stalled_since: Some(second(6)), records: Some(1), ..moment(WorldState::Complete(2), 2) };
        timeline.add(counts, second(6));
        assert_eq!(timeline.split(second(8)).recovering, SECOND * 2);
    }

    #[test]
    fn a_full_disk_and_a_server_with_parameters_that_is_away_are_stalls() {
        let mut training = TrainingStatus::default();
        assert!(!is_stalled(&training));
        training.journal_failure = "the disk is full".to_owned();
        assert!(is_stalled(&training));
        for (here, partitions, stalled) in [(true, 8, false), (false, 8, true), (false, 0, false)] {
            let mut server = PsServerStatus::default();
            (server.here, server.partitions) = (here, partitions);
            let mut training = TrainingStatus::default();
            training.servers = Some(PsClusterStatus { each: vec![server], ..PsClusterStatus::default() });
            assert_eq!(is_stalled(&training), stalled, "{here} {partitions}");
        }
    }

    #[test]
    fn time_is_split_without_gaps() {
        let mut timeline = Timeline::default();
        let moments = [
            moment(WorldState::None, 0),
            // The programs run but have formed no world, which is known only afterwards.
            moment(WorldState::None, 2),
            moment(WorldState::Complete(2), 2),
            moment(WorldState::Meeting, 1),
            moment(WorldState::Complete(2), 2),
        ];
        for (at, moment) in (1..).zip(moments) {
            timeline.add(moment, second(at));
        }
        timeline.end(second(9));
        let split = timeline.split(second(100));
        assert_eq!(split, Split { waiting: SECOND * 2, training: SECOND * 5, recovering: SECOND });
        assert!(timeline.spans.windows(2).all(|pair| pair[0].to == Some(pair[1].from)), "{timeline:?}");
    }

    #[test]
    fn without_a_world_a_job_trains_while_all_its_workers_run() {
        let mut timeline = Timeline::default();
        for (at, running) in [(0, 0), (1, 2), (5, 1), (6, 2)] {
            timeline.add(moment(WorldState::None, running), second(at));
        }
        let split = timeline.split(second(10));
        assert_eq!(split, Split { waiting: SECOND, training: SECOND * 8, recovering: SECOND });
    }

    #[test]
    fn a_job_whose_records_advance_trains_though_workers_are_missing() {
        let mut timeline = Timeline::default();
        let of = |running, records| Moment { records, ..moment(WorldState::None, running) };
        // The job goes on from 500 records.
        for (at, moment) in [(0, of(0, None)), (1, of(0, Some(500))), (2, of(1, Some(500))), (4, of(1, Some(501)))] {
            timeline.add(moment, second(at));
        }
        let last = *timeline.spans.last().unwrap();
        assert_eq!((last.from, last.activity, last.nodes), (second(4), Activity::Training, 1), "{timeline:?}");
        assert_eq!(timeline.spans[0].nodes, 0, "{timeline:?}");
        // One worker is preempted and unschedulable.
        timeline.add(of(2, Some(600)), second(5));
        timeline.add(Moment { is_unschedulable: true, ..of(1, Some(700)) }, second(6));
        let last = *timeline.spans.last().unwrap();
        assert_eq!((last.activity, last.nodes), (Activity::Training, 1), "{timeline:?}");
    }

    #[test]
    fn growing_is_training_and_losing_anything_is_recovering() {
        let mut timeline = Timeline::default();
        let well = |running: u32, desired: u32| Moment {
            workers: PodCounts { running, desired },
            support: PodCounts { running: 3, desired: 3 },
            ..moment(WorldState::None, 0)
        };
        let moments = [
            (well(0, 2), Activity::Waiting),
            (well(2, 2), Activity::Training),
            (well(2, 3), Activity::Training),
            (well(3, 3), Activity::Training),
            (well(2, 3), Activity::Recovering),
            (well(3, 3), Activity::Training),
            // A server is lost, then the partitions that it kept; both come back.
            (Moment { support: PodCounts { running: 2, desired: 3 }, ..well(3, 3) }, Activity::Recovering),
            (Moment { has_unowned_partitions: true, ..well(3, 3) }, Activity::Recovering),
            (well(3, 3), Activity::Training),
            // One server more, and one worker fewer.
            (Moment { support: PodCounts { running: 3, desired: 4 }, ..well(3, 3) }, Activity::Training),
            (well(2, 2), Activity::Training),
            // All workers have succeeded.
            (well(0, 0), Activity::Training),
        ];
        for (at, (moment, activity)) in (0..).zip(moments) {
            timeline.add(moment, second(at));
            assert_eq!(timeline.spans.last().unwrap().activity, activity, "{at}: {moment:?}");
        }
    }

    #[test]
    fn a_job_with_unschedulable_workers_does_not_recover() {
        let mut timeline = Timeline::default();
        timeline.add(moment(WorldState::Complete(2), 2), second(1));
        timeline.add(Moment { is_unschedulable: true, ..moment(WorldState::Meeting, 0) }, second(2));
        assert_eq!(timeline.split(second(5)).waiting, SECOND * 3);
    }

    #[test]
    fn a_job_with_a_target_of_no_workers_waits() {
        let mut timeline = Timeline::default();
        let halted = |running| Moment { is_halted: true, ..moment(WorldState::None, running) };
        let moments = [halted(2), moment(WorldState::None, 2), halted(2), moment(WorldState::None, 2), halted(0)];
        for (at, moment) in (1..).zip(moments) {
            timeline.add(moment, second(at));
        }
        let split = timeline.split(second(9));
        assert_eq!(split, Split { waiting: SECOND * 6, training: SECOND * 2, recovering: Duration::ZERO });
    }
}
