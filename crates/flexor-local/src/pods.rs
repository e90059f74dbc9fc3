//! Pods as data: the plan of what a pod runs, its files, its status, and what a kubelet would resolve for it.

pub mod address_pool;
pub mod checkpoint_folder;
pub mod environment;
pub mod folder;
pub mod interpreter;
pub mod plan;
pub mod preflight;
pub mod status;
pub mod volumes;
