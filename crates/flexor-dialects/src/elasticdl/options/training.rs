//! How the parameters are learned, and how often progress is measured.

use std::num::NonZeroU32;

use super::{JOBS, TRAIN};
use crate::elasticdl::{
    choice::DistributionStrategy,
    option::{
        ALWAYS,
        Fate::{Kept, Shapes},
        Presence::Optional,
        RC2, SINCE_HEAD,
    },
    option_group::option_group,
};

option_group! {
    /// The learning itself.
    pub struct TrainingOptions {
        /// How the processes share the work
        distribution_strategy: DistributionStrategy = "ParameterServerStrategy", JOBS, Optional, ALWAYS, Shapes;
        /// Apply each gradient as it comes, instead of waiting for others
        use_async: bool = "False", TRAIN, Optional, ALWAYS, Kept;
        /// Gradients that make one update, when not asynchronous
        grads_to_wait: NonZeroU32 = "1", TRAIN, Optional, ALWAYS, Kept;
        /// How many versions a gradient may be behind, when not asynchronous
        sync_version_tolerance: u32 = "0", TRAIN, Optional, ALWAYS, Kept;
        /// Divide the learning rate by how far a gradient is behind, when asynchronous
        lr_staleness_modulation: bool = "False", TRAIN, Optional, ALWAYS, Kept;
        /// Pull the model every so many steps, when asynchronous
        get_model_steps: NonZeroU32 = "1", JOBS, Optional, ALWAYS, Kept;
        /// Log the loss every so many versions; 0 for never
        log_loss_steps: u32 = "100", TRAIN, Optional, ALWAYS, Kept;
        /// Evaluate every so many versions; 0 for never
        evaluation_steps: u32 = "0", TRAIN, Optional, ALWAYS, Kept;
        /// Seconds before the first evaluation by time
        evaluation_start_delay_secs: u32 = "100", TRAIN, Optional, RC2, Kept;
        /// Seconds between evaluations by time; 0 for none
        evaluation_throttle_secs: u32 = "0", TRAIN, Optional, RC2, Kept;
        /// Stop after so many steps; 0 for no limit
        max_step: u32 = "0", TRAIN, Optional, SINCE_HEAD, Kept;
    }
}
