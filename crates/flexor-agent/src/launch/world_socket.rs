//! The world socket: over it the launcher tells workers about changes of the world, so that they can survive them.
//!
//! A worker that connects to `FLEXOR_WORLD_SOCKET` has opted in; one that never connects is restarted at each change.
//! Messages are lines of JSON. A worker sends:
//! - `{"worker": NAME}` first, with its `FLEXOR_WORKER`;
//! - `{"ready": true}` when it is in no world: it has just started, it was asked for a rendezvous, or its peers are gone;
//! - `{"joined": ROUND}` when it is in the world that it was sent.
//!
//! The launcher sends `{"rendezvous": {"reason": …}}` when the worker has to leave its world at the next step, and
//! `{"world": {…}}` when there is a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::launch_end::LaunchError;

/// A folder with a short path: the path of a socket has at most 108 bytes.
const SHORT_FOLDER: &str = "/tmp";
/// The longest line from a worker, in bytes.
const MAX_LINE: u64 = 4096;

/// The world, as it is sent to one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorldMessage {
    pub(super) round: u64,
    pub(super) rank: u32,
    pub(super) world_size: u32,
    pub(super) local_rank: u32,
    pub(super) master_addr: String,
    pub(super) master_port: u16,
    /// Ranks of the processes that ran before. Where there are any, rank 0 is one of them.
    pub(super) survivors: Vec<u32>,
    /// The prefix of the round's keys in the master's own store, for programs that use it directly.
    pub(super) store_prefix: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum FromWorker {
    Worker(String),
    Ready(bool),
    Joined(u64),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ToWorker<'a> {
    Rendezvous { reason: &'a str },
    World(&'a WorldMessage),
}

/// Dropping it closes the socket.
pub(super) struct WorldSocket {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    task: JoinHandle<()>,
    folder: TempDir,
}

struct Shared {
    workers: Mutex<BTreeMap<u32, ConnectedWorker>>,
    /// Whether any worker ever connected.
    has_any_connected: AtomicBool,
    changes: watch::Sender<u64>,
    node: String,
    count: u32,
}

struct ConnectedWorker {
    lines: mpsc::UnboundedSender<String>,
    ready: bool,
    joined: Option<u64>,
}

impl WorldSocket {
    /// Opens the socket for the workers `NODE/0` to `NODE/COUNT-1`.
    ///
    /// It lies in the folder for temporary files. Where that path is too long for a socket, as it is on some batch
    /// systems, it lies in the system's folder.
    pub(super) fn open(node: &str, count: u32) -> Result<Self, LaunchError> {
        let usual = env::temp_dir();
        let (folder, listener) = listen_in(&usual).or_else(|error| {
            let shorter = listen_in(Path::new(SHORT_FOLDER)).ok().filter(|_| usual != Path::new(SHORT_FOLDER));
            shorter.ok_or(error)
        })?;
        let (sender, changes) = watch::channel(0);
        let shared = Arc::new(Shared {
            workers: Mutex::default(),
            has_any_connected: AtomicBool::new(false),
            changes: sender,
            node: node.to_owned(),
            count,
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { shared, changes, task, folder })
    }

    pub(super) fn path(&self) -> PathBuf {
        path_in(self.folder.path())
    }

    /// Whether all `count` workers have opted in.
    pub(super) fn all_connected(&self, count: u32) -> bool {
        self.lock().len() == count as usize
    }

    /// Whether any worker ever opted in; it may be gone.
    pub(super) fn has_any_connected(&self) -> bool {
        self.shared.has_any_connected.load(Ordering::Relaxed)
    }

    /// Whether all `count` workers take part in no world.
    pub(super) fn all_ready(&self, count: u32) -> bool {
        let workers = self.lock();
        workers.len() == count as usize && workers.values().all(|worker| worker.ready)
    }

    /// Local ranks of the workers that take part in no world.
    pub(super) fn ready(&self) -> BTreeSet<u32> {
        self.lock().iter().filter_map(|(local, worker)| worker.ready.then_some(*local)).collect()
    }

    /// Whether all `count` workers are in the world of this round.
    pub(super) fn all_joined(&self, count: u32, round: u64) -> bool {
        let workers = self.lock();
        workers.len() == count as usize && workers.values().all(|worker| worker.joined == Some(round))
    }

    /// Waits until a worker connects, disconnects or sends something.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks all workers to leave their world for a rendezvous.
    pub(super) fn request_rendezvous(&self, reason: &str) {
        for worker in self.lock().values() {
            worker.send(&ToWorker::Rendezvous { reason });
        }
    }

    /// Sends each worker its new world, by local rank.
    pub(super) fn send_worlds(&self, worlds: &[WorldMessage]) {
        let mut workers = self.lock();
        for world in worlds {
            if let Some(worker) = workers.get_mut(&world.local_rank) {
                worker.ready = false;
                worker.send(&ToWorker::World(world));
            }
        }
    }

    /// Local ranks of the workers that have connected and were never in a world.
    pub(super) fn without_world(&self) -> BTreeSet<u32> {
        let is_without =
            |(local, worker): (&u32, &ConnectedWorker)| (worker.ready && worker.joined.is_none()).then_some(*local);
        self.lock().iter().filter_map(is_without).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, ConnectedWorker>> {
        self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WorldSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ConnectedWorker {
    fn send(&self, message: &ToWorker<'_>) {
        if let Ok(line) = serde_json::to_string(message) {
            // The reader notices a worker that is gone.
            let _ = self.lines.send(line + "\n");
        }
    }
}

/// Makes a private folder below this one, and a socket in it.
fn listen_in(parent: &Path) -> Result<(TempDir, UnixListener), LaunchError> {
    let failed = |path: PathBuf| move |source| LaunchError::Socket { path, source };
    let private = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("flexor-").permissions(private).tempdir_in(parent);
    let folder = folder.map_err(failed(parent.to_owned()))?;
    let path = path_in(folder.path());
    let listener = UnixListener::bind(&path).map_err(failed(path))?;
    Ok((folder, listener))
}

fn path_in(folder: &Path) -> PathBuf {
    folder.join("world.sock")
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve_worker(stream, Arc::clone(&shared)))),
            // Too many open files. Connected workers are not affected.
            Err(error) => {
                tracing::warn!("a worker could not connect to the world socket: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_worker(stream: UnixStream, shared: Arc<Shared>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let (lines, mut outgoing) = mpsc::unbounded_channel::<String>();
    let mut local = None;
    let mut line = Vec::new();
    loop {
        tokio::select! {
            read = async { (&mut reader).take(MAX_LINE - line.len() as u64).read_until(b'\n', &mut line).await } => {
                let complete = line.ends_with(b"\n");
                if !matches!(read, Ok(count) if count > 0) || (!complete && line.len() as u64 >= MAX_LINE) {
                    break;
                }
                if complete {
                    if let Err(error) = handle_line(&line, &mut local, &lines, &shared) {
                        tracing::warn!("a worker sent an invalid message on the world socket: {error}");
                        break;
                    }
                    line.clear();
                }
            }
            Some(text) = outgoing.recv() => {
                if writer.write_all(text.as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    }
    if let Some(local) = local {
        let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
        // A later connection of the same worker stays.
        if workers.get(&local).is_some_and(|worker| worker.lines.same_channel(&lines)) {
            workers.remove(&local);
        }
        drop(workers);
        shared.changes.send_modify(|count| *count += 1);
    }
}

fn handle_line(
    line: &[u8],
    local: &mut Option<u32>,
    lines: &mpsc::UnboundedSender<String>,
    shared: &Shared,
) -> Result<(), String> {
    let message: FromWorker = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
    match (message, *local) {
        (FromWorker::Worker(name), None) => {
            let rank = name.rsplit_once('/').filter(|(node, _)| *node == shared.node);
            let rank = rank.and_then(|(_, rank)| rank.parse().ok()).filter(|rank| *rank < shared.count);
            let rank = rank.ok_or_else(|| format!("{name:?} is no worker of this node"))?;
            *local = Some(rank);
            shared.has_any_connected.store(true, Ordering::Relaxed);
            workers.insert(rank, ConnectedWorker { lines: lines.clone(), ready: false, joined: None });
        }
        (FromWorker::Ready(ready), Some(rank)) => {
            if let Some(worker) = workers.get_mut(&rank) {
                worker.ready = ready;
            }
        }
        (FromWorker::Joined(round), Some(rank)) => {
            if let Some(worker) = workers.get_mut(&rank) {
                worker.joined = Some(round);
            }
        }
        (FromWorker::Worker(_), Some(_)) => return Err("it named itself twice".to_owned()),
        (FromWorker::Ready(_) | FromWorker::Joined(_), None) => return Err("it did not name itself first".to_owned()),
    }
    drop(workers);
    shared.changes.send_modify(|count| *count += 1);
    Ok(())
}
