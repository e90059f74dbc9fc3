//! The user's package: a folder whose files travel in a ConfigMap.
//!
//! Keys of a ConfigMap cannot name folders, so each file has a key of its own, and the job's volume says at which path
//! the file is mounted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

/// The most bytes that Kubernetes takes in a ConfigMap.
const MOST_BYTES: u64 = 1 << 20;
/// The most files; a folder with more was not meant to be sent.
const MOST_FILES: usize = 1000;
/// Folders that are no part of a program.
const LEFT_OUT: [&str; 2] = [".git", "__pycache__"];
/// The longest key of a ConfigMap.
const LONGEST_KEY: usize = 253;

/// The files of a folder, by their paths in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    files: BTreeMap<String, File>,
}

#[derive(Debug, PartialEq, Eq)]
struct File {
    content: Vec<u8>,
    is_executable: bool,
}

impl Package {
    /// Reads a folder, or one file.
    ///
    /// # Errors
    ///
    /// Something in it cannot be read or sent, it is empty, or it is too large for a ConfigMap.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let mut files = Files { root: path, sizes: BTreeMap::new() };
        let shown = path.display();
        if fs::metadata(path).with_context(|| format!("the package {shown} cannot be read"))?.is_dir() {
            files.walk(path)?;
        } else {
            bail!("the package {shown} is no folder; name the folder that the program is in");
        }
        if files.sizes.is_empty() {
            bail!("the package {shown} has no files");
        }
        files.check_size()?;
        let read = |relative: String| {
            let file = path.join(&relative);
            let content = fs::read(&file).with_context(|| format!("{} cannot be read", file.display()))?;
            let is_executable = fs::metadata(&file)?.permissions().mode() & 0o100 != 0;
            Ok((relative, File { content, is_executable }))
        };
        let package = Self { files: files.sizes.into_keys().map(read).collect::<anyhow::Result<_>>()? };
        Ok(package)
    }

    /// The ConfigMap with all files.
    pub fn config_map(&self, name: &str, job: &str, namespace: Option<&str>) -> ConfigMap {
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some(name.to_owned());
        config_map.metadata.namespace = namespace.map(str::to_owned);
        config_map.metadata.labels = Some([(LABEL.to_owned(), job.to_owned())].into());
        for (key, (_, file)) in self.keyed() {
            match String::from_utf8(file.content.clone()) {
                Ok(text) => config_map.data.get_or_insert_default().insert(key, text),
                Err(error) => {
                    let bytes = ByteString(error.into_bytes());
                    config_map.binary_data.get_or_insert_default().insert(key, bytes);
                    None
                }
            };
        }
        config_map
    }

    /// The paths at which a volume mounts the keys.
    pub fn items(&self) -> Value {
        let item = |(key, (path, file)): (String, (&String, &File))| {
            let mut item = json!({ "key": key, "path": path });
            if file.is_executable {
                item["mode"] = 0o755.into();
            }
            item
        };
        self.keyed().map(item).collect()
    }

    /// The files with their keys: a number, so that no two are the same, and the path as far as a key can show it.
    fn keyed(&self) -> impl Iterator<Item = (String, (&String, &File))> {
        self.files.iter().enumerate().map(|(number, (path, file))| {
            let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
            let shown: String = path.chars().map(|letter| if is_allowed(letter) { letter } else { '_' }).collect();
            let key: String = format!("{number:03}-{shown}").chars().take(LONGEST_KEY).collect();
            (key, (path, file))
        })
    }
}

/// The label by which a job's package is known.
pub const LABEL: &str = "paddle-job-package";

/// The files of a folder before they are read.
struct Files<'a> {
    root: &'a Path,
    /// The sizes of files, by their paths in the folder.
    sizes: BTreeMap<String, u64>,
}

