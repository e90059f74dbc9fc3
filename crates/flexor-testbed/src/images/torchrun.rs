//! A Python that runs stock torchrun. torch itself is not in the image: the nodes mount it into every container.

use std::path::Path;

use flexor_image::{Image, ImageConfig};

use super::{TORCH_FOLDER, python_root};

const WORKING_DIR: &str = "/workspace";

/// What pip writes for it, but for the Python that torch finds in its container.
const TORCHRUN: &str = "#!/bin/sh\nexec python3 -m torch.distributed.run \"$@\"\n";

/// `PYTHONPATH` would not do: the environment of [`crate::Torch`] has `.pth` files, which only such a folder obeys.
const PACKAGES: &str = "/usr/local/lib/python3.11/dist-packages/torch.pth";

/// torch says at every start that it found no NumPy, which nothing here uses.
const WARNINGS: &str = "PYTHONWARNINGS=ignore:Failed to initialize NumPy:UserWarning";

/// The image with these files in its working directory.
pub(super) fn image(program_files: &[(&str, &str)]) -> anyhow::Result<Image> {
    let mut files = flexor_image::RootFiles::new();
    files.tree(&python_root::ensure_made()?, "/")?;
    files.file("/usr/local/bin/torchrun", TORCHRUN, 0o755)?;
    files.file(PACKAGES, format!("import site; site.addsitedir(\"{TORCH_FOLDER}\")\n"), 0o644)?;
    files.directory(WORKING_DIR, 0o755)?;
    for (path, text) in program_files {
        files.file(Path::new(WORKING_DIR).join(path), *text, 0o644)?;
    }
    let config = ImageConfig {
        cmd: vec!["python3".into()],
        env: vec!["PATH=/usr/local/bin:/usr/bin:/bin".into(), WARNINGS.into()],
        working_dir: WORKING_DIR.into(),
        ..ImageConfig::default()
    };
    Ok(Image { files, config })
}
