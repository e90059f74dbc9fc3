//! The environment of a worker: what torchrun's workers find in theirs, under the same names.
//!
//! A worker inherits the launcher's environment; here only the differences are made. The error file is not among them,
//! because the group chooses it with the other files of the attempt.

use super::worker::{GlobalRank, LocalRank};
use crate::processes::EnvironmentChanges;

/// What a round makes of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEnvironment {
    /// `RANK`.
    pub rank: GlobalRank,
    /// `LOCAL_RANK`.
    pub local_rank: LocalRank,
    /// `WORLD_SIZE`: workers of all nodes.
    pub world_size: u32,
    /// `LOCAL_WORLD_SIZE`: workers of this node.
    pub local_world_size: u32,
    /// `GROUP_RANK`: the place of this node among the nodes.
    pub group_rank: u32,
    /// `GROUP_WORLD_SIZE`: nodes of the round.
    pub group_world_size: u32,
    /// `ROLE_NAME`.
    pub role: String,
    /// `ROLE_RANK`: the place among all workers of the role.
    pub role_rank: u32,
    /// `ROLE_WORLD_SIZE`.
    pub role_world_size: u32,
    /// `MASTER_ADDR`: where rank 0 listens.
    pub master_addr: String,
    /// `MASTER_PORT`.
    pub master_port: u16,
    /// `TORCHELASTIC_RESTART_COUNT`: restarts of this node's group that were charged.
    pub restart_count: u32,
    /// `TORCHELASTIC_MAX_RESTARTS`.
    pub max_restarts: u32,
    /// `TORCHELASTIC_RUN_ID`.
    pub run_id: String,
    /// `TORCHELASTIC_USE_AGENT_STORE`: whether a store already listens at `MASTER_ADDR`, so that rank 0 opens none.
    pub use_agent_store: bool,
}

impl WorkerEnvironment {
    /// The variables as changes to an environment of which `inherits` tells what it already has.
    pub fn changes(&self, inherits: impl Fn(&str) -> bool) -> EnvironmentChanges {
        let mut changes = EnvironmentChanges::default();
        changes.set("RANK", self.rank.to_string());
        changes.set("LOCAL_RANK", self.local_rank.to_string());
        changes.set("WORLD_SIZE", self.world_size.to_string());
        changes.set("LOCAL_WORLD_SIZE", self.local_world_size.to_string());
        changes.set("GROUP_RANK", self.group_rank.to_string());
        changes.set("GROUP_WORLD_SIZE", self.group_world_size.to_string());
        changes.set("ROLE_NAME", self.role.clone());
        changes.set("ROLE_RANK", self.role_rank.to_string());
        changes.set("ROLE_WORLD_SIZE", self.role_world_size.to_string());
        changes.set("MASTER_ADDR", self.master_addr.clone());
        changes.set("MASTER_PORT", self.master_port.to_string());
        changes.set("TORCHELASTIC_RESTART_COUNT", self.restart_count.to_string());
        changes.set("TORCHELASTIC_MAX_RESTARTS", self.max_restarts.to_string());
        changes.set("TORCHELASTIC_RUN_ID", self.run_id.clone());
        // Spelt as Python prints it, because torch compares the text.
        changes.set("TORCHELASTIC_USE_AGENT_STORE", if self.use_agent_store { "True" } else { "False" });
        if !inherits("TORCH_NCCL_ASYNC_ERROR_HANDLING") {
            changes.set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
        }
        // Several workers with a thread per core each would only get in each other's way.
        if self.local_world_size > 1 && !inherits("OMP_NUM_THREADS") {
            changes.set("OMP_NUM_THREADS", "1");
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second_of_two() -> WorkerEnvironment {
        WorkerEnvironment {
            rank: GlobalRank(5),
            local_rank: LocalRank(1),
            world_size: 8,
            local_world_size: 2,
            group_rank: 2,
            group_world_size: 4,
            role: "trainer".to_owned(),
            role_rank: 5,
            role_world_size: 8,
            master_addr: "10.0.0.1".to_owned(),
            master_port: 29500,
            restart_count: 1,
            max_restarts: 3,
            run_id: "mnist".to_owned(),
            use_agent_store: true,
        }
    }

    fn value(changes: &EnvironmentChanges, name: &str) -> Option<String> {
        changes.resolve(name, None).map(|value| value.into_string().unwrap())
    }

    #[test]
    fn a_worker_finds_every_variable_of_torchrun() {
        let changes = second_of_two().changes(|_| false);
        let found: Vec<_> = changes.iter().map(|(name, value)| format!("{name:?}={:?}", value.unwrap())).collect();
        let expected = [
            "GROUP_RANK=2",
            "GROUP_WORLD_SIZE=4",
            "LOCAL_RANK=1",
            "LOCAL_WORLD_SIZE=2",
            "MASTER_ADDR=10.0.0.1",
            "MASTER_PORT=29500",
            "OMP_NUM_THREADS=1",
            "RANK=5",
            "ROLE_NAME=trainer",
            "ROLE_RANK=5",
            "ROLE_WORLD_SIZE=8",
            "TORCHELASTIC_MAX_RESTARTS=3",
            "TORCHELASTIC_RESTART_COUNT=1",
            "TORCHELASTIC_RUN_ID=mnist",
            "TORCHELASTIC_USE_AGENT_STORE=True",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
            "WORLD_SIZE=8",
        ];
        let expected = expected.map(|line| line.split_once('=').unwrap()).map(|(n, v)| format!("{n:?}={v:?}"));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_the_user_chose_is_left_alone() {
        let changes = second_of_two().changes(|_| true);
        assert_eq!(value(&changes, "OMP_NUM_THREADS"), None);
        assert_eq!(value(&changes, "TORCH_NCCL_ASYNC_ERROR_HANDLING"), None);
    }

    #[test]
    fn a_single_worker_may_use_all_cores() {
        let alone = WorkerEnvironment { local_world_size: 1, ..second_of_two() };
        assert_eq!(value(&alone.changes(|_| false), "OMP_NUM_THREADS"), None);
    }
}
