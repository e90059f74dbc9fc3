//! Images in each of their forms, read back by other code than ours.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod archive;
mod dockerfile;
mod fixture;
mod layout;
mod local;
mod own_image;
