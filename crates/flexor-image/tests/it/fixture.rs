//! A small image with every kind of entry, and readers of what was written.

use std::collections::BTreeMap;
use std::io::Read;

use flexor_image::{Image, ImageConfig, ImageName, RootFiles};
use tar::Archive;

/// Directories, files, a link and a mode that is not usual.
pub fn image() -> Image {
    let mut files = RootFiles::new();
    files.file("/usr/bin/greet", "#!/bin/sh\necho hello\n", 0o755).unwrap();
    files.symlink("/bin", "usr/bin").unwrap();
    files.directory("/tmp", 0o1777).unwrap();
    files.file("/etc/motd", "welcome\n", 0o640).unwrap();
    let config = ImageConfig {
        user: "65532:65532".to_owned(),
        entrypoint: vec!["/usr/bin/greet".to_owned()],
        env: vec!["PATH=/usr/bin".to_owned()],
        labels: BTreeMap::from([("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())]),
        ..ImageConfig::default()
    };
    Image { files, config }
}

pub fn name(text: &str) -> ImageName {
    text.parse().unwrap()
}

/// The lines `MODE OWNER PATH [-> TARGET] [= BYTES]` of a tar, in its order.
pub fn listed(tar: impl Read) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in Archive::new(tar).entries().unwrap() {
        let mut entry = entry.unwrap();
        let header = entry.header().clone();
        assert_eq!(header.mtime().unwrap(), 0, "a time would change the digest");
        let mut line = format!("{:o} {} {}", header.mode().unwrap(), header.uid().unwrap(), path_of(&entry));
        if let Some(target) = header.link_name().unwrap() {
            line.push_str(&format!(" -> {}", target.display()));
        }
        if header.size().unwrap() > 0 {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            line.push_str(&format!(" = {} bytes", bytes.len()));
        }
        lines.push(line);
    }
    lines
}

fn path_of<R: Read>(entry: &tar::Entry<'_, R>) -> String {
    String::from_utf8(entry.path_bytes().into_owned()).unwrap()
}

/// The lines of [`image`]'s layer.
pub const LAYER: [&str; 7] = [
    "777 0 bin -> usr/bin",
    "755 0 etc/",
    "640 0 etc/motd = 8 bytes",
    "1777 0 tmp/",
    "755 0 usr/",
    "755 0 usr/bin/",
    "755 0 usr/bin/greet = 21 bytes",
];
