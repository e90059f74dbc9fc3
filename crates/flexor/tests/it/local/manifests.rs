//! Manifests that several tests start from.

/// A job without a fault.
pub const GOOD: &str = "\
apiVersion: elastic.pytorch.org/v1alpha1
kind: ElasticJob
metadata: {name: a}
spec:
  replicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: main, image: x}]}}
";

/// The same with an unknown field.
pub fn bad() -> String {
    GOOD.replace("replicas", "replica")
}

/// A file with a warning and no error.
pub const WARNED: &str = "testdata/warned/dlrover/rdzv-backend-of-a-patched-image.yaml";
