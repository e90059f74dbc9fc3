//! The stored form of a job's status: compact, versioned, lossless.
//!
//! [`JobStatus`] has a row per replica slot, which is what decisions need. A job of 10,000 replicas would make an object
//! of two megabytes of it, more than etcd takes. Here slots of equal content share one [`SlotGroup`], and a run of
//! consecutive ranks with consecutive ids is three numbers. So healthy slots cost nothing but a run, and only exceptions
//! have a row. The laptop's job file and `status.flexor` of a custom resource hold this form.
//!
//! It is not for people: each dialect's status writer says the same in words.

use std::collections::BTreeMap;

use flexor_model::{NodeId, Quantity, Rank, Resources, RoleName, UnixTime};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{JobStatus, Phase, RoleStatus, SizeChange, Slot, SlotEnd, Target};
use crate::Cause;
use crate::controller::migration::Migration;
use crate::nodes::NodeHistory;

/// The version that is written; no other is read.
const VERSION: u32 = 1;
/// More slots of one role than this are refused: a damaged count must not fill the memory.
const MOST_SLOTS: usize = 1 << 20;

/// A job's status as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredStatus {
    version: u32,
    #[serde(default)]
    phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    given_up_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    short_since: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    targets: BTreeMap<RoleName, Target>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    roles: BTreeMap<RoleName, StoredRole>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    size_changes: Vec<SizeChange>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRole {
    #[serde(default, skip_serializing_if = "is_zero")]
    next_id: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    counted: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    slots: Vec<SlotGroup>,
}

/// Slots of equal content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SlotGroup {
    /// In the order of their ranks.
    ranks: Vec<Run>,
    #[serde(flatten)]
    content: Content,
    /// [`Slot::settled`] of each slot in the order of their ranks; empty if none has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settled: Vec<String>,
}

/// Consecutive ranks with consecutive ids: the first rank, how many, the first id.
type Run = (u32, u32, u32);

/// What slots of a group have in common: all but rank, id and the settled pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    #[serde(skip_serializing_if = "is_false")]
    seen: bool,
    #[serde(skip_serializing_if = "is_zero")]
    relaunches: u32,
    #[serde(skip_serializing_if = "is_zero")]
    counted: u32,
    #[serde(skip_serializing_if = "is_zero")]
    short_runs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_memory: Option<Quantity>,
    #[serde(skip_serializing_if = "Resources::is_empty")]
    resources: Resources,
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<Migration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<UnixTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<SlotEnd>,
}

/// Why a stored status cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StatusError {
    /// It has not the form of a status.
    #[error("the status cannot be read: {0}")]
    Unreadable(String),
    /// Another version of Flexor wrote it.
    #[error("the status has version {0}, and only version {VERSION} is known")]
    Version(u32),
    /// Two groups have the same rank.
    #[error("the status has {role} {rank} twice")]
    RankTwice {
        /// The role.
        role: RoleName,
        /// The rank.
        rank: Rank,
    },
    /// A run leaves the numbers that ranks and ids can have, or is too long.
    #[error("the status has a run of {role} that is too long: {count} from rank {rank}, id {id}")]
    RunTooLong {
        /// The role.
        role: RoleName,
        /// The first rank.
        rank: u32,
        /// How many.
        count: u32,
        /// The first id.
        id: u32,
    },
    /// A group names settled pods, but not one for each of its slots.
    #[error("the status names {named} settled pods for {slots} slots of {role}")]
    SettledPods {
        /// The role.
        role: RoleName,
        /// How many slots the group has.
        slots: usize,
        /// How many pods it names.
        named: usize,
    },
}

impl From<JobStatus> for StoredStatus {
    fn from(status: JobStatus) -> Self {
        Self {
            version: VERSION,
            phase: status.phase,
            cause: status.cause,
            created_at: status.created_at,
            started_at: status.started_at,
            finished_at: status.finished_at,
            given_up_at: status.given_up_at,
            short_since: status.short_since,
            targets: status.targets,
            roles: status.roles.into_iter().map(|(role, status)| (role, encode(status))).collect(),
            size_changes: status.size_changes,
        }
    }
}

impl TryFrom<StoredStatus> for JobStatus {
    type Error = StatusError;

    fn try_from(stored: StoredStatus) -> Result<Self, StatusError> {
        if stored.version != VERSION {
            return Err(StatusError::Version(stored.version));
        }
        let roles = stored.roles.into_iter().map(|(role, status)| Ok((role.clone(), decode(&role, status)?)));
        Ok(Self {
            phase: stored.phase,
            cause: stored.cause,
            created_at: stored.created_at,
            started_at: stored.started_at,
            finished_at: stored.finished_at,
            given_up_at: stored.given_up_at,
            short_since: stored.short_since,
            targets: stored.targets,
            roles: roles.collect::<Result<_, _>>()?,
            size_changes: stored.size_changes,
        })
    }
}

