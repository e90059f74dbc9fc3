//! Tests on real nodes: kubelets and containers. The tutorials are run from their pages.

mod faults;
mod fixture;
mod training_jobs;
mod tutorials;
