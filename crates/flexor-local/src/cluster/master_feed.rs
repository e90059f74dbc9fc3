//! A job's master and the cluster: what it is told of pods, what it says of training, and what the job did meanwhile.

use std::sync::Arc;

use flexor_engine::Cause;
use flexor_engine::controller::PodPhase;
use flexor_model::{Reason, RoleKind, RoleName};
use flexor_wire::master::v1 as wire;

use super::feed::Feed;
use super::timeline::{Crowd, Moment, WorldSeen};
use super::{Cluster, JobKey, PodRecord, PsClusterStatus, State, TrainingStatus, now};

/// Who trains, and what they need for it.
const WORKERS: [RoleKind; 2] = [RoleKind::Worker, RoleKind::Chief];
const SERVERS: [RoleKind; 1] = [RoleKind::ParameterServer];
const OTHERS: [RoleKind; 2] = [RoleKind::Master, RoleKind::ParameterServer];

impl Cluster {
    /// Tells the job's master how the pods stand.
    pub(super) fn feed(&self, key: &JobKey) {
        let mut state = self.lock();
        let Some(record) = state.jobs.get(key) else { return };
        if record.status.phase.is_over() && !state.pods.values().any(|pod| state.is_master(pod, key)) {
            // There is nobody to be told.
            state.feeds.remove(key);
            return;
        }
        let Some(observed) = state.observed_by_master(key) else { return };
        let master = state.master_of(key);
        if let Some(master) = master
            && !state.feeds.contains_key(key)
            && let Some(feed) = Feed::to(master, self.ear(key))
        {
            state.feeds.insert(key.clone(), feed);
        }
        if let Some(feed) = state.feeds.get(key) {
            feed.tell(observed);
        }
    }

    /// What hears a job's master.
    fn ear(&self, key: &JobKey) -> impl Fn(wire::Proposal) + Send + Sync + 'static {
        let (cluster, key) = (Arc::downgrade(&self.0), key.clone());
        move |proposal| {
            if let Some(cluster) = cluster.upgrade() {
                Cluster(cluster).hear(&key, proposal);
            }
        }
    }

    /// A job's master has said something.
    fn hear(&self, key: &JobKey, said: wire::Proposal) {
        let mut state = self.lock();
        let Some(record) = state.jobs.get_mut(key) else { return };
        match said.kind {
            Some(wire::proposal::Kind::Training(said)) => {
                let before = record.training.take();
                let after = record.training.insert(TrainingStatus::after(before.as_ref(), &said, now()));
                let news = news(before.as_ref(), after, &said);
                news.into_iter().for_each(|cause| state.tell(key, None, cause));
            }
            Some(wire::proposal::Kind::Closed(said)) if said.run == key.name.as_str() => {
                let Ok(reason) = said.reason.parse() else { return };
                record.closed = Some(Cause::new(reason, said.detail));
                self.notify();
            }
            Some(wire::proposal::Kind::Released(said)) => {
                record.released = said.pods.into_iter().collect();
                self.notify();
            }
            // Of nodes the cluster knows better what became of them.
            Some(wire::proposal::Kind::Closed(_) | wire::proposal::Kind::Verdict(_)) | None => return,
        }
        state.take_note(key);
        drop(state);
        self.publish();
    }
}