fn encode(role: RoleStatus) -> StoredRole {
    let mut groups: Vec<SlotGroup> = Vec::new();
    let mut by_content: BTreeMap<(String, bool), usize> = BTreeMap::new();
    for (rank, slot) in role.slots {
        let (id, settled, content) = split(slot);
        // Nearly all slots are like the first; the map is for the rest, and its keys cost time.
        let is_like_first = groups
            .first()
            .is_some_and(|first| first.content == content && first.settled.is_empty() == settled.is_none());
        let index = if is_like_first {
            0
        } else {
            *by_content.entry((format!("{content:?}"), settled.is_some())).or_insert_with(|| {
                groups.push(SlotGroup { ranks: Vec::new(), content, settled: Vec::new() });
                groups.len() - 1
            })
        };
        let group = &mut groups[index];
        group.settled.extend(settled);
        match group.ranks.last_mut() {
            Some((first, count, first_id)) if continues((*first, *count, *first_id), rank, id) => *count += 1,
            Some(_) | None => group.ranks.push((rank.0, 1, id.0)),
        }
    }
    StoredRole { next_id: role.next_id, counted: role.counted, slots: groups }
}

fn continues((first, count, first_id): Run, rank: Rank, id: NodeId) -> bool {
    first.checked_add(count) == Some(rank.0) && first_id.checked_add(count) == Some(id.0)
}

fn decode(name: &RoleName, role: StoredRole) -> Result<RoleStatus, StatusError> {
    let mut slots = BTreeMap::new();
    for SlotGroup { ranks, content, settled } in role.slots {
        let total: usize = ranks.iter().map(|(_, count, _)| *count as usize).sum();
        if !settled.is_empty() && settled.len() != total {
            return Err(StatusError::SettledPods { role: name.clone(), slots: total, named: settled.len() });
        }
        let mut settled = settled.into_iter();
        for (rank, count, id) in ranks {
            let last = count.saturating_sub(1);
            let fits = rank.checked_add(last).is_some() && id.checked_add(last).is_some();
            if !fits || slots.len() + count as usize > MOST_SLOTS {
                return Err(StatusError::RunTooLong { role: name.clone(), rank, count, id });
            }
            for step in 0..count {
                let rank = Rank(rank + step);
                let slot = join(NodeId(id + step), settled.next(), content.clone());
                if slots.insert(rank, slot).is_some() {
                    return Err(StatusError::RankTwice { role: name.clone(), rank });
                }
            }
        }
    }
    Ok(RoleStatus { next_id: role.next_id, counted: role.counted, slots })
}

fn split(slot: Slot) -> (NodeId, Option<String>, Content) {
    let Slot { id, seen, relaunches, history, more_memory, settled, resources, migration, not_before, end } = slot;
    let NodeHistory { counted, short_runs, memory } = history;
    let content =
        Content { seen, relaunches, counted, short_runs, memory, more_memory, resources, migration, not_before, end };
    (id, settled, content)
}

