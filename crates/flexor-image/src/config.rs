//! How the container of an image starts, and the image's labels.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Digest;

/// The part of an image beside its files. Empty fields are left out of the image.
#[derive(Debug, Clone, Default)]
pub struct ImageConfig {
    /// `UID:GID`. Kubernetes can check `runAsNonRoot` for numbers only.
    pub user: String,
    pub entrypoint: Vec<String>,
    /// Arguments for the entrypoint where a pod has none.
    pub cmd: Vec<String>,
    /// Each `NAME=VALUE`.
    pub env: Vec<String>,
    pub working_dir: String,
    pub labels: BTreeMap<String, String>,
}

/// Every image has the same age, or its digest would tell the time of day.
const CREATED: &str = "1970-01-01T00:00:00Z";

impl ImageConfig {
    /// The config document of an image with one layer, whose uncompressed tar has the digest `layer`.
    pub(crate) fn document(&self, layer: &Digest) -> Vec<u8> {
        let container = json!({
            "User": self.user,
            "Env": self.env,
            "Entrypoint": self.entrypoint,
            "Cmd": self.cmd,
            "WorkingDir": self.working_dir,
            "Labels": self.labels,
        });
        let document = json!({
            "created": CREATED,
            "architecture": architecture(),
            "os": "linux",
            "config": without_empty(container),
            "rootfs": { "type": "layers", "diff_ids": [layer] },
            "history": [{ "created": CREATED, "created_by": "flexor-image" }],
        });
        document.to_string().into_bytes()
    }
}

/// The machine's architecture in the words of Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn without_empty(container: Value) -> Value {
    let fields = container.as_object().into_iter().flatten();
    let filled = fields.filter(|(_, value)| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    });
    filled.map(|(field, value)| (field.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_not_set_are_not_written() {
        let config = ImageConfig { user: "65532:65532".to_owned(), ..ImageConfig::default() };
        let document: Value = serde_json::from_slice(&config.document(&Digest::of(b""))).unwrap();
        assert_eq!(document["config"], json!({ "User": "65532:65532" }));
        assert_eq!(document["rootfs"]["diff_ids"], json!([Digest::of(b"")]));
    }
}
