//! The dialects against manifests: those that users have, those that are wrong, and random ones.

#![expect(clippy::unwrap_used, reason = "whatever fails here fails a test")]

mod bad_manifests;
mod corpus;
mod definitions;
mod examples;
mod listings;
mod manifest_files;
mod random_bytes;
mod random_specs;
mod rendered_pods;
mod round_trip;
mod statuses;
mod tutorial_files;
mod warned_manifests;
