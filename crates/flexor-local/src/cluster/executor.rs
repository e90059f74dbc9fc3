//! Does what the controller says: writes, starts and ends things.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use command_fds::{CommandFdExt, FdMapping};
use flexor_engine::controller::{Action, PodWish};
use flexor_model::{PortName, Program, Role};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::job::Place;
use super::pod::{PodMeta, PodRecord};
use super::{Cluster, ClusterEvent, JobKey, State, now};
use crate::home::Home;
use crate::pods::making::{self, Setting};

/// The ports of a job's master, in the order in which it takes them.
const MASTER_PORTS: [&str; 3] = ["grpc", "store", "http"];

/// A pod that is about to run.
struct Berth {
    place: Place,
    sockets: Vec<TcpListener>,
}

impl Cluster {
    /// Carries out one action. The parent that was started, if one was.
    pub(super) fn carry_out(&self, key: &JobKey, action: Action) -> io::Result<Option<i32>> {
        let home = &self.0.options.home;
        let mut state = self.lock();
        if let Action::CreatePod(wish) = action {
            return self.create_pod(&mut state, key, &wish).map(Some);
        }
        let Some(record) = state.jobs.get_mut(key) else { return Ok(None) };
        match action {
            Action::SetStatus(status) => {
                record.status = *status;
                record.save(home)?;
            }
            Action::SetPlanStatus { plan, status } => {
                if let Some(known) = record.plans.iter_mut().find(|known| known.plan.name.as_str() == plan) {
                    known.status = status;
                }
                record.save(home)?;
            }
            Action::CreateService(wish) => {
                record.services.insert(wish.name);
                record.save(home)?;
            }
            Action::DeleteService { name } => {
                record.services.remove(&name);
                record.save(home)?;
            }
            Action::DeletePod { name, uid, because } => {
                state.tell(ClusterEvent { at: now(), job: key.clone(), pod: Some(name), because });
                self.delete_pod(&mut state, &uid)?;
            }
            Action::Record(event) => {
                state.tell(ClusterEvent { at: now(), job: key.clone(), pod: event.pod, because: event.because });
            }
            Action::DeleteJob { because } => {
                state.tell(ClusterEvent { at: now(), job: key.clone(), pod: None, because });
                state.feeds.remove(key);
                if let Some(record) = state.jobs.remove(key) {
                    record.remove(home)?;
                }
            }
            Action::CreatePod(_) => {}
        }
        Ok(None)
    }

