//! Options that are taken so that command lines go on working, though nothing reads them.
//!
//! They are typed and kept like all others, so that a wrong value is refused and a command line can be printed back.
//! Each says in the warning that it gives why nothing reads it.

use super::{JOBS, TRAIN};
use crate::elasticdl::{
    option::{ALWAYS, Fate::Unused, Presence::Optional, RC2, SINCE_HEAD, SINCE_V1},
    option_group::option_group,
    priority::PodPriority,
    resource_string::ResourceString,
};

const NO_CHIEF: &str = "no job has a chief beside its workers";
const NO_EVALUATOR: &str = "no job has evaluators; workers evaluate between portions of training data";
const ALWAYS_ON: &str = "the master always has this part";

option_group! {
    /// Accepted without effect.
    pub struct IgnoredOptions {
        /// Package index of `zoo init`
        extra_pypi_index: String =
            "", JOBS, Optional, ALWAYS, Unused("images are built by `elasticdl zoo`; write it there");
        /// Python file that changes pods
        cluster_spec: String =
            "", JOBS, Optional, ALWAYS, Unused("Python is not run here; write --cluster_spec_json instead");
        /// Folder that a TensorBoard in the master would show
        tensorboard_log_dir: String =
            "", TRAIN, Optional, RC2, Unused("the master starts no TensorBoard; start one on that folder");
        /// Which of two parameter server programs is used
        use_go_ps: bool = "True", JOBS, Optional, RC2, Unused("there is one parameter server");
        /// Pattern of the master's variables that other pods get
        populate_env_names: String =
            "", JOBS, Optional, SINCE_HEAD, Unused("the master makes no pods; write the variables into --envs");
        /// Whether ElasticDL's own training loop is used
        need_elasticdl_job_service: bool = "False", TRAIN, Optional, SINCE_HEAD, Unused(ALWAYS_ON);
        /// Whether the master hands out data
        need_task_manager: bool = "True", TRAIN, Optional, SINCE_HEAD, Unused(ALWAYS_ON);
        /// Whether lost pods are replaced
        need_pod_manager: bool = "True", TRAIN, Optional, SINCE_HEAD, Unused("lost pods are always replaced");
        /// Whether data of lost workers is handed out again
        task_fault_tolerance: bool =
            "True", TRAIN, Optional, SINCE_HEAD, Unused("data of lost workers is always handed out again");
        /// Whether a worker that hangs is replaced
        relaunch_timeout_worker: bool =
            "False", TRAIN, Optional, SINCE_HEAD, Unused("the master looks for workers that hang by itself");
        /// Whether the job fails when a parameter server does
        ps_is_critical: bool =
            "True", TRAIN, Optional, SINCE_V1, Unused("--ps_relaunch_max_num says how often one is forgiven");
        /// Workers without which the job fails
        critical_worker_index: String =
            "default", TRAIN, Optional, SINCE_V1, Unused("no worker is more critical than another");
        /// Whether workers wait for the parameter servers
        launch_worker_after_ps_running: String =
            "default", TRAIN, Optional, SINCE_V1, Unused("pods are started in the order master, servers, workers");
        /// Whether the workers' memory is taken from what the first one used
        enable_automate_memory: bool =
            "True", TRAIN, Optional, SINCE_V1, Unused("workers get the memory that --worker_resource_request says");
        /// What a chief asks for
        chief_resource_request: ResourceString =
            "cpu=1,memory=4096Mi", JOBS, Optional, SINCE_V1, Unused(NO_CHIEF);
        /// What a chief may not exceed
        chief_resource_limit: ResourceString = "", JOBS, Optional, SINCE_V1, Unused(NO_CHIEF);
        /// PriorityClass of a chief
        chief_pod_priority: PodPriority = "", JOBS, Optional, SINCE_V1, Unused(NO_CHIEF);
        /// What each evaluator asks for
        evaluator_resource_request: ResourceString =
            "cpu=1,memory=4096Mi", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
        /// What each evaluator may not exceed
        evaluator_resource_limit: ResourceString = "", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
        /// PriorityClass of the evaluators
        evaluator_pod_priority: PodPriority = "", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
        /// How many evaluators the job has
        num_evaluators: u32 = "0", JOBS, Optional, SINCE_V1, Unused(NO_EVALUATOR);
    }
}