impl Files<'_> {
    fn walk(&mut self, folder: &Path) -> anyhow::Result<()> {
        let cannot_be_read = || format!("{} cannot be read", folder.display());
        for entry in fs::read_dir(folder).with_context(cannot_be_read)? {
            let entry = entry.with_context(cannot_be_read)?;
            let path = entry.path();
            let shown = path.display();
            let name = entry.file_name();
            let kind = entry.file_type().with_context(cannot_be_read)?;
            if kind.is_dir() {
                if !LEFT_OUT.iter().any(|left_out| name == *left_out) {
                    self.walk(&path)?;
                }
                continue;
            }
            // A link is followed to a file only: folders that contain each other would never end.
            let metadata = fs::metadata(&path).with_context(|| format!("{shown} cannot be read"))?;
            if !metadata.is_file() {
                bail!("{shown} is no file and no folder, or a link to a folder; a package holds files only");
            }
            let relative = path.strip_prefix(self.root)?.to_str();
            let relative = relative.ok_or_else(|| anyhow!("the name of {shown} is not UTF-8"))?;
            self.sizes.insert(relative.to_owned(), metadata.len());
            if self.sizes.len() > MOST_FILES {
                bail!("{}", self.too_large(&format!("more than {MOST_FILES} files")));
            }
        }
        Ok(())
    }

    fn check_size(&self) -> anyhow::Result<()> {
        let bytes: u64 = self.sizes.values().sum();
        if bytes > MOST_BYTES {
            bail!("{}", self.too_large(&format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)));
        }
        Ok(())
    }

    fn too_large(&self, size: &str) -> String {
        let largest = self.sizes.iter().max_by_key(|(_, size)| **size).map_or("", |(path, _)| path.as_str());
        format!(
            "the package {} has {size}, and a ConfigMap holds 1 MiB; its largest file is {largest}. Keep data on a volume, \
             or put the folder into an image and name its path there: -image IMAGE /PATH/IN/IMAGE",
            self.root.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn package(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn sub_folders_binary_files_and_modes_survive() {
        let folder = package(&[
            ("train.py", b"print(1)\n"),
            ("models/mlp v2.py", b"x"),
            ("models/a_b.bin", &[0xFF, 0]),
            (".git/config", b"left out"),
            ("__pycache__/train.pyc", b"left out"),
        ]);
        fs::set_permissions(folder.path().join("train.py"), fs::Permissions::from_mode(0o755)).unwrap();
        let package = Package::read(folder.path()).unwrap();
        assert_eq!(
            package.items(),
            json!([
                { "key": "000-models_a_b.bin", "path": "models/a_b.bin" },
                { "key": "001-models_mlp_v2.py", "path": "models/mlp v2.py" },
                { "key": "002-train.py", "path": "train.py", "mode": 0o755 },
            ])
        );
        let config_map = serde_json::to_value(package.config_map("mnist1-package", "mnist1", None)).unwrap();
        assert_eq!(
            config_map,
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": "mnist1-package", "labels": { "paddle-job-package": "mnist1" } },
                "data": { "001-models_mlp_v2.py": "x", "002-train.py": "print(1)\n" },
                "binaryData": { "000-models_a_b.bin": "/wA=" },
            })
        );
    }

    #[test]
    fn a_mebibyte_is_sent_and_a_byte_more_is_refused_with_advice() {
        let folder = package(&[("train.py", b"print(1)\n"), ("data/mnist", &vec![0; (1 << 20) - 9])]);
        Package::read(folder.path()).unwrap();
        fs::write(folder.path().join("more"), "x").unwrap();
        let message = Package::read(folder.path()).unwrap_err().to_string();
        assert!(message.contains("has 1.0 MiB") && message.contains("its largest file is data/mnist"), "{message}");
        assert!(message.ends_with("-image IMAGE /PATH/IN/IMAGE"), "{message}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |path: &Path| Package::read(path).unwrap_err().to_string();
        let folder = package(&[]);
        assert!(refused(folder.path()).ends_with("has no files"));
        assert!(refused(&folder.path().join("none")).ends_with("cannot be read"));
        let folder = package(&[("train.py", b"")]);
        assert!(refused(&folder.path().join("train.py")).contains("is no folder"));
        symlink(folder.path(), folder.path().join("loop")).unwrap();
        assert!(refused(folder.path()).contains("a link to a folder"));
        fs::remove_file(folder.path().join("loop")).unwrap();
        symlink("nowhere", folder.path().join("dangling")).unwrap();
        assert!(refused(folder.path()).ends_with("dangling cannot be read"));
    }
}