/// What a master's word tells that it had not told before.
fn news(before: Option<&TrainingStatus>, after: &TrainingStatus, said: &wire::TrainingStatus) -> Vec<Cause> {
    let mut news = Vec::new();
    if after.program_failures > before.map_or(0, |before| before.program_failures) {
        let detail = format!("the program has failed ({} in all)", after.program_failures);
        news.push(Cause::new(Reason::ProgramFailed, detail));
    }
    let nothing = PsClusterStatus::default();
    let before = before.and_then(|before| before.servers.as_ref()).unwrap_or(&nothing);
    let Some((after, said)) = after.servers.as_ref().zip(said.servers.as_ref()) else { return news };
    for passed_over in after.passed_over.iter().filter(|one| !before.passed_over.contains(one)) {
        let detail = format!("a checkpoint is passed over: {passed_over}");
        news.push(Cause::new(Reason::CheckpointDamaged, detail));
    }
    if after.went_on_from != before.went_on_from {
        news.push(Cause::new(Reason::CheckpointFound, after.went_on_from.as_str()));
    }
    // One that fails again and again is told once.
    if !after.checkpoint_failure.is_empty() && before.checkpoint_failure.is_empty() {
        let failure = after.checkpoint_failure.as_str();
        let detail = failure.strip_prefix("CheckpointFailed: ").unwrap_or(failure);
        news.push(Cause::new(Reason::CheckpointFailed, detail));
    }
    let has_copies = after.each.iter().any(|server| server.copies > 0);
    if has_copies && after.redundant && !before.redundant && before.epoch > 0 {
        let detail = format!("{} servers keep every partition as often as it should be kept", after.each.len());
        news.push(Cause::new(Reason::ReplicationRestored, detail));
    }
    if after.restorations > before.restorations {
        news.push(Cause::new(Reason::PartitionsRestored, said.last_restoration.as_str()));
    }
    news
}

impl State {
    fn is_master(&self, pod: &PodRecord, key: &JobKey) -> bool {
        let role = || self.jobs.get(key)?.job.roles.iter().find(|role| role.name == pod.meta.desired.role);
        pod.meta.job == *key && role().is_some_and(|role| role.kind == RoleKind::Master)
    }

