//! The laptop cluster: pods as processes of this machine, under the same controller as on Kubernetes.
//!
//! A pod is a folder and a process of its own, the pod [`supervisor`]. The supervisor runs the containers, writes their
//! status into the folder, and outlives the process that started it. The cluster finds its pods by their folders, so
//! another process can take them over at any time. `flexor-engine` decides what happens to pods; `flexor-control` runs its
//! reconcile loop.
//!
//! It is *not* a container runtime: programs see this machine's files and users, images are ignored, and addresses tell
//! pods apart without isolating them.

pub mod api;
mod atomic_file;
pub mod chaos;
pub mod cluster;
pub mod limits;
pub mod objects;
pub mod pods;
pub mod proc;
mod readiness;
pub mod state_dir;
pub mod supervisor;

/// A file in the state folder of a master that refused to start because its journal has lost facts.
pub const JOURNAL_REFUSED: &str = "journal-refused";