    fn create_pod(&self, state: &mut State, key: &JobKey, wish: &PodWish) -> io::Result<i32> {
        let options = &self.0.options;
        let uid = uid();
        let berth = state.berth(key, wish)?;
        let record = state.jobs.get(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        if berth.place.is_master {
            // Whoever takes over has to know where the others are to meet.
            record.save(&options.home)?;
        }
        let Some(role) = record.job.roles.iter().find(|role| role.name == wish.role) else {
            return Err(io::Error::other(format!("the job has no role {}", wish.role)));
        };
        let folder = options.home.pod(&uid);
        let sidecar = making::wants_sidecar(role).then(|| berth.place.ports.values().next().copied()).flatten();
        let error_file = |container: &str| folder.error_file(container);
        let nothing = |_: &str, _: &str| None;
        let flexor = options.flexor.display().to_string();
        let setting = Setting {
            job: &record.job,
            uid: &record.uid,
            namespace: &key.namespace,
            flexor: &flexor,
            base: &options.base,
            folder: options.folder.clone(),
            master_state: options.home.master(&record.uid.to_string()),
            master: &state.master_ports(key),
            error_file: &error_file,
            objects: &nothing,
        };
        let made = making::make(&setting, role, wish, (&uid, berth.place.address), sidecar, berth.sockets.len());
        let meta = PodMeta {
            uid: uid.clone(),
            name: wish.name.clone(),
            job: key.clone(),
            role: wish.role.clone(),
            id: wish.id,
            rank: wish.rank,
            labels: wish.labels.clone(),
            address: berth.place.address,
            ports: berth.place.ports.clone(),
            created_at: now(),
            main: role.template.main().name().to_owned(),
            deleting_since: None,
        };
        let mut pod = PodRecord { meta, status: None, parent: None, trouble: None, owner: None };
        let started = match made {
            Ok(plan) => {
                folder.create(&plan)?;
                pod.save(&options.home)?;
                let started = self.start_parent(&uid, berth.sockets);
                if started.is_err() {
                    // Nothing of it is there to be taken over.
                    folder.remove()?;
                }
                let (parent, owner) = started?;
                (pod.parent, pod.owner) =
                    (Some((parent, crate::proc::started(parent).unwrap_or(0))), owner.map(Arc::new));
                parent
            }
            Err(error) => {
                pod.trouble = Some(error.to_string());
                0
            }
        };
        let because = wish.because.clone();
        state.tell(ClusterEvent { at: now(), job: key.clone(), pod: Some(wish.name.clone()), because });
        state.pods.insert(uid, pod);
        Ok(started)
    }

    fn start_parent(&self, uid: &str, sockets: Vec<TcpListener>) -> io::Result<(i32, Option<PipeWriter>)> {
        let options = &self.0.options;
        let mut command = Command::new(&options.flexor);
        command.arg(options.pod_word).arg(options.home.path()).arg(uid);
        command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
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

    /// Has a pod end, and its folder removed then.
    pub(super) fn delete_pod(&self, state: &mut State, uid: &str) -> io::Result<()> {
        let home = &self.0.options.home;
        let Some(pod) = state.pods.get_mut(uid) else { return Ok(()) };
        pod.meta.deleting_since.get_or_insert_with(now);
        match pod.parent {
            Some((parent, _)) => {
                pod.save(home)?;
                // It may have ended meanwhile, which is what is wanted.
                let _ = kill(Pid::from_raw(parent), Signal::SIGTERM);
            }
            None => state.forget_pod(home, uid),
        }
        Ok(())
    }
}

impl State {
    /// A pod is gone.
    pub(super) fn forget_pod(&mut self, home: &Home, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        let is_fixed = self
            .jobs
            .get(&pod.meta.job)
            .is_some_and(|job| job.places.values().any(|place| place.address == pod.meta.address));
        if !is_fixed {
            self.addresses.free(pod.meta.address);
        }
        if let Err(error) = home.pod(uid).remove() {
            tracing::warn!(pod = pod.meta.name, %error, "its folder cannot be removed");
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

    /// An address for a pod, with its sockets open. A master keeps the one it had.
    fn berth(&mut self, key: &JobKey, wish: &PodWish) -> io::Result<Berth> {
        let record = self.jobs.get(key).ok_or_else(|| io::Error::other("the job is gone"))?;
        let role = record.job.roles.iter().find(|role| role.name == wish.role);
        let names = role.map(ports_of).unwrap_or_default();
        let is_master = role.is_some_and(|role| role.program == Program::FlexorMaster);
        let seat = format!("{}-{}", wish.role, wish.rank);
        if let Some(place) = record.places.get(&seat).cloned() {
            let sockets = match self.sockets.get(&(key.clone(), seat.clone())) {
                Some(kept) => clone_all(kept)?,
                // Another process held them before; the ports are the same.
                None => {
                    let ports = names.iter().filter_map(|name| place.ports.get(name)).map(SocketAddr::port);
                    let (_, sockets) = open_all(place.address, ports)?;
                    self.sockets.insert((key.clone(), seat), clone_all(&sockets)?);
                    sockets
                }
            };
            return Ok(Berth { place, sockets });
        }
        let address = self.addresses.take().ok_or_else(|| io::Error::other("all addresses are in use"))?;
        let (at, sockets) = open_all(address, names.iter().map(|_| 0))?;
        let place = Place { address, ports: names.into_iter().zip(at).collect(), is_master };
        if is_master {
            self.sockets.insert((key.clone(), seat.clone()), clone_all(&sockets)?);
            if let Some(record) = self.jobs.get_mut(key) {
                record.places.insert(seat, place.clone());
            }
        }
        Ok(Berth { place, sockets })
    }
}

fn ports_of(role: &Role) -> Vec<PortName> {
    let names: &[&str] = match role.program {
        Program::FlexorMaster => &MASTER_PORTS,
        Program::Template | Program::FlexorPs if making::wants_sidecar(role) => &["store"],
        Program::Template | Program::FlexorPs => &[],
    };
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

fn open_all(address: Ipv4Addr, ports: impl Iterator<Item = u16>) -> io::Result<(Vec<SocketAddr>, Vec<TcpListener>)> {
    let sockets = ports.map(|port| TcpListener::bind((address, port))).collect::<io::Result<Vec<_>>>()?;
    let at = sockets.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
    Ok((at, sockets))
}

fn clone_all(sockets: &[TcpListener]) -> io::Result<Vec<TcpListener>> {
    sockets.iter().map(TcpListener::try_clone).collect()
}

/// A name that nothing else ever has.
fn uid() -> String {
    let bytes: Vec<u8> = std::fs::File::open("/dev/urandom")
        .and_then(|mut random| {
            let mut bytes = vec![0; 16];
            io::Read::read_exact(&mut random, &mut bytes)?;
            Ok(bytes)
        })
        .unwrap_or_else(|_| now().as_nanos().to_le_bytes().to_vec());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
