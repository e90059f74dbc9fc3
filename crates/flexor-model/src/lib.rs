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
mod priority;
mod quantity;
mod range;
mod reason;
mod resources;
mod role;
mod size;
pub mod spans;
mod unix_time;
mod usage_error;

pub mod env;
pub mod expansion;
pub mod model_spec;
pub mod ports;

/// The longest time in seconds that a job can ask for: two years. Timers of every world can wait for so long.
pub const LONGEST_SECONDS: u64 = 2 * 365 * 24 * 3600;

pub use ids::{Generation, JobUid, MapEpoch, NodeId, Rank, Round};
pub use job::{Checkpoints, CleanPods, EndPolicy, Job, Sizing, Strategy};
pub use name::{DnsLabel, JobName, LABEL_MAX, NameError, ObjectName, PortName, RoleName};
pub use naming::{ArgRule, EnvRule, EnvValue, IdRule, NamedPort, PodIdentity, RoleNaming, ServiceRule, ServiceScope};
pub use pattern::{Field, Pattern, PatternError};
pub use plan::{CreatePod, MigratePod, Plan, PlanOrigin, RoleChange};
pub use pod_template::{MainContainer, PodTemplate, PodTemplateError, requests_of};
pub use priority::{PrioritySplit, RolePriority, Rounding, SplitOrder};
pub use quantity::{Quantity, QuantityError};
pub use range::{MOST_REPLICAS, PARTITIONS, RangeError, ReplicaRange};
pub use reason::{Reason, Severity};
pub use resources::{Resources, is_accelerator};
pub use role::{CriticalNodes, FailureBudget, Program, Role, RoleKind};
pub use size::{RoleSize, SizeError};
pub use spans::Spans;
pub use unix_time::{TimeOutOfRange, UnixTime};
pub use usage_error::is_usage_error;
