//! The Dockerfile at the root makes the image that [`flexor_image::flexor`] describes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use flexor_image::flexor;

fn read(file: &str) -> String {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    fs::read_to_string(package.join("../..").join(file)).unwrap()
}

/// The instructions of the last stage, `NAME` and the rest, with continued lines joined.
fn last_stage(dockerfile: &str) -> Vec<(String, String)> {
    let joined = dockerfile.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let instructions: Vec<(String, String)> = lines
        .map(|line| {
            let (name, rest) = line.split_once(' ').unwrap();
            (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect();
    let start = instructions.iter().rposition(|(name, _)| name == "FROM").unwrap();
    instructions[start..].to_vec()
}

/// The labels in `name="value" name="value"`.
fn labels(text: &str) -> BTreeMap<String, String> {
    let parts = text.split("\" ").map(|part| part.trim_end_matches('"').split_once("=\"").unwrap());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn user_program_variables_and_labels_are_the_same() {
    let stage = last_stage(&read("Dockerfile"));
    let of = |name: &str| {
        let found: Vec<&str> = stage.iter().filter(|(other, _)| other == name).map(|(_, rest)| rest.as_str()).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0].to_owned()
    };
    let program = std::env::current_exe().unwrap();
    let config = flexor::image(&program, env!("CARGO_PKG_VERSION"), Some("${REVISION}")).unwrap().config;
    assert_eq!(of("FROM"), "scratch");
    assert_eq!(of("USER"), config.user);
    assert_eq!(of("WORKDIR"), config.working_dir);
    assert_eq!(vec![of("ENV")], config.env);
    assert_eq!(serde_json::from_str::<Vec<String>>(&of("ENTRYPOINT")).unwrap(), config.entrypoint);
    assert_eq!(labels(&of("LABEL")), config.labels);
}

#[test]
fn the_build_has_the_toolchain_of_the_checkout() {
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    let image = format!("ARG RUST_IMAGE=docker.io/library/rust:{channel}-");
    assert!(read("Dockerfile").contains(&image), "{image}");
}
