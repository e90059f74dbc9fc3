//! Tests with real nodes: kubelets and containers in namespaces of their own. They need root.

mod containers;
mod faults;
mod images;
mod ownership;
mod pods;
mod services;
