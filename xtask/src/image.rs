//! `cargo xtask image`: the container image of Flexor, made without a daemon.
//!
//! [`build`] compiles a static `flexor`, `flexor_image` packs it, [`report`] says what came out. The Dockerfile at the
//! root makes the same image for people who have a builder.

pub(crate) mod build;
mod report;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use flexor_image::{Credentials, Image, ImageName, Summary};

use self::report::Report;
use crate::tree::project_root;

/// The name that the overlays of `deploy/` use until another one is set there.
const DEFAULT_NAME: &str = "flexor:latest";
/// Below the root of the checkout.
const DEFAULT_ARCHIVE: &str = "target/image/flexor.tar";

/// Arguments of `cargo xtask image`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask image                                     an archive: target/image/flexor.tar
  docker load --input target/image/flexor.tar           ... for docker; likewise podman
  kind load image-archive target/image/flexor.tar       ... for a cluster of kind
  cargo xtask cluster load target/image/flexor.tar      ... for one of `cargo xtask cluster`

  cargo xtask image --tag registry.example/flexor:1 --push
                                                        into a registry, as you are logged in there
                                                        with docker or podman
  cargo xtask image --layout flexor-image               an OCI layout, for skopeo and the like
  cargo xtask image --program target/debug/flexor       a program that is built already: seconds

No daemon and no root are needed. The image holds one static program, an empty /tmp and nothing
else, and runs as user 65532. The same program makes the same digest, whenever and wherever.
deploy/README.md tells how to install with the image.")]
pub(crate) struct ImageArgs {
    /// Name of the image [default: flexor:latest]
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<ImageName>,

    /// Write an archive, as `docker save` does [default: target/image/flexor.tar]
    #[arg(long, value_name = "FILE", group = "form")]
    archive: Option<PathBuf>,

    /// Write an OCI layout into a folder, in place of an earlier layout
    #[arg(long, value_name = "DIR", group = "form")]
    layout: Option<PathBuf>,

    /// Push to the registry that the name begins with: HTTPS, or HTTP where it is on this machine
    #[arg(long, group = "form", requires = "tag")]
    push: bool,

    /// Pack this build of flexor instead of building one; its shared libraries are packed too
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// How the image leaves.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Archive(PathBuf),
    Layout(PathBuf),
    Push,
}

pub(crate) fn run(args: ImageArgs) -> Result<()> {
    let root = project_root()?;
    let form = args.form(&root)?;
    let name = args.name()?;
    // A login that cannot be read is found before the build, which takes minutes.
    let credentials = match form {
        Form::Push => Credentials::of_docker_login(&name)?,
        Form::Archive(_) | Form::Layout(_) => Credentials::None,
    };
    let image = match &args.program {
        Some(program) => pack(program, None)?,
        None => pack(&build::static_flexor(&root)?, build::revision(&root).as_deref())?,
    };
    let summary = write(&image, &name, &form, &credentials)?;
    print!("{}", Report { name: &name, form: &form, summary: &summary });
    Ok(())
}

impl ImageArgs {
    fn form(&self, root: &Path) -> Result<Form> {
        if self.push {
            return Ok(Form::Push);
        }
        if let Some(folder) = &self.layout {
            return Ok(Form::Layout(folder.clone()));
        }
        if let Some(file) = &self.archive {
            return Ok(Form::Archive(file.clone()));
        }
        let file = root.join(DEFAULT_ARCHIVE);
        let folder = file.parent().context("the archive is in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Form::Archive(file))
    }

    fn name(&self) -> Result<ImageName> {
        Ok(self.tag.clone().map_or_else(|| DEFAULT_NAME.parse(), Ok)?)
    }
}

fn pack(program: &Path, revision: Option<&str>) -> Result<Image> {
    Ok(flexor_image::flexor::image(program, env!("CARGO_PKG_VERSION"), revision)?)
}

/// Writes the image. The summary has the digest and the compressed size in every form.
fn write(image: &Image, name: &ImageName, form: &Form, credentials: &Credentials) -> Result<Summary> {
    match form {
        Form::Layout(folder) => Ok(image.write_layout(folder, name)?),
        Form::Archive(file) => {
            image.write_docker_archive(file, name)?;
            // An archive has neither, so a layout that nobody keeps is measured.
            let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
            Ok(image.write_layout(folder.path(), name)?)
        }
        Form::Push => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(image.push(name, credentials))?)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ImageArgs,
    }

    fn parse(line: &str) -> Result<ImageArgs, clap::Error> {
        Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.args)
    }

    #[test]
    fn without_options_it_is_an_archive_with_the_name_that_the_overlays_use() {
        let root = tempfile::tempdir().unwrap();
        let args = parse("image").unwrap();
        assert_eq!(args.form(root.path()).unwrap(), Form::Archive(root.path().join("target/image/flexor.tar")));
        assert!(root.path().join("target/image").is_dir());
        assert_eq!(args.name().unwrap().as_str(), "flexor:latest");
    }

    #[test]
    fn an_image_has_one_form() {
        let refused = parse("image --archive a.tar --layout b").err().unwrap().to_string();
        assert!(refused.contains("cannot be used with"), "{refused}");
        let nameless = parse("image --push").err().unwrap().to_string();
        assert!(nameless.contains("--tag"), "a push without a registry in the name leads nowhere: {nameless}");
    }

    #[test]
    fn a_bad_name_is_refused_before_the_build() {
        let refused = parse("image --tag Flexor:1").err().unwrap().to_string();
        assert!(refused.contains("write REGISTRY/NAME:TAG"), "{refused}");
    }

    #[test]
    fn the_same_program_gives_the_same_digest_in_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let name: ImageName = "flexor:1".parse().unwrap();
        let forms = [Form::Archive(folder.path().join("a.tar")), Form::Layout(folder.path().join("layout"))];
        let summaries = forms.map(|form| {
            let image = pack(&std::env::current_exe().unwrap(), None).unwrap();
            write(&image, &name, &form, &Credentials::None).unwrap()
        });
        assert_eq!(summaries[0], summaries[1]);
        assert!(summaries[0].manifest.is_some());
    }
}
