//! From a pod that is wanted to one that runs: as soon as there is room for it, it gets sockets, a plan and a parent.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use command_fds::{CommandFdExt, FdMapping};
use flexor_model::{PortName, Program, Quantity, Role, RoleKind, RolePriority};

use super::admission::{self, Eviction, Millis, PodRequest, Stage};
use super::driver::{Decided, TRY_AGAIN};
use super::job::Place;
use super::pod::{PendingReason, PodRecord};
use super::{Cluster, JobKey, JobRecord, State, now};
use crate::objects::ObjectKind;
use crate::pods::making::{self, Setting};

/// The ports of a job's master, in the order in which it takes them.
const MASTER_PORTS: [&str; 3] = ["grpc", "store", "http"];
/// So many are started before anything else is looked at.
const AT_A_TIME: usize = 20;

impl Cluster {
    /// Starts those that have room, and has those go that have to make it.
    pub(super) fn start_what_may_run(&self, decided: &mut Decided, acts_left: &mut usize) {
        let mut state = self.lock();
        if !state.pods.values().any(|pod| pod.pending.is_some() && !pod.is_deleting()) {
            return;
        }
        let asks: Vec<PodRequest> = state.pods.values().filter_map(|pod| state.ask(pod)).collect();
        let capacity = self.0.options.cpus.map(millis);
        let admission = admission::decide(capacity, &asks);
        for (number, uid) in admission.start.into_iter().enumerate() {
            if *acts_left == 0 {
                return;
            }
            if number == AT_A_TIME {
                self.notify();
                break;
            }
            *acts_left -= 1;
            match self.start_pod(&mut state, &uid) {
                Ok(supervisor) => decided.started.extend(supervisor.map(|supervisor| (uid, supervisor))),
                Err(error) => {
                    state.hold(&uid, PendingReason::CreateRefused(error.to_string()));
                    decided.look_again(now() + TRY_AGAIN);
                }
            }
        }
        for (uid, why) in admission.wait {
            if state.hold(&uid, PendingReason::Unschedulable(why)) {
                // A plan may wait for it, and is to say why.
                self.notify();
            }
        }
        for Eviction { uid, by } in admission.evict {
            state.note_eviction(&uid, &by);
            if let Err(error) = self.delete_pod(&mut state, &uid) {
                tracing::error!(%uid, %error, "cannot be ended to make room");
            }
        }
        drop(state);
        self.publish();
    }

    /// Starts a pod. Its parent; none where nothing of it can run, which its record says then.
    fn start_pod(&self, state: &mut State, uid: &str) -> io::Result<Option<(i32, u64)>> {
        let options = &self.0.options;
        let Some(pod) = state.pods.get(uid) else { return Ok(None) };
        let (key, desired, address) = (pod.meta.job.clone(), pod.meta.desired.clone(), pod.meta.address);
        state.give_master_a_place(&key, self)?;
        let slot = format!("{}-{}", desired.role, desired.rank);
        let (ports, sockets) = state.sockets_for(&key, &slot, &desired.role, address)?;
        let record = state.jobs.get(&key).ok_or_else(|| io::Error::other("the job is gone"))?;
        let Some(role) = record.job.roles.iter().find(|role| role.name == desired.role) else {
            return Err(io::Error::other(format!("the job has no role {}", desired.role)));
        };
        let folder = options.state_dir.pod(uid);
        let sidecar = making::wants_sidecar(role).then(|| ports.values().next().copied()).flatten();
        let error_file = |container: &str| folder.error_file(container);
        let objects = |kind: ObjectKind, name: &str| state.objects.data(kind, &key.namespace, name).cloned();
        let claim = |name: &str| options.state_dir.claim(key.namespace.as_str(), name);
        let flexor = options.flexor.display().to_string();
        let setting = Setting {
            job: &record.job,
            uid: &record.uid,
            namespace: &key.namespace,
            flexor: &flexor,
            base: &options.base,
            folder: options.folder.clone(),
            master_state: options.state_dir.master(&record.uid.to_string()),
            master: &state.master_ports(&key),
            error_file: &error_file,
            objects: &objects,
            claim: &claim,
        };
        let mut made = making::make(&setting, role, &desired, (uid, address), sidecar, sockets.len());
        if let (Ok(plan), Program::FlexorMaster, true) = (&mut made, role.program, options.chaos) {
            super::chaos::let_follow(plan, &options.state_dir.faults(&record.uid.to_string()));
        }
        let Some(pod) = state.pods.get_mut(uid) else { return Ok(None) };
        let plan = match made {
            Ok(plan) => plan,
            Err(error) if error.may_pass() => {
                state.await_objects(uid, &error);
                return Ok(None);
            }
            Err(error) => {
                (pod.trouble, pod.pending) = (Some(error.to_string()), None);
                return Ok(None);
            }
        };
        (pod.meta.ports, pod.meta.grace) = (ports, plan.grace);
        pod.save(&options.state_dir)?;
        folder.create(&plan)?;
        let started = self.start_supervisor(uid, sockets);
        if started.is_err() {
            // Whoever takes over has to see that nothing of it runs.
            folder.take_back_plan()?;
        }
        let (supervisor, owner) = started?;
        let supervisor = (supervisor, crate::proc::started(supervisor).unwrap_or(0));
        pod.supervisor = Some(supervisor);
        pod.owner = owner.map(Arc::new);
        pod.pending = None;
        Ok(Some(supervisor))
    }