fn join(id: NodeId, settled: Option<String>, content: Content) -> Slot {
    let Content { seen, relaunches, counted, short_runs, memory, more_memory, resources, migration, not_before, end } =
        content;
    let history = NodeHistory { counted, short_runs, memory };
    Slot { id, seen, relaunches, history, more_memory, settled, resources, migration, not_before, end }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use flexor_model::Reason;
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::controller::{MigrationStage, SetBy};

    fn stored(status: &JobStatus) -> String {
        serde_json::to_string(status).unwrap()
    }

    fn time() -> impl Strategy<Value = UnixTime> {
        prop_oneof![(0..4_u64).prop_map(UnixTime::from_secs), any::<u64>().prop_map(UnixTime::from_millis)]
    }

    fn cause() -> impl Strategy<Value = Cause> {
        (select(Reason::ALL), "[a-z ]{0,8}").prop_map(|(reason, message)| Cause::new(reason, message))
    }

    fn quantity() -> impl Strategy<Value = Quantity> {
        "[1-9][0-9]{0,3}(Mi|Gi|m)?".prop_map(|text| text.parse().unwrap())
    }

    fn resources() -> impl Strategy<Value = Resources> {
        vec(("cpu|memory|nvidia.com/gpu", quantity()), 0..3)
            .prop_map(|pairs| pairs.iter().map(|(name, quantity)| (name.as_str(), *quantity)).collect())
    }

    fn migration() -> impl Strategy<Value = Migration> {
        let stage = prop_oneof![
            Just(MigrationStage::Coming),
            Just(MigrationStage::TakingOver),
            Just(MigrationStage::Done),
            cause().prop_map(MigrationStage::Failed)
        ];
        ("[a-z]{1,3}", "[a-z]{1,3}", any::<u32>(), any::<bool>(), 0..4_u32, resources(), time(), stage).prop_map(
            |(plan, pod, to, seen, lost, resources, since, stage)| Migration {
                plan,
                pod,
                to: NodeId(to),
                seen,
                lost,
                resources,
                since,
                stage,
            },
        )
    }

    fn slot() -> impl Strategy<Value = Slot> {
        let numbers = (0..3_u32, 0..3_u32, 0..3_u32);
        let memory = (option::of(quantity()), option::of(quantity()), resources());
        let end = (any::<bool>(), any::<bool>(), cause());
        let end = option::of(end.prop_map(|(succeeded, fails_job, cause)| SlotEnd { succeeded, fails_job, cause }));
        let rest = (option::of("[0-9a-f]{4}"), option::of(migration()), option::of(time()), end);
        let exceptional = (any::<u32>(), any::<bool>(), numbers, memory, rest).prop_map(
            |(id, seen, (relaunches, counted, short_runs), (memory, more_memory, resources), rest)| {
                let (settled, migration, not_before, end) = rest;
                let history = NodeHistory { counted, short_runs, memory };
                let id = NodeId(id);
                Slot { id, seen, relaunches, history, more_memory, settled, resources, migration, not_before, end }
            },
        );
        let healthy = (0..40_u32).prop_map(|id| Slot { seen: true, ..Slot::new(NodeId(id)) });
        prop_oneof![3 => healthy, 1 => exceptional]
    }

    fn target() -> impl Strategy<Value = Target> {
        let set_by = prop_oneof![
            Just(SetBy::Spec),
            Just(SetBy::Edit),
            "[a-z]{1,4}".prop_map(SetBy::Plan),
            "[a-z]{1,4}".prop_map(SetBy::Auto),
            Just(SetBy::Planner),
        ];
        let vacant = proptest::collection::btree_set((0..60_u32).prop_map(Rank), 0..20);
        let promised = btree_map((0..60_u32).prop_map(Rank), "[a-z]{1,8}", 0..5);
        let planned = (option::of(any::<u32>()), vacant, promised);
        (any::<u32>(), resources(), set_by, any::<u64>(), any::<u32>(), cause(), planned).prop_map(
            |(replicas, resources, set_by, generation, spec_replicas, cause, (wanted, vacant, promised))| Target {
                replicas,
                resources,
                set_by,
                generation,
                spec_replicas,
                wanted,
                vacant,
                promised,
                cause,
            },
        )
    }

    fn status() -> impl Strategy<Value = JobStatus> {
        let phases = vec![Phase::Pending, Phase::Running, Phase::Suspended, Phase::Succeeded, Phase::Failed];
        let role = || "worker|ps|Worker".prop_map(|name| name.parse::<RoleName>().unwrap());
        let ranks = prop_oneof![0..40_u32, any::<u32>()].prop_map(Rank);
        let roles = (any::<u32>(), 0..9_u32, btree_map(ranks, slot(), 0..40))
            .prop_map(|(next_id, counted, slots)| RoleStatus { next_id, counted, slots });
        let times =
            (option::of(time()), option::of(time()), option::of(time()), option::of(time()), option::of(time()));
        let (targets, roles) = (btree_map(role(), target(), 0..3), btree_map(role(), roles, 0..3));
        let change = (time(), role(), any::<u32>(), any::<u32>(), "[a-z ]{0,9}")
            .prop_map(|(at, role, from, to, message)| SizeChange { at, role, from, to, message });
        let changes = proptest::collection::vec(change, 0..4);
        (select(phases), option::of(cause()), times, targets, roles, changes).prop_map(
            |(phase, cause, times, targets, roles, size_changes)| {
                let (created_at, started_at, finished_at, given_up_at, short_since) = times;
                JobStatus {
                    phase,
                    cause,
                    created_at,
                    started_at,
                    finished_at,
                    given_up_at,
                    short_since,
                    targets,
                    roles,
                    size_changes,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_stored_status_is_read_back_as_it_was(status in status()) {
            prop_assert_eq!(serde_json::from_str::<JobStatus>(&stored(&status)).unwrap(), status);
        }
    }

    /// 10,000 workers, of which every thirtieth is an exception, in eight kinds.
    fn large() -> JobStatus {
        let memory = Some("16Gi".parse().unwrap());
        let cause = |message: &str| Cause::new(Reason::ProgramError, message);
        let healthy = |rank| Slot {
            seen: true,
            history: NodeHistory { memory, ..NodeHistory::default() },
            ..Slot::new(NodeId(rank))
        };
        let mut slots: BTreeMap<Rank, Slot> = (0..10_000).map(|rank| (Rank(rank), healthy(rank))).collect();
        let uid = |number: u32| format!("550e8400-e29b-41d4-a716-{number:012}");
        for (number, slot) in (0..).zip(slots.values_mut().step_by(30)) {
            let at = UnixTime::from_millis(1_763_000_000_123 + u64::from(number));
            slot.id = NodeId(10_000 + number);
            slot.relaunches = 1 + number % 5;
            match number % 8 {
                0 => slot.history.counted = 1,
                1 => (slot.seen, slot.not_before, slot.settled) = (false, Some(at), Some(uid(number))),
                2 => slot.end = Some(SlotEnd { succeeded: true, fails_job: false, cause: cause("exit code 0") }),
                3 => (slot.more_memory, slot.history.memory) = (Some("32Gi".parse().unwrap()), memory),
                4 => {
                    slot.migration = Some(Migration {
                        plan: "move-to-larger-machines".to_owned(),
                        pod: format!("bert-edljob-worker-{number}"),
                        to: NodeId(20_000 + number),
                        seen: true,
                        lost: 0,
                        resources: Resources::from_iter([("cpu", "32".parse().unwrap())]),
                        since: at,
                        stage: MigrationStage::Coming,
                    });
                }
                5 => slot.settled = Some(uid(number)),
                6 => slot.resources = Resources::from_iter([("memory", "64Gi".parse().unwrap())]),
                _ => slot.end = Some(SlotEnd { succeeded: false, fails_job: false, cause: cause("exit code 1") }),
            }
        }
        let role: RoleName = "worker".parse().unwrap();
        let workers = RoleStatus { next_id: 20_000, counted: 0, slots };
        JobStatus { roles: BTreeMap::from([(role, workers)]), ..JobStatus::default() }
    }

    #[test]
    fn ten_thousand_replicas_fit_into_64_kib() {
        let status = large();
        let text = stored(&status);
        assert!(text.len() <= 64 * 1024, "{} bytes", text.len());
        assert_eq!(serde_json::from_str::<JobStatus>(&text).unwrap(), status);
    }

    #[test]
    fn slots_that_all_ended_alike_are_one_row() {
        let mut status = large();
        for slot in status.roles.values_mut().flat_map(|role| role.slots.values_mut()) {
            let cause = Cause::new(Reason::ProgramSucceeded, "exit code 0");
            *slot = Slot {
                end: Some(SlotEnd { succeeded: true, fails_job: false, cause }),
                seen: true,
                ..Slot::new(slot.id)
            };
        }
        assert!(stored(&status).len() < 16 * 1024, "{} bytes", stored(&status).len());
    }

    #[test]
    fn a_healthy_job_is_one_run_for_each_role() {
        let slots = (0..3).map(|rank| (Rank(rank), Slot { seen: true, ..Slot::new(NodeId(rank)) })).collect();
        let workers = RoleStatus { next_id: 3, counted: 0, slots };
        let status =
            JobStatus { roles: BTreeMap::from([("worker".parse().unwrap(), workers)]), ..JobStatus::default() };
        let text = r#"{"version":1,"phase":"Pending","roles":{"worker":{"nextId":3,"slots":[{"ranks":[[0,3,0]],"seen":true}]}}}"#;
        assert_eq!(stored(&status), text);
    }

    #[test]
    fn what_no_writer_of_this_version_wrote_is_refused() {
        let refused = |text: &str| serde_json::from_str::<JobStatus>(text).unwrap_err().to_string();
        let role = |slots: &str| format!(r#"{{"version":1,"roles":{{"worker":{{"slots":[{slots}]}}}}}}"#);
        assert!(refused(r#"{"version":2}"#).contains("version 2"));
        assert!(refused(&role(r#"{"ranks":[[0,2,0],[1,1,7]]}"#)).contains("worker 1 twice"));
        assert!(refused(&role(r#"{"ranks":[[0,4294967295,0]]}"#)).contains("too long"));
        assert!(refused(&role(r#"{"ranks":[[4294967295,2,0]]}"#)).contains("too long"));
        assert!(refused(&role(r#"{"ranks":[[0,2,0]],"settled":["a"]}"#)).contains("1 settled pods for 2 slots"));
    }
}
