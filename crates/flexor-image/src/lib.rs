//! Container images without a daemon, for `cargo xtask image` and the tests that run containers.
//!
//! An [`Image`] is one layer ([`RootFiles`]) and a config ([`ImageConfig`]). It is written as an OCI layout, as an
//! archive that `docker load` and `ctr images import` read, or pushed to a registry. The same input gives the same
//! digest: entries are sorted, owners and times are zero, and no clock is read.
//!
//! [`flexor`] describes the image of Flexor itself. The crate does not compile programs and does not run containers.

mod config;
mod digest;
mod docker_archive;
mod error;
pub mod flexor;
mod image;
mod layer;
mod layout;
mod name;
mod program;
mod push;
mod root_files;

pub use self::{
    config::ImageConfig,
    digest::Digest,
    error::ImageError,
    image::{Image, Summary},
    name::ImageName,
    push::Credentials,
    root_files::RootFiles,
};
