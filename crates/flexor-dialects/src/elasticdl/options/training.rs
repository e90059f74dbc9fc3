//! How the parameters are learned, and how often progress is measured.

use std::num::NonZeroU32;

use super::{
    JOBS, TRAIN,
    group::option_group,
    spec::{
        ALWAYS,
        Fate::{Kept, Shapes},
        Presence::Optional,
        RC2, SINCE_HEAD,
    },
};
use crate::elasticdl::values::DistributionStrategy;

option_group! {
    /// The learning itself.
    pub struct TrainingOptions {
        /// How the work is distributed
        distribution_strategy: DistributionStrategy = "ParameterServerStrategy", JOBS, Optional, ALWAYS, Shapes;
        /// Apply each gradient as it arrives, instead of waiting for others
        use_async: bool = "False", TRAIN, Optional, ALWAYS, Kept;
        /// Gradients in one update, when synchronous
        grads_to_wait: NonZeroU32 = "1", TRAIN, Optional, ALWAYS, Kept;
        /// Versions that a gradient may be behind, when synchronous
        sync_version_tolerance: u32 = "0", TRAIN, Optional, ALWAYS, Kept;
        /// Divide the learning rate by the staleness of a gradient, when asynchronous
        lr_staleness_modulation: bool = "False", TRAIN, Optional, ALWAYS, Kept;
        /// Pull the model every N steps, when asynchronous
        get_model_steps: NonZeroU32 = "1", JOBS, Optional, ALWAYS, Kept;
        /// Log the loss every N model versions; 0 for never
        log_loss_steps: u32 = "100", TRAIN, Optional, ALWAYS, Kept;
        /// Evaluate every N model versions; 0 for never
        evaluation_steps: u32 = "0", TRAIN, Optional, ALWAYS, Kept;
        /// Seconds before the first timed evaluation
        evaluation_start_delay_secs: u32 = "100", TRAIN, Optional, RC2, Kept;
        /// Seconds between timed evaluations; 0 for none
        evaluation_throttle_secs: u32 = "0", TRAIN, Optional, RC2, Kept;
        /// Stop after N steps; 0 for no limit
        max_step: u32 = "0", TRAIN, Optional, SINCE_HEAD, Kept;
    }
}
