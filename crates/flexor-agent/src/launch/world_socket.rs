//! The socket over which workers that want to go on through a change of the world are told of it.
//!
//! A worker that connects to `FLEXOR_WORLD_SOCKET` has opted in. Messages are lines of JSON. From the worker: first
//! `{"worker": NAME}` with its `FLEXOR_WORKER`; `{"ready": true}` when it takes part in no world (it has just come, it was
//! asked to meet, or it has seen that its peers are gone); `{"joined": ROUND}` when it is in a world that it was told.
//! To the worker: `{"meet": {"cause": …}}` when it shall leave its world at the next step, and `{"world": {…}}` when
//! there is a new one. Whoever never connects knows nothing of this and is restarted.

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

use super::outcome::LaunchError;

/// Where paths are short enough for a socket's, which has 108 bytes.
const SHORT_FOLDER: &str = "/tmp";
/// The longest line that is read.
const MAX_LINE: u64 = 4096;

/// The world, as one worker is told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToldWorld {
    pub(super) round: u64,
    pub(super) rank: u32,
    pub(super) world_size: u32,
    pub(super) local_rank: u32,
    pub(super) master_addr: String,
    pub(super) master_port: u16,
    /// Those whose processes ran before, by rank. Where there are any, rank 0 is one of them.
    pub(super) survivors: Vec<u32>,
    /// What stands before the keys of the round in the master's own store, for those who use it directly.
    pub(super) store_prefix: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Said {
    Worker(String),
    Ready(bool),
    Joined(u64),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Say<'a> {
    Meet { cause: &'a str },
    World(&'a ToldWorld),
}

/// Ended with its guard.
pub(super) struct WorldSocket {
    shared: Arc<Shared>,
    changes: watch::Receiver<u64>,
    task: JoinHandle<()>,
    folder: TempDir,
}

struct Shared {
    workers: Mutex<BTreeMap<u32, Worker>>,
    /// Whether any worker ever connected.
    called: AtomicBool,
    changes: watch::Sender<u64>,
    node: String,
    count: u32,
}

/// A worker that has connected.
struct Worker {
    lines: mpsc::UnboundedSender<String>,
    ready: bool,
    joined: Option<u64>,
}

impl WorldSocket {
    /// For the workers of a node, `NODE/0` to `NODE/COUNT-1`.
    ///
    /// In the folder for temporary files, or where its path is too long for a socket's, as those of batch systems are,
    /// in the system's.
    pub(super) fn open(node: &str, count: u32) -> Result<Self, LaunchError> {
        let usual = env::temp_dir();
        let (folder, listener) = listen_in(&usual).or_else(|error| {
            let shorter = listen_in(Path::new(SHORT_FOLDER)).ok().filter(|_| usual != Path::new(SHORT_FOLDER));
            shorter.ok_or(error)
        })?;
        let (sender, changes) = watch::channel(0);
        let shared = Arc::new(Shared {
            workers: Mutex::default(),
            called: AtomicBool::new(false),
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
    pub(super) fn all_here(&self, count: u32) -> bool {
        self.lock().len() == count as usize
    }

    /// Whether any worker has opted in, though it may be gone.
    pub(super) fn has_anybody_called(&self) -> bool {
        self.shared.called.load(Ordering::Relaxed)
    }

    /// Whether all `count` workers take part in no world.
    pub(super) fn all_ready(&self, count: u32) -> bool {
        let workers = self.lock();
        workers.len() == count as usize && workers.values().all(|worker| worker.ready)
    }

    /// Who takes part in no world.
    pub(super) fn ready(&self) -> BTreeSet<u32> {
        self.lock().iter().filter_map(|(local, worker)| worker.ready.then_some(*local)).collect()
    }

    /// Whether all `count` workers are in the world of this round.
    pub(super) fn all_joined(&self, count: u32, round: u64) -> bool {
        let workers = self.lock();
        workers.len() == count as usize && workers.values().all(|worker| worker.joined == Some(round))
    }

    /// Somebody has come, gone or said something.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks all to leave their world.
    pub(super) fn ask_to_meet(&self, cause: &str) {
        for worker in self.lock().values() {
            worker.say(&Say::Meet { cause });
        }
    }

    /// Tells each its new world, by local rank.
    pub(super) fn tell(&self, worlds: &[ToldWorld]) {
        let mut workers = self.lock();
        for world in worlds {
            if let Some(worker) = workers.get_mut(&world.local_rank) {
                worker.ready = false;
                worker.say(&Say::World(world));
            }
        }
    }

    /// Who has connected and not been told any world.
    pub(super) fn untold(&self) -> BTreeSet<u32> {
        let untold = |(local, worker): (&u32, &Worker)| (worker.ready && worker.joined.is_none()).then_some(*local);
        self.lock().iter().filter_map(untold).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Worker>> {
        self.shared.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WorldSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    fn say(&self, message: &Say<'_>) {
        if let Ok(line) = serde_json::to_string(message) {
            // One that has gone is noticed by its reader.
            let _ = self.lines.send(line + "\n");
        }
    }
}

/// A folder of ours alone below this one, and a socket in it.
fn listen_in(parent: &Path) -> Result<(TempDir, UnixListener), LaunchError> {
    let no = |path: PathBuf| move |source| LaunchError::Socket { path, source };
    let ours = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("flexor-").permissions(ours).tempdir_in(parent);
    let folder = folder.map_err(no(parent.to_owned()))?;
    let path = path_in(folder.path());
    let listener = UnixListener::bind(&path).map_err(no(path))?;
    Ok((folder, listener))
}

fn path_in(folder: &Path) -> PathBuf {
    folder.join("world.sock")
}

async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, Arc::clone(&shared)))),
            // Too many open files: those that are here go on.
            Err(error) => {
                tracing::warn!("a worker could not connect to the world's socket: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(stream: UnixStream, shared: Arc<Shared>) {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let (lines, mut to_say) = mpsc::unbounded_channel::<String>();
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
                    if let Err(odd) = hear(&line, &mut local, &lines, &shared) {
                        tracing::warn!("a worker said something odd on the world's socket: {odd}");
                        break;
                    }
                    line.clear();
                }
            }
            Some(text) = to_say.recv() => {
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

fn hear(
    line: &[u8],
    local: &mut Option<u32>,
    lines: &mpsc::UnboundedSender<String>,
    shared: &Shared,
) -> Result<(), String> {
    let said: Said = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let mut workers = shared.workers.lock().unwrap_or_else(PoisonError::into_inner);
    match (said, *local) {
        (Said::Worker(name), None) => {
            let rank = name.rsplit_once('/').filter(|(node, _)| *node == shared.node);
            let rank = rank.and_then(|(_, rank)| rank.parse().ok()).filter(|rank| *rank < shared.count);
            let rank = rank.ok_or_else(|| format!("{name:?} is no worker of this node"))?;
            *local = Some(rank);
            shared.called.store(true, Ordering::Relaxed);
            workers.insert(rank, Worker { lines: lines.clone(), ready: false, joined: None });
        }
        (Said::Ready(ready), Some(rank)) => {
            if let Some(worker) = workers.get_mut(&rank) {
                worker.ready = ready;
            }
        }
        (Said::Joined(round), Some(rank)) => {
            if let Some(worker) = workers.get_mut(&rank) {
                worker.joined = Some(round);
            }
        }
        (Said::Worker(_), Some(_)) => return Err("it named itself twice".to_owned()),
        (Said::Ready(_) | Said::Joined(_), None) => return Err("it did not name itself first".to_owned()),
    }
    drop(workers);
    shared.changes.send_modify(|count| *count += 1);
    Ok(())
}
