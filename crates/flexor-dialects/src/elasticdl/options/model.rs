//! What the model is, and what its parts are called in its module.

use super::{
    JOBS, TRAIN,
    group::option_group,
    spec::{
        ALWAYS,
        Fate::Kept,
        Presence::{Optional, UnlessJobCommand},
        RC2, SINCE_HEAD,
    },
};
use crate::elasticdl::{command_line::CommandName, values::Params};

option_group! {
    /// The model and the names in its module.
    pub struct ModelOptions {
        /// Directory of the model files, as a path inside the image
        model_zoo: String = "", JOBS, UnlessJobCommand, ALWAYS, Kept;
        /// Dotted path of the model in the zoo: package.module.symbol
        model_def: String = "", JOBS, UnlessJobCommand, ALWAYS, Kept;
        /// Keyword arguments for the model
        model_params: Params = "", JOBS, Optional, RC2, Kept;
        /// Name of the function that turns records into batches
        dataset_fn: String = "dataset_fn", JOBS, Optional, RC2, Kept;
        /// Name of the function that turns records into batches, in later releases
        feed: String = "feed", JOBS, Optional, SINCE_HEAD, Kept;
        /// Name of the loss function
        loss: String = "loss", JOBS, Optional, ALWAYS, Kept;
        /// Name of the function that creates the optimizer
        optimizer: String = "optimizer", JOBS, Optional, ALWAYS, Kept;
        /// Name of the function that returns the evaluation metrics
        eval_metrics_fn: String = "eval_metrics_fn", JOBS, Optional, ALWAYS, Kept;
        /// Name of the function that returns the callbacks
        callbacks: String = "callbacks", JOBS, Optional, ALWAYS, Kept;
        /// Name of the function that creates a data reader
        custom_data_reader: String = "custom_data_reader", JOBS, Optional, ALWAYS, Kept;
        /// Name of the class that processes predictions
        prediction_outputs_processor: String =
            "PredictionOutputsProcessor", &[CommandName::Predict], Optional, ALWAYS, Kept;
        /// Command that the workers run instead of ElasticDL's training loop
        job_command: String = "", TRAIN, Optional, SINCE_HEAD, Kept;
    }
}
