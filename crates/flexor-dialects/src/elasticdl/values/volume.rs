//! Volume strings: `mount_path=/data,claim_name=fileserver-claim;host_path=/tmp,mount_path=/tmp`.
//!
//! One string is applied to the pods of every role.

use flexor_model::ObjectName;

use super::value::{OptionValue, Refusal, Remark};
use crate::{finding::quoted, suggest::instead};

/// Everything that `--volume` asks for, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Volumes(pub Vec<VolumeMount>);

/// One thing mounted into every pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeMount {
    /// What is mounted.
    pub source: VolumeSource,
    /// Where it is mounted; no two mounts have the same.
    pub mount_path: String,
    /// The part of the volume that is mounted; none for all of it.
    pub sub_path: Option<String>,
}

/// What is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A persistent volume claim, writable.
    Claim(ObjectName),
    /// A folder or file of the node.
    HostPath {
        /// Where it is on the node.
        path: String,
        /// What must be there, in Kubernetes' words; none checks nothing.
        kind: Option<String>,
    },
}

const EXAMPLE: &str = "mount_path=/data,claim_name=my-claim";
const KEYS: [&str; 5] = ["claim_name", "host_path", "type", "mount_path", "sub_path"];
const HOST_PATH_TYPES: [&str; 7] =
    ["DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

impl OptionValue for Volumes {
    const EXPECTS: &'static str = "mount_path=PATH,(claim_name=NAME|host_path=PATH[,type=TYPE])[,sub_path=PATH][;…]";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        let mut mounts: Vec<VolumeMount> = Vec::new();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let Some(mount) = Fields::read(entry)?.mount(entry)? else {
                let shown = quoted(entry);
                remarks.push(Remark::unused(format!("{shown} has neither claim_name nor host_path, ignored")));
                continue;
            };
            if mounts.iter().any(|other| other.mount_path == mount.mount_path) {
                return Err(Refusal::invalid(
                    format!("two volumes are mounted at {}", quoted(&mount.mount_path)),
                    "each volume must have its own mount_path",
                ));
            }
            mounts.push(mount);
        }
        Ok(Self(mounts))
    }

    fn write(&self) -> String {
        self.0.iter().map(VolumeMount::write).collect::<Vec<_>>().join(";")
    }
}

impl VolumeMount {
    fn write(&self) -> String {
        let mut text = format!("mount_path={}", self.mount_path);
        let mut field = |key: &str, value: &str| text.push_str(&format!(",{key}={value}"));
        match &self.source {
            VolumeSource::Claim(name) => field("claim_name", name.as_str()),
            VolumeSource::HostPath { path, kind } => {
                field("host_path", path);
                kind.iter().for_each(|kind| field("type", kind));
            }
        }
        self.sub_path.iter().for_each(|path| field("sub_path", path));
        text
    }
}

/// The fields of one entry, each as it was written.
#[derive(Default)]
struct Fields<'a> {
    claim_name: Option<&'a str>,
    host_path: Option<&'a str>,
    kind: Option<&'a str>,
    mount_path: Option<&'a str>,
    sub_path: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn read(entry: &'a str) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        for item in entry.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) =
                item.split_once('=').map(|(key, value)| (key.trim(), value.trim())).unwrap_or((item, ""));
            let place = match key {
                "claim_name" => &mut fields.claim_name,
                "host_path" => &mut fields.host_path,
                "type" => &mut fields.kind,
                "mount_path" => &mut fields.mount_path,
                "sub_path" => &mut fields.sub_path,
                _ => return Err(unknown_key(key)),
            };
            if value.is_empty() {
                return Err(Refusal::invalid(format!("`{key}` has no value"), format!("expected {EXAMPLE}")));
            }
            if place.replace(value).is_some() {
                return Err(Refusal::invalid(
                    format!("`{key}` is given twice in {}", quoted(entry)),
                    "separate volumes with `;` and fields with `,`",
                ));
            }
        }
        Ok(fields)
    }

    /// None where the entry names nothing that could be mounted.
    fn mount(self, entry: &str) -> Result<Option<VolumeMount>, Refusal> {
        let source = match (self.claim_name, self.host_path) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Refusal::invalid(
                    format!("{} has both claim_name and host_path", quoted(entry)),
                    "write two volumes, separated by `;`",
                ));
            }
            (Some(name), None) => VolumeSource::Claim(claim(name, self.kind)?),
            (None, Some(path)) => VolumeSource::HostPath { path: host_path(path)?, kind: host_path_type(self.kind)? },
        };
        let mount_path = self.mount_path.ok_or_else(|| {
            Refusal::invalid(format!("{} has no mount_path", quoted(entry)), format!("expected {EXAMPLE}"))
        })?;
        if mount_path.contains(':') {
            return Err(Refusal::invalid(
                format!("mount_path {} contains `:`", quoted(mount_path)),
                "Kubernetes does not allow `:` in a mount path",
            ));
        }
        let sub_path = self.sub_path.map(sub_path).transpose()?;
        Ok(Some(VolumeMount { source, mount_path: mount_path.to_owned(), sub_path }))
    }
}

