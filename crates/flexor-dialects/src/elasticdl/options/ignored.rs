//! Options that are taken so that command lines go on working, though nothing reads them.
//!
//! They are typed and kept like all others, so that a wrong value is refused and a command line can be printed back.
//! Each says in the warning that it gives why nothing reads it.

use super::{
    JOBS, TRAIN,
    group::option_group,
    spec::{ALWAYS, Fate::Unused, Presence::Optional, RC2, SINCE_HEAD, SINCE_V1},
};
use crate::elasticdl::values::{PodPriority, ResourceString};

const NO_CHIEF: &str = "ElasticDL jobs have no chief";
const NO_EVALUATOR: &str = "ElasticDL jobs have no evaluators; workers evaluate between training tasks";
const ALWAYS_ON: &str = "this part of the master is always on";

option_group! {
    /// Accepted without effect.
    pub struct IgnoredOptions {
        /// Extra package index for `zoo init`
        extra_pypi_index: String =
            "", JOBS, Optional, ALWAYS, Unused("images are built by `elasticdl zoo`; use the option there");
        /// Python file that modifies pods
        cluster_spec: String =
            "", JOBS, Optional, ALWAYS, Unused("Python files are not executed; use --cluster_spec_json instead");
        /// Log directory for TensorBoard
        tensorboard_log_dir: String =
            "", TRAIN, Optional, RC2, Unused("the master does not start TensorBoard; start it on that directory yourself");
        /// Use the parameter server written in Go
        use_go_ps: bool = "True", JOBS, Optional, RC2, Unused("there is only one parameter server implementation");
        /// Regular expression of the master's variables that other pods get
        populate_env_names: String =
            "", JOBS, Optional, SINCE_HEAD, Unused("the master does not create pods; list the variables in --envs");
        /// Use ElasticDL's own training loop
        need_elasticdl_job_service: bool = "False", TRAIN, Optional, SINCE_HEAD, Unused(ALWAYS_ON);
        /// Let the master hand out tasks
        need_task_manager: bool = "True", TRAIN, Optional, SINCE_HEAD, Unused(ALWAYS_ON);
        /// Replace lost pods
        need_pod_manager: bool = "True", TRAIN, Optional, SINCE_HEAD, Unused("lost pods are always replaced");
        /// Hand out the tasks of lost workers again
        task_fault_tolerance: bool =
            "True", TRAIN, Optional, SINCE_HEAD, Unused("tasks of lost workers are always handed out again");
        /// Replace workers that hang
        relaunch_timeout_worker: bool =
            "False", TRAIN, Optional, SINCE_HEAD, Unused("workers that hang are always detected");
        /// Workers without which the job fails
        critical_worker_index: String =
            "default", TRAIN, Optional, SINCE_V1, Unused("critical workers cannot be chosen");
        /// Start workers after the parameter servers
        launch_worker_after_ps_running: String =
            "default", TRAIN, Optional, SINCE_V1, Unused("pods are always started in the order master, parameter servers, workers");
        /// Set the memory of workers from what the first one used
        enable_automate_memory: bool =
            "True", TRAIN, Optional, SINCE_V1, Unused("workers get the memory of --worker_resource_request");
        /// Resource requests of the chief
        chief_resource_request: ResourceString =
            "cpu=1,memory=4096Mi", JOBS, Optional, SINCE_V1, Unused(NO_CHIEF);
        /// Resource limits of the chief
        chief_resource_limit: ResourceString = "", JOBS, Optional, SINCE_V1, Unused(NO_CHIEF);
        /// PriorityClass of the chief
        chief_pod_priority: PodPriority = "", JOBS, Optional, SINCE_V1, Unused(NO_CHIEF);
        /// Resource requests of each evaluator
        evaluator_resource_request: ResourceString =
            "cpu=1,memory=4096Mi", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
        /// Resource limits of each evaluator
        evaluator_resource_limit: ResourceString = "", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
        /// PriorityClass of the evaluators
        evaluator_pod_priority: PodPriority = "", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
        /// Number of evaluators
        num_evaluators: u32 = "0", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
    }
}
