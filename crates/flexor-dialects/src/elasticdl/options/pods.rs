//! Which pods a job has, what each asks for and what they have in common.

use std::num::NonZeroU32;

use flexor_model::{DnsLabel, JobName};

use super::{
    JOBS, TRAIN,
    group::option_group,
    spec::{
        ALWAYS,
        Fate::Shapes,
        Presence::{Optional, Required},
        SINCE_HEAD, SINCE_V1,
    },
};
use crate::elasticdl::values::{
    AuxParams, ClusterSpec, Envs, ImagePullPolicy, PodPriority, ResourceString, RestartPolicy, Volumes, WorkerPriority,
};

option_group! {
    /// The pods.
    pub struct PodOptions {
        /// Name of the job; pod names are derived from it
        job_name: JobName = "", JOBS, Required, ALWAYS, Shapes;
        /// Namespace of all pods
        namespace: DnsLabel = "default", JOBS, Optional, ALWAYS, Shapes;
        /// Image of all pods
        image_name: String = "", JOBS, Optional, ALWAYS, Shapes;
        /// Image of the workers; --image_name if empty
        worker_image: String = "", JOBS, Optional, SINCE_HEAD, Shapes;
        /// Image of the parameter servers; --image_name if empty
        ps_image: String = "", JOBS, Optional, SINCE_V1, Shapes;
        /// Number of workers at the start, and the maximum
        num_workers: NonZeroU32 = "2", JOBS, Optional, ALWAYS, Shapes;
        /// Number of parameter servers
        num_ps_pods: u32 = "1", JOBS, Optional, ALWAYS, Shapes;
        /// Resource requests of the master
        master_resource_request: ResourceString = "cpu=0.1,memory=1024Mi", JOBS, Optional, ALWAYS, Shapes;
        /// Resource limits of the master; the requests if empty
        master_resource_limit: ResourceString = "", JOBS, Optional, ALWAYS, Shapes;
        /// Resource requests of each worker
        worker_resource_request: ResourceString = "cpu=1,memory=4096Mi", JOBS, Optional, ALWAYS, Shapes;
        /// Resource limits of each worker; the requests if empty
        worker_resource_limit: ResourceString = "", JOBS, Optional, ALWAYS, Shapes;
        /// Resource requests of each parameter server
        ps_resource_request: ResourceString = "cpu=1,memory=4096Mi", JOBS, Optional, ALWAYS, Shapes;
        /// Resource limits of each parameter server; the requests if empty
        ps_resource_limit: ResourceString = "", JOBS, Optional, ALWAYS, Shapes;
        /// PriorityClass of the master
        master_pod_priority: PodPriority = "", JOBS, Optional, ALWAYS, Shapes;
        /// PriorityClass of the workers, or the share of them that is `high`; the rest is `low`
        worker_pod_priority: WorkerPriority = "", JOBS, Optional, ALWAYS, Shapes;
        /// PriorityClass of the parameter servers
        ps_pod_priority: PodPriority = "", JOBS, Optional, ALWAYS, Shapes;
        /// Volumes of all pods
        volume: Volumes = "", JOBS, Optional, ALWAYS, Shapes;
        /// When the image is pulled
        image_pull_policy: ImagePullPolicy = "Always", JOBS, Optional, ALWAYS, Shapes;
        /// Restart policy of all pods; values other than Never are replaced by Never
        restart_policy: RestartPolicy = "Never", JOBS, Optional, ALWAYS, Shapes;
        /// Environment variables of all pods
        envs: Envs = "", JOBS, Optional, ALWAYS, Shapes;
        /// Additions to pods: pod_spec, master_pod_spec, ps_pod_spec, worker_pod_spec
        cluster_spec_json: ClusterSpec = "", JOBS, Optional, SINCE_HEAD, Shapes;
        /// Set TF_CONFIG, and give workers addresses that their replacements inherit
        need_tf_config: bool = "False", TRAIN, Optional, SINCE_HEAD, Shapes;
        /// Number of times a failed worker is replaced
        relaunch_on_worker_failure: u32 = "1", TRAIN, Optional, SINCE_HEAD, Shapes;
        /// Number of times a failed parameter server is replaced
        ps_relaunch_max_num: u32 = "1", TRAIN, Optional, SINCE_V1, Shapes;
        /// Fail the job when a parameter server cannot be replaced
        ps_is_critical: bool = "True", TRAIN, Optional, SINCE_V1, Shapes;
        /// Auxiliary parameters: disable_relaunch
        aux_params: AuxParams = "", JOBS, Optional, ALWAYS, Shapes;
    }
}