fn unknown_key(key: &str) -> Refusal {
    Refusal::invalid(format!("unknown volume field {}", quoted(key)), instead(key, KEYS))
}

fn claim(name: &str, kind: Option<&str>) -> Result<ObjectName, Refusal> {
    if kind.is_some() {
        return Err(Refusal::invalid(
            "`type` cannot be used with claim_name",
            "only a host_path has a type; remove it",
        ));
    }
    name.parse().map_err(|_| {
        Refusal::invalid(
            format!("claim_name {} is not a valid name", quoted(name)),
            "must consist of lower-case letters, digits, `-` and `.`",
        )
    })
}

fn host_path(path: &str) -> Result<String, Refusal> {
    if path.split('/').any(|part| part == "..") {
        return Err(Refusal::invalid(
            format!("host_path {} contains `..`", quoted(path)),
            "write the path without `..`",
        ));
    }
    Ok(path.to_owned())
}

fn host_path_type(kind: Option<&str>) -> Result<Option<String>, Refusal> {
    match kind {
        Some(kind) if !HOST_PATH_TYPES.contains(&kind) => {
            Err(Refusal::invalid(format!("unknown host_path type {}", quoted(kind)), instead(kind, HOST_PATH_TYPES)))
        }
        other => Ok(other.map(str::to_owned)),
    }
}

fn sub_path(path: &str) -> Result<String, Refusal> {
    if path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(Refusal::invalid(
            format!("sub_path {} leaves the volume", quoted(path)),
            "must be a relative path without `..`",
        ));
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Volumes, Refusal> {
        Volumes::read(text, &mut Vec::new())
    }

    #[test]
    fn claims_and_host_paths_are_understood() {
        let volumes =
            read("mount_path=/data , claim_name=c1,sub_path=a/b; host_path=/x,mount_path=/y,type=Directory;").unwrap();
        assert_eq!(
            volumes.0,
            [
                VolumeMount {
                    source: VolumeSource::Claim("c1".parse().unwrap()),
                    mount_path: "/data".into(),
                    sub_path: Some("a/b".into()),
                },
                VolumeMount {
                    source: VolumeSource::HostPath { path: "/x".into(), kind: Some("Directory".into()) },
                    mount_path: "/y".into(),
                    sub_path: None,
                },
            ]
        );
    }

    #[test]
    fn an_entry_that_mounts_nothing_is_left_out_and_said_so() {
        let mut remarks = Vec::new();
        assert_eq!(Volumes::read("mount_path=/data", &mut remarks), Ok(Volumes::default()));
        assert!(remarks[0].message.contains("neither claim_name nor host_path"));
    }

    #[test]
    fn a_wrong_volume_is_refused_with_what_to_write() {
        for (text, said) in [
            ("claim_name=c1", "has no mount_path"),
            ("claim_name=c1,claim_name=c2,mount_path=/a", "given twice"),
            ("claim=c1,mount_path=/a", "expected one of claim_name"),
            ("claimname=c1,mount_path=/a", "did you mean `claim_name`"),
            ("claim_name,mount_path=/a", "has no value"),
            ("claim_name=c1,host_path=/x,mount_path=/a", "two volumes"),
            ("claim_name=c1,type=File,mount_path=/a", "only a host_path"),
            ("claim_name=C_1,mount_path=/a", "not a valid name"),
            ("host_path=/x,type=Folder,mount_path=/a", "expected one of DirectoryOrCreate"),
            ("host_path=/x/../y,mount_path=/a", "`..`"),
            ("claim_name=c,mount_path=/a,sub_path=/x", "relative path"),
            ("claim_name=c,mount_path=/a:b", "`:`"),
            ("claim_name=c,mount_path=/a;claim_name=d,mount_path=/a", "own mount_path"),
        ] {
            let refusal = read(text).unwrap_err();
            assert!(format!("{} {}", refusal.message, refusal.help).contains(said), "{text}: {refusal:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic_and_what_is_accepted_is_printed_back(
            text in "((claim_name|host_path|mount_path|sub_path|type)=[a-z/F]{1,4}[,;]){0,6}|.{0,40}",
        ) {
            if let Ok(volumes) = read(&text) {
                prop_assert_eq!(read(&volumes.write()), Ok(volumes));
            }
        }
    }
}
