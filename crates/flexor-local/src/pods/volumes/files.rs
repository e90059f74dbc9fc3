//! Volumes of files: ConfigMaps, Secrets, the pod's own fields (`downwardAPI`), and `projected` ones of several of these.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::super::environment::ValueSources;
use super::super::plan::FilePlan;
use super::{VolumeError, is_inside, list, text};
use crate::objects::ObjectKind;

/// Readable for all, as far as the state directory lets them.
const USUAL_MODE: u32 = 0o644;
/// A machine may have other users, so only the owner may read a secret.
const SECRET_MODE: u32 = 0o600;

pub(super) struct Origin<'a> {
    pub(super) volume: &'a str,
    pub(super) spec: &'a Value,
    pub(super) sources: &'a dyn ValueSources,
}

impl Origin<'_> {
    pub(super) fn files(&self, kind: &str, source: &Value) -> Result<Vec<FilePlan>, VolumeError> {
        let mode = mode(&source["defaultMode"]);
        let usual = mode.unwrap_or(if kind == "secret" { SECRET_MODE } else { USUAL_MODE });
        match kind {
            "configMap" => self.of_object(ObjectKind::ConfigMap, text(&source["name"]), source, usual),
            "secret" => {
                // A source of a projected volume calls this field `name`.
                let name = source["secretName"].as_str().or(source["name"].as_str()).unwrap_or_default();
                self.of_object(ObjectKind::Secret, name, source, usual)
            }
            "downwardAPI" => self.of_fields(source, usual),
            _ => {
                let mut all: BTreeMap<_, FilePlan> = BTreeMap::new();
                for part in list(&source["sources"]) {
                    for (kind, source) in part.as_object().into_iter().flatten() {
                        let mut source = source.clone();
                        // The projected volume's mode holds for all sources.
                        source["defaultMode"] = mode.map_or(Value::Null, Value::from);
                        all.extend(self.files(kind, &source)?.into_iter().map(|file| (file.path.clone(), file)));
                    }
                }
                Ok(all.into_values().collect())
            }
        }
    }

    fn of_object(
        &self,
        kind: ObjectKind,
        name: &str,
        source: &Value,
        usual: u32,
    ) -> Result<Vec<FilePlan>, VolumeError> {
        let optional = source["optional"] == true;
        let Some(data) = self.sources.data(kind, name) else {
            let what = format!("the {} {name}", kind.as_str());
            return if optional { Ok(Vec::new()) } else { Err(self.missing(what)) };
        };
        let items = list(&source["items"]);
        if items.is_empty() {
            return Ok(data.iter().map(|(key, bytes)| file(key, usual, bytes)).collect());
        }
        let mut files = Vec::new();
        for item in items {
            let key = text(&item["key"]);
            match data.get(key) {
                Some(bytes) => files.push(file(text(&item["path"]), mode(&item["mode"]).unwrap_or(usual), bytes)),
                None if optional => {}
                None => return Err(self.missing(format!("key {key} of the {} {name}", kind.as_str()))),
            }
        }
        Ok(files)
    }

    fn of_fields(&self, source: &Value, usual: u32) -> Result<Vec<FilePlan>, VolumeError> {
        let mut files = Vec::new();
        for item in list(&source["items"]) {
            let value = match item["fieldRef"]["fieldPath"].as_str() {
                Some(field) => self.sources.pod_field(field).ok_or_else(|| format!("the field {field}")),
                None => {
                    let reference = &item["resourceFieldRef"];
                    let (container, resource) = (text(&reference["containerName"]), text(&reference["resource"]));
                    let mut containers = list(&self.spec["containers"]).iter();
                    let value = containers
                        .find(|known| known["name"] == *container)
                        .and_then(|known| self.sources.resource_field(known, resource));
                    value.ok_or_else(|| format!("the resource {resource} of container {container}"))
                }
            };
            let value = value.map_err(|what| {
                let problem = format!("refers to {what}, which does not exist");
                VolumeError::Impossible { volume: self.volume.to_owned(), problem }
            })?;
            files.push(file(text(&item["path"]), mode(&item["mode"]).unwrap_or(usual), value.as_bytes()));
        }
        Ok(files)
    }

    fn missing(&self, what: String) -> VolumeError {
        VolumeError::Missing { volume: self.volume.to_owned(), what }
    }
}

/// Checks a volume of files as far as that does not depend on objects.
pub(super) fn check(volume: &str, kind: &str, source: &Value) -> Result<(), VolumeError> {
    let impossible = |problem: String| VolumeError::Impossible { volume: volume.to_owned(), problem };
    if let Some(item) =
        list(&source["items"]).iter().find(|item| !is_inside(text(&item["path"])) || text(&item["path"]).is_empty())
    {
        return Err(impossible(format!("items: path {} must lead into the volume", text(&item["path"]))));
    }
    if kind != "projected" {
        return Ok(());
    }
    for (kind, source) in list(&source["sources"]).iter().filter_map(Value::as_object).flatten() {
        if !matches!(kind.as_str(), "configMap" | "secret" | "downwardAPI") {
            let problem = format!("a source {kind} is not supported here; leave it out, or write configMap or secret");
            return Err(impossible(problem));
        }
        check(volume, kind, source)?;
    }
    Ok(())
}

fn mode(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|mode| u32::try_from(mode & 0o777).ok())
}

fn file(path: &str, mode: u32, bytes: &[u8]) -> FilePlan {
    FilePlan { path: path.into(), mode, content: BASE64_STANDARD.encode(bytes) }
}
