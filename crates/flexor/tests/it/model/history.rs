//! What may happen to a job, chosen by a seed.

/// Something that happens to the job, once everything has come to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// The program of the worker of this rank ends by itself.
    Exit(u32, i32),
    /// It is killed.
    Kill(u32),
    /// Its pod is deleted.
    Delete(u32),
    /// Its pod is lost to the infrastructure: on a laptop its supervisor is killed, on a cluster its node evicts it.
    Lose(u32),
    /// A plan asks for so many workers.
    Scale(u32),
    /// A plan has the worker of this rank migrate, which is refused where a successor would have its name.
    Migrate(u32),
}

/// Numbers that look random and are the same each time.
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(sides)).unwrap()
    }
}

/// So many acts, and then the end of all workers, most of them well. At most one program fails, since what has failed
/// waits for real before it is tried again.
pub fn acts(dice: &mut Dice, count: usize) -> Vec<Act> {
    let (mut size, mut failed, mut acts) = (2, false, Vec::new());
    for _ in 0..count {
        let rank = dice.roll(size);
        acts.push(match dice.roll(10) {
            0 if !failed => {
                failed = true;
                Act::Exit(rank, 1)
            }
            0..=2 => Act::Kill(rank),
            3 | 4 => Act::Delete(rank),
            5 => Act::Lose(rank),
            6 | 7 => Act::Migrate(rank),
            _ => {
                size = 1 + dice.roll(4);
                Act::Scale(size)
            }
        });
    }
    acts.extend((0..size).map(|rank| Act::Exit(rank, 0)));
    acts
}
