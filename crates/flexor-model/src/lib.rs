//! The neutral vocabulary of elastic training.
//!
//! A dialect turns a manifest or a command line into a [`Job`]; everything behind that border speaks only the words of
//! this crate. Its types cannot hold nonsense: a [`Quantity`] has been parsed, a [`JobName`] is a DNS label, a
//! [`ReplicaRange`] has its minimum below its maximum.
//!
//! Pure: no clock, no sockets, no files, no environment, nothing of Kubernetes.

mod ids;
mod job;
mod name;
mod naming;
mod pattern;
mod plan;
mod pod_template;
mod quantity;
mod range;
mod reason;
mod resources;
mod role;

pub mod env;

pub use ids::{NodeId, Rank};
pub use job::{CleanPods, EndPolicy, Job, Sizing, Strategy};
pub use name::{DnsLabel, JobName, LABEL_MAX, NameError, RoleName};
pub use naming::{EnvRule, EnvValue, IdRule, PodPort, RoleNaming, Seat, ServiceRule, ServiceScope};
pub use pattern::{Field, Pattern, PatternError};
pub use plan::{Plan, PlanOrigin, PodChange, RoleChange};
pub use pod_template::{EnvEntry, MainContainer, PodTemplate};
pub use quantity::{Quantity, QuantityError};
pub use range::{RangeError, ReplicaRange};
pub use reason::{Reason, Severity};
pub use resources::Resources;
pub use role::{PrioritySplit, Role, RoleKind, RolePriority, SplitOrder};
