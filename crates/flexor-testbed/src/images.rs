//! Container images for tests on real nodes: stock torchrun with a program, etcd, and Flexor's program under test.
//!
//! [`Cluster::add_image`](crate::Cluster::add_image) brings one to every real node, under the names of our manifests.
//! Nothing comes from a registry. What takes long to make is kept in the cache.
//!
//! torch is too large for an image. [`torch_packages`] is the folder that its containers need at [`TORCH_FOLDER`]:
//! [`ClusterConfig::with_node_mount`](crate::ClusterConfig::with_node_mount) puts it there in every container.

mod etcd;
mod python_root;
mod torchrun;

use std::path::{Path, PathBuf};

use flexor_image::Image;

use crate::Torch;

/// Where the containers of [`torch`] expect torch's packages.
pub const TORCH_FOLDER: &str = "/opt/torch";

/// The programs that our manifests name, by their paths below the working directory, for [`torch`].
///
/// The digits are at two paths, because some manifests are written for the root of the repository. `main.py` is a
/// stand-in for TorchElastic's imagenet example.
pub const PROGRAMS: [(&str, &str); 3] = [
    ("examples/torch-mnist/train.py", TORCH_MNIST),
    ("train.py", TORCH_MNIST),
    ("main.py", include_str!("../programs/imagenet.py")),
];

const TORCH_MNIST: &str = include_str!("../../../examples/torch-mnist/train.py");

/// Puts into the cache what takes long to make, so that no test's time includes it. Needs root.
pub fn prepare() -> anyhow::Result<()> {
    python_root::ensure_made()?;
    etcd::ensure_downloaded()?;
    Ok(())
}

/// Debian's Python 3.11 with `torchrun`, and with these texts as files below its working directory: in our manifests
/// `torch-mnist:latest` and `torch-imagenet:latest`.
pub fn torch(program_files: &[(&str, &str)]) -> anyhow::Result<Image> {
    torchrun::image(program_files)
}

/// The packages of torch for the containers of [`torch`]; `None` where this machine's Python is of another version.
pub fn torch_packages(torch: &Torch) -> Option<PathBuf> {
    torch.site_packages(python_root::PYTHON)
}

/// Debian's etcd: in our manifests `etcd:3.5`. It is a 3.4, which has the same options and v2 interface.
pub fn etcd() -> anyhow::Result<Image> {
    etcd::image()
}

/// All images that the manifests of the tutorials name, with this build of `flexor`.
pub fn of_tutorials(flexor_program: &Path) -> anyhow::Result<[(&'static str, Image); 4]> {
    let torch = torch(&PROGRAMS)?;
    Ok([
        ("flexor:latest", flexor(flexor_program)?),
        ("etcd:3.5", etcd()?),
        ("torch-mnist:latest", torch.clone()),
        ("torch-imagenet:latest", torch),
    ])
}

/// A build of `flexor` with the shared libraries that it names: in our manifests `flexor:latest`.
pub fn flexor(program: &Path) -> anyhow::Result<Image> {
    Ok(flexor_image::flexor::image(program, env!("CARGO_PKG_VERSION"), None)?)
}
