//! Stories about the controller; the name of each is its claim. They are told twice: in a world that shows everything
//! at once, and in one that lags.

mod any_world;
mod assignments;
mod automatic_migrations;
mod automatic_plans;
mod crashes;
mod lag;
mod lagging;
mod losses;
mod migrations;
mod plans;
mod refusals;
mod stories;
mod world;
