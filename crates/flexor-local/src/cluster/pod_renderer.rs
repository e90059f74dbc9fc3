//! Has a pod of this cluster rendered: what the renderer asks of its surroundings, answered for one machine.
//!
//! A pod is rendered when it is created, and again when it starts: its sidecar's port is known only then. The Pod is
//! kept in [`PodMeta::rendered`], from which it is scheduled, run and shown.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use flexor_engine::render::{self, Addresses, FlexorProgram, Owner, RenderContext, ServiceAddresses, TokenPlace};
use flexor_model::{PortName, Program, Rank, Role, RoleName};
use serde_json::Value;

use super::pod::PodMeta;
use super::{Cluster, State};

impl Cluster {
    /// The complete Pod of a desired pod.
    pub(super) fn render_pod(&self, state: &State, meta: &PodMeta) -> io::Result<Value> {
        let options = &self.0.options;
        let record = state.jobs.get(&meta.job).ok_or_else(|| io::Error::other("the job is gone"))?;
        let role = record.job.roles.iter().find(|role| role.name == meta.desired.role);
        let role = role.ok_or_else(|| io::Error::other(format!("the job has no role {}", meta.desired.role)))?;
        let uid = record.uid.to_string();
        let text = |field: &str| record.manifest[field].as_str().unwrap_or_default();
        let owner =
            Owner { api_version: text("apiVersion"), kind: text("kind"), name: record.key.name.as_str(), uid: &uid };
        let services = ServiceAddresses { job: &record.job, uid: &record.uid, namespace: &record.key.namespace };
        let folder = options.state_dir.pod(&meta.uid);
        let context = RenderContext {
            job: &record.job,
            uid: &record.uid,
            namespace: &record.key.namespace,
            owner,
            flexor: FlexorProgram::Machine(&options.flexor.display().to_string()),
            addresses: &MachineAddresses { state, meta, services, pods: OnceCell::new() },
            master_state: &options.state_dir.master(&uid).display().to_string(),
            error_file: &|container| folder.error_file(container).display().to_string(),
            token: Some(TokenPlace::File(record.token_file(&options.state_dir).display().to_string())),
        };
        Ok(render::pod(&context, role, &meta.desired))
    }
}

/// Addresses of this machine: the master's sockets, and the addresses that pods have now.
///
/// There is no DNS here, so a replica is written as its pod's address with the port of its service. A replica without
/// a pod is written as its service's name: lists of replicas keep their order, and a program that dials it fails with
/// a name that its user knows. A replacement has another address than its predecessor had.
struct MachineAddresses<'a> {
    state: &'a State,
    meta: &'a PodMeta,
    services: ServiceAddresses<'a>,
    /// The job's pods by role and rank. Few pods ask for them.
    pods: OnceCell<BTreeMap<(&'a RoleName, Rank), Ipv4Addr>>,
}

impl MachineAddresses<'_> {
    fn of_pod(&self, role: &Role, rank: Rank) -> Option<Ipv4Addr> {
        let pods = self.pods.get_or_init(|| {
            let alive = self.state.pods.values().filter(|pod| pod.meta.job == self.meta.job && !pod.is_deleting());
            let all = alive.map(|pod| &pod.meta).chain([self.meta]);
            all.map(|meta| ((&meta.desired.role, meta.desired.rank), meta.address)).collect()
        });
        pods.get(&(&role.name, rank)).copied()
    }
}

impl Addresses for MachineAddresses<'_> {
    fn of_role(&self, role: &Role, port: &PortName) -> Option<String> {
        if role.program == Program::FlexorMaster {
            return self.state.master_ports(&self.meta.job).get(port).map(ToString::to_string);
        }
        let number = role.service.as_ref()?.ports.iter().find(|known| known.name == *port)?.port;
        let pod = self.of_pod(role, Rank(0)).map(|address| format!("{address}:{number}"));
        pod.or_else(|| self.services.of_role(role, port))
    }

    fn of_replica(&self, role: &Role, rank: Rank) -> Option<String> {
        let number = role.service.as_ref()?.ports.first()?.port;
        let pod = self.of_pod(role, rank).map(|address| format!("{address}:{number}"));
        pod.or_else(|| self.services.of_replica(role, rank))
    }

    fn of_sidecar(&self) -> Option<String> {
        self.meta.ports.values().next().map(ToString::to_string)
    }
}
