//! What `cargo xtask image` prints at the end: the image's name, digest and size, and what to do with it.

use std::fmt;

use flexor_image::{ImageName, Summary};

use super::Form;

/// The lines at the end.
pub(super) struct Report<'a> {
    pub(super) name: &'a ImageName,
    pub(super) form: &'a Form,
    pub(super) summary: &'a Summary,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, summary, .. } = self;
        writeln!(f, "image       {name}")?;
        if let Some(digest) = &summary.manifest {
            writeln!(f, "digest      {digest}")?;
        }
        writeln!(f, "image id    {}", summary.image_id)?;
        writeln!(f, "compressed  {}", megabytes(summary.size))?;
        match self.form {
            Form::Archive(file) => {
                let file = file.display();
                writeln!(f, "written to  {file}\n\nLoad it with one of")?;
                writeln!(f, "  docker load --input {file}")?;
                writeln!(f, "  kind load image-archive {file}")?;
                writeln!(f, "  cargo xtask cluster load {file}")
            }
            Form::Layout(folder) => {
                let folder = folder.display();
                writeln!(f, "written to  {folder}\n\nCopy it into a registry with")?;
                writeln!(f, "  skopeo copy oci:{folder}:{} docker://REGISTRY/NAME:TAG", name.tag())
            }
            Form::Push => {
                writeln!(f, "pushed to   {}\n\ndeploy/README.md tells how to install with it.", name.registry())
            }
        }
    }
}

/// In units of 10^6 bytes, as registries and docker count.
fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use flexor_image::Digest;

    use super::*;

    #[test]
    fn digest_and_size_come_first_and_then_the_next_command() {
        let name: ImageName = "flexor:1".parse().unwrap();
        let summary = Summary { image_id: Digest::of(b"i"), manifest: Some(Digest::of(b"m")), size: 12_345_678 };
        let said = |form| Report { name: &name, form: &form, summary: &summary }.to_string();
        let archive = said(Form::Archive("a.tar".into()));
        let (digest, id) = (Digest::of(b"m"), Digest::of(b"i"));
        let start = format!(
            "image       flexor:1\ndigest      {digest}\nimage id    {id}\ncompressed  12.3 MB\nwritten to  a.tar\n"
        );
        assert!(archive.starts_with(&start), "{archive}");
        assert!(archive.contains("  docker load --input a.tar\n"), "{archive}");
        assert!(said(Form::Layout("dir".into())).contains("skopeo copy oci:dir:1 docker://"));
        assert!(said(Form::Push).contains("pushed to   docker.io\n"));
    }
}
