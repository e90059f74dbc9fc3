//! What the client does with the job, and where its processes log.

use super::{
    JOBS,
    group::option_group,
    spec::{ALWAYS, Fate::Kept, Presence::Optional},
};
use crate::elasticdl::values::LogLevel;

option_group! {
    /// Submitting and logging.
    pub struct SubmissionOptions {
        /// Write the job to this file instead of submitting it
        yaml: String = "", JOBS, Optional, ALWAYS, Kept;
        /// Use the kubeconfig file even inside a cluster
        force_use_kube_config_file: bool = "False", JOBS, Optional, ALWAYS, Kept;
        /// Log level of all processes of the job
        log_level: LogLevel = "INFO", JOBS, Optional, ALWAYS, Kept;
        /// File that each process also logs to
        log_file_path: String = "", JOBS, Optional, ALWAYS, Kept;
    }
}
