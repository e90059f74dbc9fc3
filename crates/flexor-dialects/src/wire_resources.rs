//! Resources as manifests write them: quantities that are texts or bare numbers.

use std::{borrow::Cow, collections::BTreeMap};

use flexor_model::{Quantity, QuantityError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What Kubernetes reads as a quantity and takes for a resource: nothing negative.
pub(crate) const QUANTITY_PATTERN: &str =
    r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$";

/// A quantity as it was written: `"500m"`, `2` or `0.5`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WireQuantity(pub Value);

/// Quantities by resource name.
pub type ResourceList = BTreeMap<String, WireQuantity>;

/// The `resources` of a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceRequirements {
    /// What it may not exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceList>,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceList>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl WireQuantity {
    /// The quantity it stands for.
    pub fn parse(&self) -> Result<Quantity, QuantityError> {
        match &self.0 {
            Value::String(text) => text.parse(),
            other => other.to_string().parse(),
        }
    }
}

impl<T: Into<String>> From<T> for WireQuantity {
    fn from(text: T) -> Self {
        Self(Value::String(text.into()))
    }
}

impl JsonSchema for WireQuantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // No type: Kubernetes takes whole numbers, fractions and texts. The pattern speaks about texts only, the
        // minimum about numbers.
        json_schema!({"x-kubernetes-preserve-unknown-fields": true, "pattern": QUANTITY_PATTERN, "minimum": 0})
    }
}

impl JsonSchema for ResourceRequirements {
    fn schema_name() -> Cow<'static, str> {
        "ResourceRequirements".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let list = ResourceList::json_schema(generator);
        json_schema!({
            "type": "object",
            "properties": {"limits": list, "requests": list},
            "x-kubernetes-preserve-unknown-fields": true,
        })
    }
}
