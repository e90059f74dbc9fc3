//! What the laptop cluster and the operator share around the controller.
//!
//! ```text
//! observed ─ reconcile (flexor-engine) ─▶ actions ─ pacing ─▶ steps ─▶ Executor
//! master ◀─ master_view ─ feed ─▶ proposal ─▶ training status, timeline, events
//! ```
//!
//! [`JobDriver`] runs the reconcile loop over an [`Executor`]. [`MasterFeed`] connects a job's controller to its master.
//! Nothing here knows Kubernetes or processes: a world implements [`Executor`] and says where the master is.

mod cluster_planner;
mod driver;
mod feed;
mod master_view;
mod pacing;
mod proposal;
mod sizing_view;
mod timeline;
mod training_status;

pub use cluster_planner::{ClusterPlanner, ClusterPod, PlannedJob, may_be_planned, planned_job, planning_of};
pub use driver::{Executor, JobDriver};
pub use feed::{FeedMessage, MasterFeed};
pub use master_view::observed_by_master;
pub use pacing::{CreationEvents, Paced, Pacer, Pacing, Step};
pub use proposal::{MasterUpdate, read_proposal};
pub use sizing_view::{Machines, automatic_plan_name};
pub use timeline::{Activity, Moment, PodCounts, Span, Split, Timeline, WorldState};
pub use training_status::{
    Evaluations, Learning, Pace, PsClusterStatus, PsServerStatus, Records, Scores, TrainingStatus, Updates,
};
