//! Stand-ins for the CUDA libraries that torch links with and never calls on a machine without a GPU.
//!
//! Each is an empty shared object with the right name. Python opens extension modules with immediate binding, which
//! requires every symbol. A `.pth` file, which Python runs at its start, switches to lazy binding, so functions that
//! are never called are never looked up. Only data must exist: one variable, with a symbol version.

use std::{ffi::OsStr, fs, path::Path, process::Command};

use crate::python::{PythonError, io, step};

/// The libraries of the CUDA build of the pinned torch, apart from the CUDA runtime, which is installed.
const EMPTY: &str = "libcusparse.so.12 libcufft.so.12 libcusparseLt.so.0 libnccl.so.2 libcublas.so.13 \
                     libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libcusolver.so.12 libcupti.so.13 libcufile.so.0";

const NVSHMEM: &str = "libnvshmem_host.so.3";
const NVSHMEM_SOURCE: &str = "char nvshmem_selected_device_transport[4096] = {1};\n";
const NVSHMEM_VERSIONS: &str = "NVSHMEM { global: nvshmem_selected_device_transport; };\n";

const LAZY_BINDING: &str = "import os, sys; sys.setdlopenflags(os.RTLD_LAZY)\n";

/// All inputs of the stand-ins.
pub(super) const TEXTS: &[&str] = &[EMPTY, NVSHMEM, NVSHMEM_SOURCE, NVSHMEM_VERSIONS, LAZY_BINDING];

/// Makes the stand-ins beside the CUDA runtime, with the C compiler in `search_path`.
pub(super) fn make(site_packages: &Path, search_path: &OsStr) -> Result<(), PythonError> {
    let folder = site_packages.join("nvidia/cu13/lib");
    for name in EMPTY.split_whitespace() {
        compile(&folder, search_path, name, &["-x", "c", "/dev/null"])?;
    }
    let (source, versions) = (folder.join("nvshmem.c"), folder.join("nvshmem.map"));
    write(&source, NVSHMEM_SOURCE)?;
    write(&versions, NVSHMEM_VERSIONS)?;
    compile(&folder, search_path, NVSHMEM, &["-Wl,--version-script=nvshmem.map", "nvshmem.c"])?;
    write(&site_packages.join("lazy_binding.pth"), LAZY_BINDING)
}

fn compile(folder: &Path, search_path: &OsStr, name: &str, input: &[&str]) -> Result<(), PythonError> {
    let mut cc = Command::new("cc");
    cc.current_dir(folder).env("PATH", search_path);
    cc.args(["-shared", "-fPIC", "-nostdlib", &format!("-Wl,-soname,{name}"), "-o", name]).args(input);
    step(&format!("compiling a stand-in for {name}"), "is there a C compiler called cc in PATH?", &mut cc)
}

fn write(path: &Path, text: &str) -> Result<(), PythonError> {
    fs::write(path, text).map_err(io("write", path))
}
