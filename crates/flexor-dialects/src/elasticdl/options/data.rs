//! What a job reads, in which portions, and where it leaves its result.

use std::num::NonZeroU32;

use super::{JOBS, TRAIN};
use crate::elasticdl::{
    command::CommandName::{Evaluate, Predict, Train},
    option::{
        ALWAYS,
        Fate::Kept,
        Presence::{Optional, Required, RequiredIn},
    },
    option_group::option_group,
    params::Params,
};

option_group! {
    /// Data in and out.
    pub struct DataOptions {
        /// RecordIO folder, CSV file or table to train on
        training_data: String = "", TRAIN, Optional, ALWAYS, Kept;
        /// RecordIO folder, CSV file or table to evaluate on
        validation_data: String = "", &[Train, Evaluate], RequiredIn(&[Evaluate]), ALWAYS, Kept;
        /// RecordIO folder, CSV file or table to predict
        prediction_data: String = "", &[Predict], Required, ALWAYS, Kept;
        /// Keyword arguments for the data reader
        data_reader_params: Params = "", JOBS, Optional, ALWAYS, Kept;
        /// Records in a batch of one worker
        minibatch_size: NonZeroU32 = "64", JOBS, Optional, ALWAYS, Kept;
        /// Batches in the portion that a worker is given at a time
        num_minibatches_per_task: NonZeroU32 = "8", JOBS, Optional, ALWAYS, Kept;
        /// How often the training data is gone through; 0 for without end
        num_epochs: u32 = "1", TRAIN, Optional, ALWAYS, Kept;
        /// Folder that the trained model is exported to
        output: String = "", JOBS, Optional, ALWAYS, Kept;
        /// Checkpoint that the parameters start from
        checkpoint_dir_for_init: String = "", JOBS, RequiredIn(&[Evaluate, Predict]), ALWAYS, Kept;
        /// Folder for checkpoints
        checkpoint_dir: String = "", JOBS, Optional, ALWAYS, Kept;
        /// A checkpoint is written every so many versions of the model; 0 for never
        checkpoint_steps: u32 = "0", JOBS, Optional, ALWAYS, Kept;
        /// How many checkpoints are kept; 0 for all
        keep_checkpoint_max: u32 = "0", JOBS, Optional, ALWAYS, Kept;
    }
}
