//! Changes that are not tried for a while, because they did harm, found no room or were refused.

use std::time::Duration;

use super::{Allotment, Ceiling, Layout};

const FOR: Duration = Duration::from_secs(300);
/// Room that is missing again and again is looked for less and less often.
const MOST_DOUBLINGS: u32 = 6;

/// All bans, those that are over included.
#[derive(Debug, Default)]
pub(super) struct Bans {
    layouts: Vec<(Layout, Duration)>,
    memory_until: Duration,
    room: Option<Room>,
}

/// What the job requested when more pods found no room.
#[derive(Debug, Clone, Copy)]
struct Room {
    most: Allotment,
    until: Duration,
    times: u32,
}

impl Bans {
    /// Sizes that did harm or were refused.
    pub(super) fn ban(&mut self, layout: Layout, now: Duration) {
        self.layouts.retain(|(banned, until)| *banned != layout && now < *until);
        self.layouts.push((layout, now + FOR));
    }

    pub(super) fn ban_memory(&mut self, now: Duration) {
        self.memory_until = now + FOR;
    }

    /// Pods found no room beside the ones that request this.
    pub(super) fn no_room(&mut self, most: Allotment, now: Duration) {
        let times = self.room.map_or(0, |room| room.times + 1);
        self.room = Some(Room { most, until: now + FOR * 2_u32.pow(times.min(MOST_DOUBLINGS)), times });
    }

    /// Whether these sizes are not banned. All successors of a hot server count as one.
    pub(super) fn allow(&self, layout: Layout, now: Duration) -> bool {
        let key = |layout: &Layout| (layout.workers, layout.servers, layout.hot.is_some());
        !self.layouts.iter().any(|(banned, until)| key(banned) == key(&layout) && now < *until)
    }

    /// Pods that request this together have found room.
    pub(super) fn found_room(&mut self, total: Allotment) {
        if let Some(room) = &mut self.room {
            room.most = room.most.or_more(total);
        }
    }

    pub(super) fn allow_memory(&self, now: Duration) -> bool {
        now >= self.memory_until
    }

    /// The room that is known to be all there is.
    pub(super) fn room(&self, now: Duration) -> Option<Ceiling> {
        self.room.filter(|room| now < room.until).map(|room| room.most.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn sizes_are_banned_for_five_minutes() {
        let layout = |workers| Layout { workers, servers: 1, hot: None };
        let mut bans = Bans::default();
        bans.ban(layout(3), MINUTE);
        assert!(!bans.allow(layout(3), 5 * MINUTE) && bans.allow(layout(2), MINUTE));
        assert!(bans.allow(layout(3), 6 * MINUTE));
    }

    #[test]
    fn missing_room_is_looked_for_less_and_less_often() {
        let most = Allotment { millicores: 3000, bytes: 0 };
        let mut bans = Bans::default();
        bans.no_room(most, MINUTE);
        assert_eq!((bans.room(5 * MINUTE), bans.room(6 * MINUTE)), (Some(most.into()), None));
        bans.no_room(most, 7 * MINUTE);
        assert_eq!((bans.room(16 * MINUTE), bans.room(17 * MINUTE)), (Some(most.into()), None));
    }
}
