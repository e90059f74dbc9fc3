//! `flexor sidecar`, between one torchrun and its master.

use serde::Deserialize;

use super::{Master, Namespace, service::Service};

/// A running sidecar.
#[derive(Debug)]
pub struct Sidecar {
    listen: String,
    service: Service,
}

#[derive(Deserialize)]
struct SidecarAddress {
    listen: String,
}

impl Sidecar {
    /// Starts the sidecar of the pod called `pod`, in the network of the master.
    pub fn start(master: &Master, pod: &str) -> anyhow::Result<Self> {
        Self::start_in(master, pod, master.network())
    }

    /// Starts the sidecar of the pod called `pod` in this network, which may differ from the master's.
    pub fn start_in(master: &Master, pod: &str, network: Option<&Namespace>) -> anyhow::Result<Self> {
        let mut command = master.flexor(network);
        command.args(["sidecar", "--listen", "127.0.0.1:0", "--upstream", master.grpc(), "--pod", pod]);
        if let Some(file) = master.token_file() {
            command.arg("--token-file").arg(file);
        }
        let (service, serves) = Service::start::<SidecarAddress>(master.python(), &mut command)?;
        Ok(Self { listen: serves.listen, service })
    }

    /// `HOST:PORT` for torchrun.
    pub fn endpoint(&self) -> &str {
        &self.listen
    }

    /// Ends it at once with SIGKILL.
    pub fn kill(&self) {
        self.service.kill();
    }

    /// Lets it hang where it is; its connections stay open.
    pub fn stop(&self) {
        self.service.stop();
    }

    /// Resumes it after [`Sidecar::stop`].
    pub fn wake(&self) {
        self.service.wake();
    }

    pub fn log(&self) -> String {
        self.service.log()
    }
}
