//! Redis with one value per row: the cost of an embedding store without an optimizer.
//!
//! A pull is MGET; a push is MSET of the rows, which stands for the client's own update. Both use commands of a
//! thousand keys and pipeline all commands of a request. Redis writes no files.

use std::fs;
use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flexor_testbed::cache_dir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::case::Case;
use super::measure::{Lane, Lanes};
use super::our_server::{RunningServer, free_port};
use super::side::{Phase, Programs};
use super::{go_server, keys};

pub(super) const NAME: &str = "Redis 7";

/// Debian's packages with their dependencies.
const PACKAGES: [&str; 4] = ["redis-server", "redis-tools", "libjemalloc2", "liblzf1"];
/// Keys of a command.
const TOGETHER: usize = 1000;

/// Where it is unpacked.
pub(super) struct Installed {
    folder: PathBuf,
}

/// Redis, from the cache.
pub(super) fn ensure() -> Result<Installed> {
    let cache = cache_dir()?;
    let folder = cache.join("redis-7");
    if folder.is_dir() {
        return Ok(Installed { folder });
    }
    fs::create_dir_all(&cache)?;
    let unfinished = tempfile::tempdir_in(&cache)?;
    let mut download = Command::new("apt-get");
    download.current_dir(&unfinished).args(["download", "--quiet"]).args(PACKAGES);
    go_server::run(&mut download, "is the package index of Debian 12 there (apt-get update)?")?;
    let unpacked = unfinished.path().join("unpacked");
    for entry in fs::read_dir(&unfinished)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            go_server::run(Command::new("dpkg").arg("-x").arg(&path).arg(&unpacked), "is the package whole?")?;
        }
    }
    fs::rename(&unpacked, &folder).with_context(|| format!("cannot move {} into place", folder.display()))?;
    Ok(Installed { folder })
}

/// A running Redis.
pub(super) struct Redis {
    server: RunningServer,
    case: Case,
}

impl Redis {
    pub(super) async fn start(programs: &Programs, case: &Case) -> Result<Self> {
        let (port, installed) = (free_port()?, &programs.redis);
        let library = installed.folder.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
        let mut command = programs.cores.command(installed.folder.join("usr/bin/redis-server"));
        command.env("LD_LIBRARY_PATH", library);
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
        let redis = Self { server: RunningServer::start(&mut command, port)?, case: *case };
        redis.connect().await?;
        Ok(redis)
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    async fn connect(&self) -> Result<TcpStream> {
        for _ in 0..200 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.server.port())).await {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        TcpStream::connect(("127.0.0.1", self.server.port())).await.context("Redis does not serve")
    }

    pub(super) async fn lanes(&self, phase: Phase) -> Result<Lanes> {
        let Case { batch, clients, keys, .. } = self.case;
        let mut lanes = Lanes::new();
        for client in 0..clients {
            // New rows follow the existing ones.
            let new =
                |batches: Vec<Vec<i64>>| batches.into_iter().map(|keys| keys.into_iter().map(|key| !key).collect());
            let (repeats, requests): (bool, Vec<Request>) = match phase {
                Phase::FirstTouch => {
                    (false, new(keys::new(batch, client, clients)).map(|keys: Vec<i64>| self.set(&keys)).collect())
                }
                Phase::Fill | Phase::PushAll => {
                    (false, keys::present(batch, client, clients).iter().map(|keys| self.set(keys)).collect())
                }
                Phase::Pull => (true, keys.requests(batch, client).iter().map(|keys| self.get(keys)).collect()),
                Phase::Push => (true, keys.requests(batch, client).iter().map(|keys| self.set(keys)).collect()),
            };
            let stream = self.connect().await?;
            lanes.push(Box::new(Client { stream, answer: Vec::new(), repeats, requests }));
        }
        Ok(lanes)
    }

    fn get(&self, keys: &[i64]) -> Request {
        let mut bytes = Vec::new();
        let mut answer = 0;
        let value = 4 * self.case.dim as usize;
        for keys in keys.chunks(TOGETHER) {
            command(&mut bytes, "MGET", keys.len());
            keys.iter().for_each(|key| text(&mut bytes, &key.to_le_bytes()));
            answer += format!("*{}\r\n", keys.len()).len() + keys.len() * (format!("${value}\r\n").len() + value + 2);
        }
        Request { rows: keys.len() as u64, bytes, answer }
    }

    fn set(&self, keys: &[i64]) -> Request {
        let mut bytes = Vec::new();
        let mut answer = 0;
        let value = vec![0; 4 * self.case.dim as usize];
        for keys in keys.chunks(TOGETHER) {
            command(&mut bytes, "MSET", 2 * keys.len());
            for key in keys {
                text(&mut bytes, &key.to_le_bytes());
                text(&mut bytes, &value);
            }
            answer += "+OK\r\n".len();
        }
        Request { rows: keys.len() as u64, bytes, answer }
    }
}

/// A request, and how many bytes its answer has.
struct Request {
    rows: u64,
    bytes: Vec<u8>,
    answer: usize,
}

fn command(bytes: &mut Vec<u8>, name: &str, arguments: usize) {
    // Writing to memory does not fail.
    let _ = write!(bytes, "*{}\r\n", arguments + 1);
    text(bytes, name.as_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    let _ = write!(bytes, "${}\r\n", text.len());
    bytes.extend_from_slice(text);
    bytes.extend_from_slice(b"\r\n");
}

struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
    repeats: bool,
    requests: Vec<Request>,
}

impl Lane for Client {
    fn ask(&mut self, turn: usize) -> Pin<Box<dyn Future<Output = Result<Option<u64>>> + Send + '_>> {
        Box::pin(async move {
            let index = if self.repeats { turn % self.requests.len() } else { turn };
            let Some(request) = self.requests.get(index) else { return Ok(None) };
            self.answer.resize(request.answer, 0);
            let (mut from, mut to) = self.stream.split();
            // Both at once: Redis answers while it still receives the request.
            let (sent, answered) = tokio::join!(to.write_all(&request.bytes), from.read_exact(&mut self.answer));
            sent?;
            answered?;
            ensure!(
                matches!(self.answer.first(), Some(b'*' | b'+')),
                "Redis refuses: {}",
                String::from_utf8_lossy(&self.answer)
            );
            Ok(Some(request.rows))
        })
    }
}
