//! `spec.flexor`: the one place for options of ours in foreign kinds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of Flexor. There are none yet; the object is there so that a manifest with an empty one is accepted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlexorOptions {}
