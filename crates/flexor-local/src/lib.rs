//! The laptop cluster: pods as processes of this machine, under the same controller as on Kubernetes.
//!
//! A pod is a folder and a small process of its own, its *parent* ([`supervisor`]), which runs the containers, writes what
//! becomes of them into the folder, and outlives whoever started it. The cluster finds its pods by their folders, so that
//! another process can take them over at any time. What is to be done about them is `flexor-engine`'s to decide.
//!
//! It is *not* a container runtime: programs see this machine's files and users, images are not looked at, and addresses
//! tell pods apart without keeping them apart.

pub mod api;
pub mod chaos;
pub mod cluster;
pub mod limits;
pub mod objects;
pub mod pods;
pub mod proc;
mod readiness;
pub mod state_dir;
pub mod supervisor;
mod whole_file;
