//! The scheduler of the one node: it starts created pods as soon as there is room, and evicts pods that must make room.
//!
//! [`admission`] decides who runs; this module reads what each pod asks for from its rendered Pod, opens its sockets,
//! and starts its supervisor.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use command_fds::{CommandFdExt, FdMapping};
use flexor_engine::render::SIDECAR;
use flexor_model::{PortName, Program, Quantity, Role, RoleKind, requests_of};

use super::admission::{self, Eviction, Millis, PodRequest, Stage};
use super::driver::{RETRY_AFTER, RoundOutcome};
use super::job::PodAddress;
use super::pod::{PendingReason, PodMeta, PodRecord};
use super::{Cluster, JobKey, JobRecord, State, now};
use crate::objects::ObjectKind;
use crate::pods::interpreter::{self, NodeContext};

/// The ports of a job's master, in the order in which it takes them.
const MASTER_PORTS: [&str; 3] = ["grpc", "store", "http"];
/// So many pods are started before the loop looks at anything else.
const AT_A_TIME: usize = 20;

impl Cluster {
    /// Starts the pods that have room, and evicts those that must make room.
    pub(super) fn start_admitted_pods(&self, outcome: &mut RoundOutcome, actions_left: &mut usize) {
        let mut state = self.lock();
        if !state.pods.values().any(|pod| pod.pending.is_some() && !pod.is_deleting()) {
            return;
        }
        let asks: Vec<PodRequest> = state.pods.values().filter_map(|pod| state.ask(pod)).collect();
        let capacity = self.0.options.cpus.map(millis);
        let admission = admission::decide(capacity, &asks);
        for (number, uid) in admission.start.into_iter().enumerate() {
            if *actions_left == 0 {
                return;
            }
            if number == AT_A_TIME {
                self.notify();
                break;
            }
            *actions_left -= 1;
            match self.start_pod(&mut state, &uid) {
                Ok(supervisor) => outcome.started.extend(supervisor.map(|supervisor| (uid, supervisor))),
                Err(error) => {
                    state.set_pending(&uid, PendingReason::CreateRefused(error.to_string()));
                    outcome.requeue(now() + RETRY_AFTER);
                }
            }
        }
        for (uid, why) in admission.wait {
            if state.set_pending(&uid, PendingReason::Unschedulable(why)) {
                // A plan that waits for this pod shows the reason.
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

    /// Starts a pod and returns its supervisor. Returns none where the pod cannot run; its record then says why.
    fn start_pod(&self, state: &mut State, uid: &str) -> io::Result<Option<(i32, u64)>> {
        let options = &self.0.options;
        let Some(pod) = state.pods.get(uid) else { return Ok(None) };
        let mut meta = pod.meta.clone();
        state.open_master_sockets(&meta.job, self)?;
        let Listeners { ports, sockets, container } = state.listeners_of(&meta)?;
        meta.ports = ports;
        meta.rendered = self.render_pod(state, &meta)?;
        let key = meta.job.clone();
        let record = state.jobs.get(&key).ok_or_else(|| io::Error::other("the job is gone"))?;
        let is_master = record.job.roles.iter().any(|role| is_master(role) && role.name == meta.desired.role);
        let objects = |kind: ObjectKind, name: &str| state.objects.data(kind, &key.namespace, name).cloned();
        let claim = |name: &str| options.state_dir.claim(key.namespace.as_str(), name);
        let node = NodeContext {
            uid,
            address: meta.address,
            flexor: &options.flexor.display().to_string(),
            base: &options.base,
            folder: options.folder.clone(),
            objects: &objects,
            claim: &claim,
            sockets: container.as_deref().map(|container| (container, sockets.len())),
        };
        let mut interpreted = interpreter::interpret(&node, &meta.rendered);
        if let (Ok(plan), true, true) = (&mut interpreted, is_master, options.chaos) {
            super::chaos::let_follow(plan, &options.state_dir.faults(&record.uid.to_string()));
        }
        let Some(pod) = state.pods.get_mut(uid) else { return Ok(None) };
        let plan = match interpreted {
            Ok(plan) => plan,
            Err(error) if error.may_pass() => {
                state.await_reference(uid, &error);
                return Ok(None);
            }
            Err(error) => {
                (pod.trouble, pod.pending) = (Some(error.to_string()), None);
                return Ok(None);
            }
        };
        meta.grace = plan.grace;
        pod.meta = meta;
        pod.save(&options.state_dir)?;
        let folder = options.state_dir.pod(uid);
        folder.create(&plan)?;
        let started = self.start_supervisor(uid, sockets);
        if started.is_err() {
            // A cluster that takes over must see that nothing of this pod runs.
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
    /// What a pod asks of the node; nothing once it has ended.
    fn ask(&self, pod: &PodRecord) -> Option<PodRequest> {
        let stage = match (&pod.pending, pod.supervisor, pod.is_deleting()) {
            (_, Some(_), true) => Stage::Terminating,
            (Some(_), _, false) => Stage::Waiting,
            (None, Some(_), false) => Stage::Running,
            (_, None, _) => return None,
        };
        let spec = &pod.meta.rendered["spec"];
        let class = spec["priorityClassName"].as_str();
        let role = self.role_of(pod)?;
        Some(PodRequest {
            uid: pod.meta.uid.clone(),
            cpu: requests_of(spec).cpu().map_or(0, millis),
            priority: self.objects.priority(class),
            preempts: self.objects.preempts(class),
            is_server: matches!(role.kind, RoleKind::Master | RoleKind::ParameterServer),
            order: (pod.meta.created_at, pod.meta.desired.name.clone()),
            stage,
        })
    }

    fn role_of(&self, pod: &PodRecord) -> Option<&Role> {
        let record = self.jobs.get(&pod.meta.job)?;
        record.job.roles.iter().find(|role| role.name == pod.meta.desired.role)
    }

    /// Has a pod wait, and records an event for each new reason. Returns whether the reason is new.
    pub(super) fn set_pending(&mut self, uid: &str, pending: PendingReason) -> bool {
        let Some(pod) = self.pods.get_mut(uid) else { return false };
        let is_news = match (&pod.pending, &pending) {
            // The amount of room in the message changes all the time.
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

    /// Notes on a pod that it is evicted, for the controller to see.
    fn note_eviction(&mut self, uid: &str, by: &str) {
        let by = self.pods.get(by).map(|pod| pod.meta.desired.name.clone()).unwrap_or_default();
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.meta.evicted = Some(format!("{by} is more important and needs its room"));
        }
    }

    /// The addresses of the job's master, by the names of its ports.
    pub(super) fn master_ports(&self, key: &JobKey) -> BTreeMap<PortName, SocketAddr> {
        let place = self.jobs.get(key).and_then(|job| job.places.values().find(|place| place.is_master));
        place.map(|place| place.ports.clone()).unwrap_or_default()
    }

    /// The address at which the job's master serves gRPC.
    pub(super) fn master_of(&self, key: &JobKey) -> Option<SocketAddr> {
        self.master_ports(key).into_iter().find(|(name, _)| name.as_str() == "grpc").map(|(_, at)| at)
    }

    /// Opens the sockets of the job's master before any pod learns their addresses: the master may start later than
    /// the others.
    fn open_master_sockets(&mut self, key: &JobKey, cluster: &Cluster) -> io::Result<()> {
        let Some(record) = self.jobs.get(key) else { return Ok(()) };
        let Some(role) = record.job.roles.iter().find(|role| is_master(role)) else { return Ok(()) };
        let (role, names) = (role.name.clone(), port_names(&MASTER_PORTS));
        let slot = format!("{role}-0");
        if record.places.contains_key(&slot) {
            return Ok(());
        }
        let of_master = |pod: &&PodRecord| pod.meta.job == *key && pod.meta.desired.role == role;
        let address = match self.pods.values().find(of_master) {
            Some(pod) => pod.meta.address,
            None => self.addresses.take().ok_or_else(|| io::Error::other("all addresses are in use"))?,
        };
        let (at, sockets) = open_all(address, names.iter().map(|_| 0))?;
        self.sockets.insert((key.clone(), slot.clone()), sockets);
        let place = PodAddress { address, ports: names.into_iter().zip(at).collect(), is_master: true };
        let record = self.jobs.get_mut(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        // A cluster that takes over must open the same ports.
        record.change(cluster.state_dir(), |record| {
            record.places.insert(slot, place);
        })
    }

    /// The listening sockets of a pod. Those of a master stay open in the cluster, so that a restart frees no port.
    fn listeners_of(&mut self, meta: &PodMeta) -> io::Result<Listeners> {
        let key = &meta.job;
        let slot = format!("{}-{}", meta.desired.role, meta.desired.rank);
        let record = self.jobs.get(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        let Some(role) = record.job.roles.iter().find(|known| known.name == meta.desired.role) else {
            return Ok(Listeners { ports: BTreeMap::new(), sockets: Vec::new(), container: None });
        };
        let (names, container) = if is_master(role) {
            (port_names(&MASTER_PORTS), Some(role.template.main().name().to_owned()))
        } else if role.has_sidecar() {
            (port_names(&["store"]), Some(SIDECAR.to_owned()))
        } else {
            (Vec::new(), None)
        };
        let Some(place) = record.places.get(&slot).cloned() else {
            let (at, sockets) = open_all(meta.address, names.iter().map(|_| 0))?;
            return Ok(Listeners { ports: names.into_iter().zip(at).collect(), sockets, container });
        };
        if let Some(open) = self.sockets.get(&(key.clone(), slot.clone())) {
            return Ok(Listeners { ports: place.ports, sockets: clone_all(open)?, container });
        }
        // Another process had them open before. The ports stay the same.
        let ports = names.iter().filter_map(|name| place.ports.get(name)).map(SocketAddr::port);
        let (_, sockets) = open_all(place.address, ports)?;
        self.sockets.insert((key.clone(), slot), clone_all(&sockets)?);
        Ok(Listeners { ports: place.ports, sockets, container })
    }
}

impl JobRecord {
    /// The address that a slot keeps across replacements, if it keeps one.
    pub(super) fn fixed_address(&self, role: &flexor_model::RoleName, rank: flexor_model::Rank) -> Option<Ipv4Addr> {
        self.places.get(&format!("{role}-{rank}")).map(|place| place.address)
    }
}

/// Listening sockets that a pod's supervisor inherits, for one of the pod's containers.
struct Listeners {
    ports: BTreeMap<PortName, SocketAddr>,
    sockets: Vec<TcpListener>,
    container: Option<String>,
}

fn is_master(role: &Role) -> bool {
    role.program == Program::FlexorMaster
}

fn port_names(names: &[&str]) -> Vec<PortName> {
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
pub(super) fn millis(quantity: Quantity) -> Millis {
    Millis::try_from((quantity.billionths().max(0) + 999_999) / 1_000_000).unwrap_or(Millis::MAX)
}
