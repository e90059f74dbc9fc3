//! Positions in the planner's tables. Each table has a type of its own for them.

macro_rules! positions {
    ($($(#[doc = $doc:literal])+ $name:ident)*) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub(crate) struct $name(u32);

            impl $name {
                pub(crate) fn at(position: usize) -> Self {
                    Self(u32::try_from(position).expect("a cluster has fewer than 2^32 of everything"))
                }

                pub(crate) fn get(self) -> usize {
                    self.0 as usize
                }
            }
        )*
    };
}

positions! {
    /// A node, in the order of names.
    NodeIx
    /// A role of a job, in the order of the jobs' keys.
    GroupIx
    /// A class of pods.
    ClassIx
}

impl NodeIx {
    pub(crate) fn all(length: usize) -> impl Iterator<Item = Self> {
        (0..length).map(Self::at)
    }
}

impl GroupIx {
    pub(crate) fn all(length: usize) -> impl Iterator<Item = Self> {
        (0..length).map(Self::at)
    }
}
