//! Lists the manifests of the repository, dialect by dialect.
//!
//! The list comes from the folders and the definitions. A new dialect is therefore tested without a change here.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::installed::in_repository;

/// One file.
pub struct ManifestFile {
    pub path: PathBuf,
    pub text: String,
}

impl ManifestFile {
    /// Its first line.
    pub fn headline(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// Its text as it can be applied in any namespace.
    pub fn without_namespace(&self) -> String {
        let anywhere: Vec<&str> = self.text.lines().filter(|line| !line.starts_with("  namespace: ")).collect();
        anywhere.join("\n")
    }

    fn is_of(&self, definition: &CustomResourceDefinition) -> bool {
        let has = |start: &str| self.text.lines().any(|line| line.starts_with(start));
        has(&format!("apiVersion: {}/", definition.spec.group))
            && self.text.lines().any(|line| line == format!("kind: {}", definition.spec.names.kind))
    }
}

/// The definitions of each dialect that has kinds.
pub fn definitions() -> BTreeMap<&'static str, Vec<CustomResourceDefinition>> {
    let mut by_dialect = BTreeMap::<_, Vec<_>>::new();
    for (dialect, definition) in flexor_dialects::crds() {
        by_dialect.entry(dialect).or_default().push(definition);
    }
    by_dialect
}

/// The names of the folders in a folder of the repository that hold manifests; for each dialect with kinds there must
/// be one.
pub fn dialects_below(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(in_repository(folder)).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir() && holds_manifests(&entry.path()));
    let mut names: Vec<String> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    for dialect in definitions().into_keys() {
        assert!(names.iter().any(|name| name == dialect), "{folder} has no folder {dialect}");
    }
    names
}

fn holds_manifests(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.any(|entry| entry.path().extension().is_some_and(|extension| extension == "yaml"))
}

/// The `.yaml` files in a folder of the repository, by name. There must be some.
pub fn manifests_in(folder: impl AsRef<Path>) -> Vec<ManifestFile> {
    let folder = folder.as_ref();
    let entries = fs::read_dir(in_repository(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort_unstable();
    assert!(!paths.is_empty(), "no manifests in {}", folder.display());
    paths.into_iter().map(|path| ManifestFile { text: fs::read_to_string(&path).unwrap(), path }).collect()
}

/// The `.yaml` files of every dialect below a folder of the repository.
pub fn manifests_below(folder: &str) -> Vec<ManifestFile> {
    let dialects = dialects_below(folder).into_iter();
    dialects.flat_map(|dialect| manifests_in(Path::new(folder).join(dialect))).collect()
}

/// The first example of a kind.
pub fn example_of(dialect: &str, definition: &CustomResourceDefinition) -> ManifestFile {
    let examples = manifests_in(Path::new("examples").join(dialect)).into_iter();
    let mut of_the_kind = examples.filter(|example| example.is_of(definition));
    of_the_kind.next().unwrap_or_else(|| panic!("no example of {} in {dialect}", definition.spec.names.kind))
}
