//! The environment of a worker: the variables that torchrun sets, under the same names.
//!
//! A worker inherits the launcher's environment; this module makes only the differences. The error file is not among
//! them, because the group chooses it with the other files of the attempt.

use super::worker::{GlobalRank, LocalRank};
use crate::processes::EnvironmentChanges;

/// The variables of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerEnvironment {
    /// `LOCAL_RANK`.
    pub local_rank: LocalRank,
    /// `LOCAL_WORLD_SIZE`: workers of this node.
    pub local_world_size: u32,
    /// `ROLE_NAME`.
    pub role: String,
    /// `TORCHELASTIC_RESTART_COUNT`: restarts that were charged.
    pub restart_count: u32,
    /// `TORCHELASTIC_MAX_RESTARTS`.
    pub max_restarts: u32,
    /// `TORCHELASTIC_RUN_ID`.
    pub run_id: String,
    /// `TORCHELASTIC_USE_AGENT_STORE`: whether a store already listens at `MASTER_ADDR`, so that rank 0 opens none.
    pub use_agent_store: bool,
    /// The variables that depend on the world. A worker that starts outside every world gets them later, over the world
    /// socket.
    pub world: Option<WorkerWorld>,
}

/// The ranks of a worker in a world, and the world's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerWorld {
    /// `RANK`.
    pub rank: GlobalRank,
    /// `WORLD_SIZE`: workers of all nodes.
    pub world_size: u32,
    /// `GROUP_RANK`: the rank of this node among the nodes.
    pub group_rank: u32,
    /// `GROUP_WORLD_SIZE`: nodes of the round.
    pub group_world_size: u32,
    /// `ROLE_RANK`: the rank among all workers of the role.
    pub role_rank: u32,
    /// `ROLE_WORLD_SIZE`.
    pub role_world_size: u32,
    /// `MASTER_ADDR`: the address of the store.
    pub master_addr: String,
    /// `MASTER_PORT`.
    pub master_port: u16,
}

impl WorkerEnvironment {
    /// The changes to an inherited environment. `inherits` tells whether that has a variable.
    pub fn changes(&self, inherits: impl Fn(&str) -> bool) -> EnvironmentChanges {
        let mut changes = EnvironmentChanges::default();
        for (name, value) in WorkerWorld::variables(self.world.as_ref()) {
            match value {
                Some(value) => changes.set(name, value),
                // The launcher may itself be in a world, whose variables are not the worker's.
                None => changes.remove(name),
            }
        }
        changes.set("LOCAL_RANK", self.local_rank.to_string());
        changes.set("LOCAL_WORLD_SIZE", self.local_world_size.to_string());
        changes.set("ROLE_NAME", self.role.clone());
        changes.set("TORCHELASTIC_RESTART_COUNT", self.restart_count.to_string());
        changes.set("TORCHELASTIC_MAX_RESTARTS", self.max_restarts.to_string());
        changes.set("TORCHELASTIC_RUN_ID", self.run_id.clone());
        // Spelt as Python prints it, because torch compares the text.
        changes.set("TORCHELASTIC_USE_AGENT_STORE", if self.use_agent_store { "True" } else { "False" });
        if !inherits("TORCH_NCCL_ASYNC_ERROR_HANDLING") {
            changes.set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
        }
        // Several workers with one thread per core each would slow each other down.
        if self.local_world_size > 1 && !inherits("OMP_NUM_THREADS") {
            changes.set("OMP_NUM_THREADS", "1");
        }
        changes
    }
}

impl WorkerWorld {
    /// The variables that depend on the world, without values where there is no world.
    fn variables(world: Option<&Self>) -> [(&'static str, Option<String>); 8] {
        let of = |value: fn(&Self) -> String| world.map(value);
        [
            ("RANK", of(|world| world.rank.to_string())),
            ("WORLD_SIZE", of(|world| world.world_size.to_string())),
            ("GROUP_RANK", of(|world| world.group_rank.to_string())),
            ("GROUP_WORLD_SIZE", of(|world| world.group_world_size.to_string())),
            ("ROLE_RANK", of(|world| world.role_rank.to_string())),
            ("ROLE_WORLD_SIZE", of(|world| world.role_world_size.to_string())),
            ("MASTER_ADDR", of(|world| world.master_addr.clone())),
            ("MASTER_PORT", of(|world| world.master_port.to_string())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second_of_two() -> WorkerEnvironment {
        WorkerEnvironment {
            local_rank: LocalRank(1),
            local_world_size: 2,
            role: "trainer".to_owned(),
            restart_count: 1,
            max_restarts: 3,
            run_id: "mnist".to_owned(),
            use_agent_store: true,
            world: Some(WorkerWorld {
                rank: GlobalRank(5),
                world_size: 8,
                group_rank: 2,
                group_world_size: 4,
                role_rank: 5,
                role_world_size: 8,
                master_addr: "10.0.0.1".to_owned(),
                master_port: 29500,
            }),
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
    fn outside_a_world_only_the_variables_of_a_world_are_missing() {
        let outside = WorkerEnvironment { world: None, ..second_of_two() };
        let (outside, inside) = (outside.changes(|_| false), second_of_two().changes(|_| false));
        for (name, inside) in inside.iter() {
            let name = name.to_str().unwrap();
            let from_the_world = ["RANK", "WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"].contains(&name)
                || name.starts_with("GROUP_")
                || name.starts_with("MASTER_");
            let expected = inside.filter(|_| !from_the_world).map(ToOwned::to_owned);
            assert_eq!(outside.resolve(name, Some("of the launcher".into())), expected, "{name}");
        }
    }

    #[test]
    fn variables_that_the_user_has_set_are_kept() {
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
