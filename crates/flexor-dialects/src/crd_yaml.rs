//! Definitions as YAML, the way they are checked in and installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The definition as one YAML document, without the `---` in front.
pub fn crd_yaml(crd: &CustomResourceDefinition) -> String {
    serde_saphyr::to_string(crd).expect("a definition is plain data, which YAML can hold")
}
