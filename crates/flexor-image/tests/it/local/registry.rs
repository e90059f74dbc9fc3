//! Debian's `docker-registry` on a loopback port of its own, as a guard.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A registry that ends with its owner.
pub struct Registry {
    process: Child,
    port: u16,
    folder: TempDir,
}

/// `me` with the password `secret`, hashed by bcrypt.
const PASSWORDS: &str = "me:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
const START_LIMIT: Duration = Duration::from_secs(30);

impl Registry {
    /// A registry that lets anybody push, or the reason why this machine has none.
    pub fn open() -> Result<Self, String> {
        Self::start("")
    }

    /// A registry that lets `me` with the password `secret` push, and nobody else.
    pub fn with_password() -> Result<Self, String> {
        Self::start("auth:\n  htpasswd:\n    realm: test\n    path: PASSWORDS\n")
    }

    fn start(auth: &str) -> Result<Self, String> {
        let program = program()?;
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let passwords = folder.path().join("passwords");
        fs::write(&passwords, PASSWORDS).unwrap();
        let config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: \
             127.0.0.1:{port}\n{}",
            folder.path().join("data").display(),
            auth.replace("PASSWORDS", &passwords.display().to_string()),
        );
        fs::write(folder.path().join("config.yml"), config).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(folder.path().join("config.yml"));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut registry = Self { process, port, folder };
        registry.await_port();
        Ok(registry)
    }

    /// `HOST:PORT`, the beginning of names of its images.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn await_port(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            let ended = self.process.try_wait().unwrap();
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "the registry did not start: {log}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Installs the package when it is missing and this process may.
fn program() -> Result<PathBuf, String> {
    /// One test installs; the others wait and find the program.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _installing = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let program = Path::new("/usr/bin/docker-registry");
    if program.exists() {
        return Ok(program.to_owned());
    }
    let is_root =
        fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).is_ok_and(|uid| uid == 0);
    if !is_root {
        return Err("needs docker-registry (apt-get install docker-registry)".to_owned());
    }
    for arguments in [&["update"][..], &["install", "--yes", "--no-install-recommends", "docker-registry"]] {
        let mut apt = Command::new("apt-get");
        apt.args(["--quiet", "--option=DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        // A system without apt-get, or without a package index, has no registry either.
        let _ = apt.stdin(Stdio::null()).output();
    }
    if program.exists() {
        Ok(program.to_owned())
    } else {
        Err("needs docker-registry, and apt-get did not install it".to_owned())
    }
}