    /// Takes note of what the job does now.
    pub(super) fn take_note(&mut self, key: &JobKey) {
        let Some(record) = self.jobs.get(key) else { return };
        let has_kind = |role: &RoleName, kinds: &[RoleKind]| {
            let role = record.job.roles.iter().find(|known| known.name == *role);
            role.is_some_and(|role| kinds.contains(&role.kind))
        };
        let pods = |kinds: &'static [RoleKind]| {
            self.pods.values().filter(move |pod| pod.meta.job == *key && has_kind(&pod.meta.desired.role, kinds))
        };
        let wanted = |kinds: &'static [RoleKind]| {
            let targets = record.status.targets.iter().filter(|(role, _)| has_kind(role, kinds));
            targets.map(|(_, target)| target.replicas).sum::<u32>()
        };
        let is_empty = |kinds: &'static [RoleKind]| {
            let has_role = record.status.targets.keys().any(|role| has_kind(role, kinds));
            let runs = |pod: &PodRecord| pod.phase() == PodPhase::Running;
            has_role && wanted(kinds) == 0 && !pods(kinds).any(runs)
        };
        let crowd = |kinds: &'static [RoleKind]| {
            let count = |phase: PodPhase| {
                let here = pods(kinds).filter(|pod| pod.phase() == phase && !pod.is_deleting()).count();
                u32::try_from(here).unwrap_or(u32::MAX)
            };
            // Whoever is done is not missed.
            let wanted = wanted(kinds).saturating_sub(count(PodPhase::Succeeded));
            Crowd { running: count(PodPhase::Running), wanted }
        };
        let workers = crowd(&WORKERS);
        let moment = Moment {
            world: match &record.training {
                Some(TrainingStatus { round: Some(_), meeting: false, nodes, .. }) if workers.running > 0 => {
                    WorldSeen::Stands(*nodes)
                }
                Some(TrainingStatus { round: Some(_), .. }) => WorldSeen::Meeting,
                Some(_) | None => WorldSeen::None,
            },
            workers,
            others: crowd(&OTHERS),
            unowned: record
                .training
                .as_ref()
                .and_then(|training| training.servers.as_ref())
                .is_some_and(|servers| servers.unowned > 0),
            records: record.training.as_ref().and_then(|training| training.records).map(|records| records.accounted),
            waits_for_room: pods(&WORKERS).any(PodRecord::waits_for_room),
            halted: is_empty(&WORKERS) || is_empty(&SERVERS),
        };
        let over = record.status.phase.is_over();
        let Some(record) = self.jobs.get_mut(key) else { return };
        if record.timeline.spans.is_empty() {
            // Nothing ran when it came; it may have taken a while until somebody looked.
            let nobody = Moment { world: WorldSeen::None, workers: Crowd { running: 0, ..workers }, ..moment };
            record.timeline.see(nobody, record.created_at);
        }
        if over { record.timeline.end(now()) } else { record.timeline.see(moment, now()) }
    }

    /// What a master is told: the pods that are to be in the world, the parameter servers, and how many there should be.
    fn observed_by_master(&self, key: &JobKey) -> Option<wire::Observed> {
        let record = self.jobs.get(key)?;
        let wanted = |kind: RoleKind| {
            let roles = record.job.roles.iter().filter(|role| role.kind == kind);
            roles.filter_map(|role| record.status.targets.get(&role.name)).map(|target| target.replicas).sum::<u32>()
        };
        // Nobody need wait for those that cannot come now.
        let (pending, pods) = self.pods_of_kind(key, RoleKind::Worker);
        let (held_servers, servers) = self.pods_of_kind(key, RoleKind::ParameterServer);
        let (_, chiefs) = self.pods_of_kind(key, RoleKind::Chief);
        let workers = pods.iter().cloned().chain(chiefs).collect();
        let has_servers = record.job.roles.iter().any(|role| role.kind == RoleKind::ParameterServer);
        let expected_servers = wanted(RoleKind::ParameterServer).saturating_sub(held_servers);
        Some(wire::Observed {
            pods,
            expected: Some(wanted(RoleKind::Worker).saturating_sub(pending)),
            servers,
            expected_servers: has_servers.then_some(expected_servers),
            workers,
        })
    }

    /// The pods of a kind, and how many more there are that cannot come now.
    fn pods_of_kind(&self, key: &JobKey, kind: RoleKind) -> (u32, Vec<wire::Pod>) {
        let is_of_kind = |pod: &&PodRecord| {
            let roles = self.jobs.get(key).into_iter().flat_map(|record| &record.job.roles);
            pod.meta.job == *key
                && roles.into_iter().any(|role| role.kind == kind && role.name == pod.meta.desired.role)
        };
        let (mut pending, here): (Vec<&PodRecord>, Vec<&PodRecord>) =
            self.pods.values().filter(is_of_kind).partition(|pod| pod.is_held_up());
        // One that is to take the place of another is not among those that are expected.
        let status = self.jobs.get(key).map(|record| &record.status);
        let place = |pod: &PodRecord| (pod.meta.desired.role.clone(), pod.meta.desired.rank, pod.meta.desired.id);
        pending.retain(|pod| !status.is_some_and(|status| status.is_successor(&place(pod))));
        let is_leaving = |pod: &PodRecord| status.is_some_and(|status| status.is_leaving(&place(pod)));
        let pod = |pod: &PodRecord| wire::Pod {
            name: pod.meta.desired.name.clone(),
            uid: pod.meta.uid.clone(),
            role: pod.meta.desired.role.to_string(),
            phase: format!("{:?}", pod.phase()),
            deleting: pod.is_deleting(),
            leaving: is_leaving(pod),
        };
        (u32::try_from(pending.len()).unwrap_or(u32::MAX), here.into_iter().map(pod).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_is_passed_over_is_told_once() {
        let servers =
            wire::PsClusterStatus { passed_over: vec!["'a.flx' is damaged".to_owned()], ..Default::default() };
        let said = wire::TrainingStatus { servers: Some(servers), ..wire::TrainingStatus::default() };
        let first = TrainingStatus::after(None, &said, now());
        let told = [Cause::new(Reason::CheckpointDamaged, "a checkpoint is passed over: 'a.flx' is damaged")];
        assert_eq!(news(None, &first, &said), told);
        let again = TrainingStatus::after(Some(&first), &said, now());
        assert_eq!(news(Some(&first), &again, &said), []);
    }
}
