//! The world of the stories: it shows the controller everything at once.

pub(super) use super::any_world::name;

pub(super) type World = super::any_world::World<false>;