    fn start_supervisor(&self, uid: &str, sockets: Vec<TcpListener>) -> io::Result<(i32, Option<PipeWriter>)> {
        let options = &self.0.options;
        let mut command = Command::new(&options.flexor);
        command.arg(options.pod_word).arg(options.state_dir.path()).arg(uid);
        command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
        if options.chaos {
            command.env(flexor_model::env::FAULTS.name, options.state_dir.full());
        }
        command.env("LISTEN_FDS", sockets.len().to_string()).env_remove("LISTEN_PID");
        let owner = if options.ephemeral {
            let (theirs, ours) = io::pipe()?;
            command.arg("--with-owner").stdin(theirs);
            Some(ours)
        } else {
            command.stdin(Stdio::null());
            None
        };
        let mappings = (3..).zip(sockets).map(|(child_fd, socket)| FdMapping { parent_fd: socket.into(), child_fd });
        command.fd_mappings(mappings.collect()).map_err(io::Error::other)?;
        let child = command.spawn()?;
        Ok((i32::try_from(child.id()).unwrap_or(0), owner))
    }
}

impl State {
    /// What a pod asks for; nothing where it has ended.
    fn ask(&self, pod: &PodRecord) -> Option<PodRequest> {
        let stage = match (&pod.pending, pod.supervisor, pod.is_deleting()) {
            (_, Some(_), true) => Stage::Terminating,
            (Some(_), _, false) => Stage::Waiting,
            (None, Some(_), false) => Stage::Running,
            (_, None, _) => return None,
        };
        let desired = &pod.meta.desired;
        let role = self.role_of(pod)?;
        let replicas = desired.replicas.get(&desired.role).copied().unwrap_or(1);
        let class = match &role.priority {
            RolePriority::FromTemplate => role.template.json()["spec"]["priorityClassName"].as_str(),
            RolePriority::Class(class) => Some(class.as_str()),
            RolePriority::Split(split) => Some(if split.is_high(desired.rank, replicas) { "high" } else { "low" }),
        };
        let asked = role.template.requests().cpu().map_or(0, millis);
        let of_main = role.template.main().requests().cpu().map_or(0, millis);
        Some(PodRequest {
            uid: pod.meta.uid.clone(),
            cpu: desired.resources.cpu().map_or(asked, |wished| asked - of_main + millis(wished)),
            priority: self.objects.priority(class),
            preempts: self.objects.preempts(class),
            is_server: matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer),
            order: (pod.meta.created_at, desired.name.clone()),
            stage,
        })
    }

    fn role_of(&self, pod: &PodRecord) -> Option<&Role> {
        let record = self.jobs.get(&pod.meta.job)?;
        record.job.roles.iter().find(|role| role.name == pod.meta.desired.role)
    }

    /// A pod has to wait; people are told once of each reason. Whether it is another than before.
    pub(super) fn hold(&mut self, uid: &str, pending: PendingReason) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        let is_news = match (&pod.pending, &pending) {
            // How much room there is changes all the time.
            (Some(PendingReason::Unschedulable(_)), PendingReason::Unschedulable(_)) => false,
            (before, now) => before.as_ref() != Some(now),
        };
        let cause = pending.cause();
        pod.pending = Some(pending);
        let (job, name) = (pod.meta.job.clone(), pod.meta.desired.name.clone());
        if let Some(cause) = cause.filter(|_| is_news) {
            self.record_event(&job, Some(name), cause);
        }
        is_news
    }

    /// A pod has to make room for another, which the controller is to see.
    fn note_eviction(&mut self, uid: &str, by: &str) {
        let by = self.pods.get(by).map(|pod| pod.meta.desired.name.clone()).unwrap_or_default();
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.meta.evicted = Some(format!("{by} is more important and needs its room"));
        }
    }

    /// Where the job's master is, by the names of its ports.
    fn master_ports(&self, key: &JobKey) -> BTreeMap<PortName, SocketAddr> {
        let place = self.jobs.get(key).and_then(|job| job.places.values().find(|place| place.is_master));
        place.map(|place| place.ports.clone()).unwrap_or_default()
    }

    /// Where the job's master serves.
    pub(super) fn master_of(&self, key: &JobKey) -> Option<SocketAddr> {
        self.master_ports(key).into_iter().find(|(name, _)| name.as_str() == "grpc").map(|(_, at)| at)
    }

    /// Has the sockets of the job's master open before anybody is told where they are: it may start later than others.
    fn give_master_a_place(&mut self, key: &JobKey, cluster: &Cluster) -> io::Result<()> {
        let Some(record) = self.jobs.get(key) else { return Ok(()) };
        let master = record.job.roles.iter().find(|role| role.program == Program::FlexorMaster);
        let Some(role) = master.map(|role| role.name.clone()) else { return Ok(()) };
        let slot = format!("{role}-0");
        if record.places.contains_key(&slot) {
            return Ok(());
        }
        let of_master = |pod: &&PodRecord| pod.meta.job == *key && pod.meta.desired.role == role;
        let address = match self.pods.values().find(of_master) {
            Some(pod) => pod.meta.address,
            None => self.addresses.take().ok_or_else(|| io::Error::other("all addresses are in use"))?,
        };
        let names = ports_of(Program::FlexorMaster, false);
        let (at, sockets) = open_all(address, names.iter().map(|_| 0))?;
        self.sockets.insert((key.clone(), slot.clone()), sockets);
        let place = Place { address, ports: names.into_iter().zip(at).collect(), is_master: true };
        let record = self.jobs.get_mut(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        // Whoever takes over has to know where the others are to meet.
        record.change(cluster.state_dir(), |record| {
            record.places.insert(slot, place);
        })
    }

    /// The sockets of a pod, and where they are. Those of a master are held, so that a restart frees no port.
    fn sockets_for(
        &mut self,
        key: &JobKey,
        slot: &str,
        role: &flexor_model::RoleName,
        address: Ipv4Addr,
    ) -> io::Result<(BTreeMap<PortName, SocketAddr>, Vec<TcpListener>)> {
        let record = self.jobs.get(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        let Some(role) = record.job.roles.iter().find(|known| known.name == *role) else {
            return Ok((BTreeMap::new(), Vec::new()));
        };
        let names = ports_of(role.program, making::wants_sidecar(role));
        let Some(place) = record.places.get(slot).cloned() else {
            let (at, sockets) = open_all(address, names.iter().map(|_| 0))?;
            return Ok((names.into_iter().zip(at).collect(), sockets));
        };
        if let Some(kept) = self.sockets.get(&(key.clone(), slot.to_owned())) {
            return Ok((place.ports, clone_all(kept)?));
        }
        // Another process held them before; the ports are the same.
        let ports = names.iter().filter_map(|name| place.ports.get(name)).map(SocketAddr::port);
        let (_, sockets) = open_all(place.address, ports)?;
        self.sockets.insert((key.clone(), slot.to_owned()), clone_all(&sockets)?);
        Ok((place.ports, sockets))
    }
}

impl JobRecord {
    /// The address that a seat keeps, where it does.
    pub(super) fn fixed_address(&self, role: &flexor_model::RoleName, rank: flexor_model::Rank) -> Option<Ipv4Addr> {
        self.places.get(&format!("{role}-{rank}")).map(|place| place.address)
    }
}

fn ports_of(program: Program, has_sidecar: bool) -> Vec<PortName> {
    let names: &[&str] = match program {
        Program::FlexorMaster => &MASTER_PORTS,
        Program::Template | Program::FlexorPs if has_sidecar => &["store"],
        Program::Template | Program::FlexorPs => &[],
    };
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn open_all(address: Ipv4Addr, ports: impl Iterator<Item = u16>) -> io::Result<(Vec<SocketAddr>, Vec<TcpListener>)> {
    let open = |port| {
        let refused = |error: io::Error| io::Error::new(error.kind(), format!("port {port} of {address}: {error}"));
        TcpListener::bind((address, port)).map_err(refused)
    };
    let sockets = ports.map(open).collect::<io::Result<Vec<_>>>()?;
    let at = sockets.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
    Ok((at, sockets))
}

fn clone_all(sockets: &[TcpListener]) -> io::Result<Vec<TcpListener>> {
    sockets.iter().map(TcpListener::try_clone).collect()
}

/// Thousandths, rounded up.
fn millis(quantity: Quantity) -> Millis {
    Millis::try_from((quantity.billionths().max(0) + 999_999) / 1_000_000).unwrap_or(Millis::MAX)
}
