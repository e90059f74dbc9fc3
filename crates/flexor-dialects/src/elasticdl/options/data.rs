//! What a job reads, in which portions, and where it leaves its result.

use std::num::NonZeroU32;

use super::{
    JOBS, TRAIN,
    group::option_group,
    spec::{
        ALWAYS,
        Fate::Kept,
        Presence::{Optional, Required, RequiredIn},
    },
};
use crate::elasticdl::{
    command_line::CommandName::{Evaluate, Predict, Train},
    values::Params,
};

option_group! {
    /// Data in and out.
    pub struct DataOptions {
        /// RecordIO directory, CSV file or table to train on
        training_data: String = "", TRAIN, Optional, ALWAYS, Kept;
        /// RecordIO directory, CSV file or table to evaluate on
        validation_data: String = "", &[Train, Evaluate], RequiredIn(&[Evaluate]), ALWAYS, Kept;
        /// RecordIO directory, CSV file or table to predict
        prediction_data: String = "", &[Predict], Required, ALWAYS, Kept;
        /// Keyword arguments for the data reader
        data_reader_params: Params = "", JOBS, Optional, ALWAYS, Kept;
        /// Records in a minibatch of one worker
        minibatch_size: NonZeroU32 = "64", JOBS, Optional, ALWAYS, Kept;
        /// Minibatches in one task that the master hands to a worker
        num_minibatches_per_task: NonZeroU32 = "8", JOBS, Optional, ALWAYS, Kept;
        /// Number of passes over the training data; 0 for no end
        num_epochs: u32 = "1", TRAIN, Optional, ALWAYS, Kept;
        /// Directory that the trained model is exported to
        output: String = "", JOBS, Optional, ALWAYS, Kept;
        /// Checkpoint to start from
        checkpoint_dir_for_init: String = "", JOBS, RequiredIn(&[Evaluate, Predict]), ALWAYS, Kept;
        /// Directory for checkpoints
        checkpoint_dir: String = "", JOBS, Optional, ALWAYS, Kept;
        /// Write a checkpoint every N model versions; 0 for never
        checkpoint_steps: u32 = "0", JOBS, Optional, ALWAYS, Kept;
        /// Number of checkpoints to keep; 0 for all
        keep_checkpoint_max: u32 = "0", JOBS, Optional, ALWAYS, Kept;
    }
}
