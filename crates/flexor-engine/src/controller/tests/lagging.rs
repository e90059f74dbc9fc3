//! The same stories in a world that lags.

mod world {
    pub(super) use super::super::any_world::name;

    pub(super) type World = super::super::any_world::World<true>;
}

#[expect(clippy::duplicate_mod, reason = "the stories are told twice, in two worlds")]
#[path = "crashes.rs"]
mod crashes;
#[expect(clippy::duplicate_mod, reason = "the stories are told twice, in two worlds")]
#[path = "losses.rs"]
mod losses;
#[expect(clippy::duplicate_mod, reason = "the stories are told twice, in two worlds")]
#[path = "migrations.rs"]
mod migrations;
#[expect(clippy::duplicate_mod, reason = "the stories are told twice, in two worlds")]
#[path = "plans.rs"]
mod plans;
#[expect(clippy::duplicate_mod, reason = "the stories are told twice, in two worlds")]
#[path = "refusals.rs"]
mod refusals;
#[expect(clippy::duplicate_mod, reason = "the stories are told twice, in two worlds")]
#[path = "stories.rs"]
mod stories;
