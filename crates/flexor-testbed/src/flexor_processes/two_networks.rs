//! Two networks with one cable between them that a test can cut, for partitioned nodes. Needs root.
//!
//! A small process holds each network namespace open, so both end with their owner, however it ends. The ends of the
//! cable are created inside the namespaces; the host's network is never involved.

use std::{
    ffi::OsStr,
    fs::File,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpStream},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use anyhow::{Context as _, bail, ensure};
use nix::sched::{CloneFlags, setns};

/// The cable's end in each of them.
const CABLE: &str = "cable";

/// Two networks and the cable.
#[derive(Debug)]
pub struct TwoNetworks {
    mainland: Namespace,
    island: Namespace,
}

impl TwoNetworks {
    /// Makes both and connects them.
    pub fn start() -> anyhow::Result<Self> {
        let mainland = Namespace::start(Ipv4Addr::new(10, 77, 0, 1))?;
        let island = Namespace::start(Ipv4Addr::new(10, 77, 0, 2))?;
        let (here, there) = (mainland.holder.id().to_string(), island.holder.id().to_string());
        let cable = ["link", "add", CABLE, "netns", &here, "type", "veth", "peer", "name", CABLE, "netns", &there];
        ip(Command::new("ip").args(cable))?;
        for end in [&mainland, &island] {
            ip(end.command("ip").args(["address", "add", &format!("{}/24", end.address), "dev", CABLE]))?;
            ip(end.command("ip").args(["link", "set", CABLE, "up"]))?;
        }
        Ok(Self { mainland, island })
    }

    /// Where the master and most nodes are.
    pub fn mainland(&self) -> &Namespace {
        &self.mainland
    }

    /// The network that a test can cut off.
    pub fn island(&self) -> &Namespace {
        &self.island
    }

    /// Cuts the cable: packets are lost, connections are not closed.
    pub fn cut(&self) -> anyhow::Result<()> {
        ip(self.island.command("ip").args(["link", "set", CABLE, "down"]))
    }

    /// Mends the cable.
    pub fn mend(&self) -> anyhow::Result<()> {
        ip(self.island.command("ip").args(["link", "set", CABLE, "up"]))
    }
}

/// A network with loopback and one end of the cable.
#[derive(Debug, Clone)]
pub struct Namespace {
    holder: Arc<Holder>,
    address: Ipv4Addr,
}

impl Namespace {
    fn start(address: Ipv4Addr) -> anyhow::Result<Self> {
        Ok(Self { holder: Arc::new(Holder::start()?), address })
    }

    /// Its address on the cable.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The interface with that address.
    pub fn interface(&self) -> &'static str {
        CABLE
    }

    /// A command that runs `program` in this network.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.file().display())).arg("--").arg(program);
        command
    }

    /// A connection from inside this network.
    pub fn connect(&self, address: &str) -> anyhow::Result<TcpStream> {
        let network = File::open(self.file()).context("open a network namespace")?;
        let address = address.to_owned();
        // A short-lived thread: no other thread may end up in another network.
        let connecting = std::thread::spawn(move || {
            setns(&network, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from)?;
            TcpStream::connect(address)
        });
        match connecting.join() {
            Ok(connected) => Ok(connected?),
            Err(_) => bail!("the connecting thread panicked"),
        }
    }

    fn file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }
}

/// The process that holds a namespace open until its standard input ends.
#[derive(Debug)]
struct Holder {
    process: Child,
}

impl Holder {
    fn start() -> anyhow::Result<Self> {
        let mut process = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo up && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C on the terminal reaches the owner only.
            .process_group(0)
            .spawn()
            .context("start unshare; install util-linux")?;
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("read from the holder of a namespace")?;
        }
        let holder = Self { process };
        ensure!(line == "up\n", "no network namespace could be made; this needs root and the program ip");
        Ok(holder)
    }

    fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

fn ip(command: &mut Command) -> anyhow::Result<()> {
    let printed = command.output().context("run ip; install iproute2")?;
    ensure!(printed.status.success(), "{command:?}: {}", String::from_utf8_lossy(&printed.stderr).trim());
    Ok(())
}
