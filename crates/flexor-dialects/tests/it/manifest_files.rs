//! The manifests of the repository that tests read.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One file.
pub struct ManifestFile {
    /// Its path from the root of the repository.
    pub path: String,
    pub bytes: Vec<u8>,
}

impl ManifestFile {
    /// What its first line says, without the `# `.
    pub fn headline(&self) -> &str {
        let text = std::str::from_utf8(&self.bytes).unwrap_or_default();
        text.lines().next().unwrap_or_default().trim_start_matches("# ")
    }
}

/// The root of the repository. Asked for at run time: a shared target folder may hold a program that was compiled in
/// another checkout.
pub fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).join("../..")
}

/// All `.yaml` files below a folder of the repository, by name. There must be some.
pub fn below(folder: &str) -> Vec<ManifestFile> {
    let root = root();
    let mut paths = Vec::new();
    collect(&root.join(folder), &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no manifests below {folder}");
    paths
        .into_iter()
        .map(|path| ManifestFile {
            bytes: fs::read(&path).unwrap(),
            path: path.strip_prefix(&root).unwrap().display().to_string(),
        })
        .collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            paths.push(path);
        }
    }
}
