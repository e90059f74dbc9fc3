//! Which pods a job has, what each asks for and what they have in common.

use std::num::NonZeroU32;

use flexor_model::{DnsLabel, JobName};

use super::{JOBS, TRAIN};
use crate::elasticdl::{
    choice::{ImagePullPolicy, RestartPolicy},
    cluster_spec::ClusterSpec,
    envs::Envs,
    option::{
        ALWAYS,
        Fate::Shapes,
        Presence::{Optional, Required},
        SINCE_HEAD, SINCE_V1,
    },
    option_group::option_group,
    params::AuxParams,
    priority::{PodPriority, WorkerPriority},
    resource_string::ResourceString,
    volume::Volumes,
};

option_group! {
    /// The pods.
    pub struct PodOptions {
        /// What the job is called; pods are named after it
        job_name: JobName = "", JOBS, Required, ALWAYS, Shapes;
        /// Namespace of all pods
        namespace: DnsLabel = "default", JOBS, Optional, ALWAYS, Shapes;
        /// Image of all pods
        image_name: String = "", JOBS, Optional, ALWAYS, Shapes;
        /// Image of the workers, where it is another
        worker_image: String = "", JOBS, Optional, SINCE_HEAD, Shapes;
        /// Image of the parameter servers, where it is another
        ps_image: String = "", JOBS, Optional, SINCE_V1, Shapes;
        /// How many workers the job starts with, and the most it ever has
        num_workers: NonZeroU32 = "2", JOBS, Optional, ALWAYS, Shapes;
        /// How many parameter servers the job has
        num_ps_pods: u32 = "1", JOBS, Optional, ALWAYS, Shapes;
        /// What the master asks for
        master_resource_request: ResourceString = "cpu=0.1,memory=1024Mi", JOBS, Optional, ALWAYS, Shapes;
        /// What the master may not exceed; as requested when empty
        master_resource_limit: ResourceString = "", JOBS, Optional, ALWAYS, Shapes;
        /// What each worker asks for
        worker_resource_request: ResourceString = "cpu=1,memory=4096Mi", JOBS, Optional, ALWAYS, Shapes;
        /// What each worker may not exceed; as requested when empty
        worker_resource_limit: ResourceString = "", JOBS, Optional, ALWAYS, Shapes;
        /// What each parameter server asks for
        ps_resource_request: ResourceString = "cpu=1,memory=4096Mi", JOBS, Optional, ALWAYS, Shapes;
        /// What each parameter server may not exceed; as requested when empty
        ps_resource_limit: ResourceString = "", JOBS, Optional, ALWAYS, Shapes;
        /// PriorityClass of the master
        master_pod_priority: PodPriority = "", JOBS, Optional, ALWAYS, Shapes;
        /// PriorityClass of the workers, or which share of them is `high` while the others are `low`
        worker_pod_priority: WorkerPriority = "", JOBS, Optional, ALWAYS, Shapes;
        /// PriorityClass of the parameter servers
        ps_pod_priority: PodPriority = "", JOBS, Optional, ALWAYS, Shapes;
        /// What is mounted into all pods
        volume: Volumes = "", JOBS, Optional, ALWAYS, Shapes;
        /// When nodes fetch the image
        image_pull_policy: ImagePullPolicy = "Always", JOBS, Optional, ALWAYS, Shapes;
        /// When a container is started again in its pod
        restart_policy: RestartPolicy = "Never", JOBS, Optional, ALWAYS, Shapes;
        /// Variables of all pods
        envs: Envs = "", JOBS, Optional, ALWAYS, Shapes;
        /// Additions to pods: pod_spec, master_pod_spec, ps_pod_spec, worker_pod_spec
        cluster_spec_json: ClusterSpec = "", JOBS, Optional, SINCE_HEAD, Shapes;
        /// Give pods TF_CONFIG and workers addresses that stay
        need_tf_config: bool = "False", TRAIN, Optional, SINCE_HEAD, Shapes;
        /// How many failures of its program a worker is forgiven
        relaunch_on_worker_failure: u32 = "1", TRAIN, Optional, SINCE_HEAD, Shapes;
        /// How many failures a parameter server is forgiven
        ps_relaunch_max_num: u32 = "1", TRAIN, Optional, SINCE_V1, Shapes;
        /// Auxiliary parameters: disable_relaunch
        aux_params: AuxParams = "", JOBS, Optional, ALWAYS, Shapes;
    }
}
