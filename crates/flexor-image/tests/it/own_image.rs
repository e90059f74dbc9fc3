//! The image of Flexor, made from this test's own program: what matters is around the program.

use std::fs::File;
use std::process::Command;

use flexor_image::{Image, flexor};
use serde_json::{Value, json};
use tar::Archive;

use crate::fixture::name;

fn image() -> Image {
    flexor::image(&std::env::current_exe().unwrap(), "1.2.3", Some("abc")).unwrap()
}

/// The config document of an archive, and the folder into which its layer was unpacked.
fn unpacked(image: &Image) -> (Value, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("flexor.tar");
    let summary = image.write_docker_archive(&archive, &name("flexor")).unwrap();
    Archive::new(File::open(&archive).unwrap()).unpack(folder.path()).unwrap();
    let config = File::open(folder.path().join(format!("{}.json", summary.image_id.hex()))).unwrap();
    let config = serde_json::from_reader(config).unwrap();
    let mut layer = Archive::new(File::open(folder.path().join("layer.tar")).unwrap());
    layer.set_preserve_permissions(true);
    layer.unpack(folder.path().join("root")).unwrap();
    (config, folder)
}

#[test]
fn it_runs_as_a_user_without_rights_and_says_what_it_is() {
    let (config, folder) = unpacked(&image());
    let expected = json!({
        "User": "65532:65532",
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
        "Entrypoint": ["/usr/local/bin/flexor"],
        "WorkingDir": "/",
        "Labels": {
            "org.opencontainers.image.description":
                "Elastic, fault-tolerant deep-learning training in one Rust binary",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.revision": "abc",
            "org.opencontainers.image.title": "flexor",
            "org.opencontainers.image.version": "1.2.3",
        },
    });
    assert_eq!(config["config"], expected);
    let temporary = std::fs::metadata(folder.path().join("root/tmp")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&temporary.permissions()) & 0o7777, 0o1777);
}

/// With a dynamic program this proves that its libraries are in the image.
#[test]
fn its_program_starts_with_nothing_but_the_image() {
    let (_, folder) = unpacked(&image());
    let started = Command::new("unshare")
        .args(["--user", "--map-root-user", "chroot"])
        .arg(folder.path().join("root"))
        .args([flexor::PROGRAM, "--list"])
        .output();
    let Ok(output) = started else {
        println!("skipped: needs unshare and chroot");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("unshare:") {
        println!("skipped: needs user namespaces: {}", said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("its_program_starts_with_nothing_but_the_image: test"));
}
