//! Debug output of a server: what it waits for, and which clients and backups wait for it.
//!
//! Idle partitions are only counted, so that the ones that hold a job up stand out.

use std::fmt;
use std::sync::atomic::Ordering;

use super::Server;
use super::backup::PartitionInbox;
use super::replica_state::{ReplicaRole, ReplicaState, ReplicationTarget};
use crate::placement::PartitionId;

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut idle = 0;
        write!(f, "{} by map {}", self.0.me, self.0.epoch.load(Ordering::Acquire))?;
        for link in self.0.links.all() {
            write!(f, "; {link}")?;
        }
        for id in PartitionId::all() {
            let inbox = self.0.inbox.of(id).lock();
            let replica = self.0.replicas.lock(id);
            match is_idle(&replica, &inbox) {
                true => idle += 1,
                false => write!(f, "\n  {id}: {replica}, {inbox}")?,
            }
        }
        write!(f, "\n  {idle} idle partitions")
    }
}

fn is_idle(replica: &ReplicaState, inbox: &PartitionInbox) -> bool {
    let is_in_sync = |target: &ReplicationTarget| target.may_be_backup() && !target.is_unreachable();
    let is_settled = replica.frozen_since.is_none() && !replica.is_restoring && replica.targets.iter().all(is_in_sync);
    is_settled && inbox.is_empty()
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            ReplicaRole::Absent => "absent",
            ReplicaRole::Primary => "primary",
            ReplicaRole::Backup => "backup",
        };
        let (map_epoch, since, last_applied) = (self.map_epoch, self.primary_since, self.last_applied);
        write!(f, "{role} by map {map_epoch} (primary since {since}) at {last_applied}")?;
        if self.is_restoring {
            f.write_str(", restoring")?;
        }
        if self.frozen_since.is_some() {
            f.write_str(", frozen")?;
        }
        for target in &self.targets {
            let ReplicationTarget { server, sync_state, sync_id, order, .. } = target;
            write!(f, ", replicates to {server}: {sync_state:?} sync {sync_id:?} order {order:?}")?;
        }
        Ok(())
    }
}
