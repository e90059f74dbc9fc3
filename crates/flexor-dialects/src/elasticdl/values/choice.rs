//! Options whose value is one of a few words.

use super::value::{OptionValue, Refusal, Remark};
use crate::{finding::quoted, suggest::instead};

/// Declares an option whose value is one of the words listed. The function named behind `read` sees the text first.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident, read $prepare:path {
            $(#[$first_meta:meta])* $first:ident = $first_word:literal,
            $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $(#[$first_meta])* $first,
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[Self::$first, $(Self::$variant,)+];

            /// The word for it.
            pub fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_word,
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl OptionValue for $name {
            const EXPECTS: &'static str = concat!($first_word, $("|", $word,)+);

            fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
                let word = $prepare(text, remarks);
                let found = Self::ALL.iter().copied().find(|choice| choice.as_str() == word);
                found.ok_or_else(|| {
                    let help = instead(&word, Self::ALL.iter().map(|choice| choice.as_str()));
                    Refusal::invalid(format!("{} is not a valid value", quoted(text)), help)
                })
            }

            fn write(&self) -> String {
                self.as_str().to_owned()
            }
        }
    };
}

choice! {
    /// How the processes of a job share the work.
    DistributionStrategy, read default_if_empty {
        /// Workers push gradients to parameter servers.
        ParameterServer = "ParameterServerStrategy",
        /// Workers exchange gradients among themselves.
        AllReduce = "AllreduceStrategy",
        /// One process does everything.
        Local = "Local",
        /// The user's own program decides; the client 1.0.0 has it.
        Custom = "CustomStrategy",
    }
}

choice! {
    /// When a node fetches the image.
    ImagePullPolicy, read as_written {
        /// The image must be there.
        Never = "Never",
        /// It is fetched once.
        IfNotPresent = "IfNotPresent",
        /// It is asked for at each start.
        Always = "Always",
    }
}

choice! {
    /// When a container is started again in its pod.
    RestartPolicy, read as_written {
        /// Never; a replacement is another pod.
        Never = "Never",
        /// When it failed.
        OnFailure = "OnFailure",
        /// Whenever it ended.
        Always = "Always",
    }
}

choice! {
    /// How much is logged.
    LogLevel, read in_capitals {
        /// All of it.
        Debug = "DEBUG",
        /// What happens.
        Info = "INFO",
        /// What looks wrong.
        Warning = "WARNING",
        /// What went wrong.
        Error = "ERROR",
        /// What ended the program.
        Critical = "CRITICAL",
    }
}

fn as_written(text: &str, _: &mut Vec<Remark>) -> String {
    text.to_owned()
}

fn in_capitals(text: &str, _: &mut Vec<Remark>) -> String {
    text.to_uppercase()
}

fn default_if_empty(text: &str, remarks: &mut Vec<Remark>) -> String {
    if text.is_empty() {
        let default = DistributionStrategy::ParameterServer.as_str();
        remarks.push(Remark::replaced(format!("is empty; the default {default} is used")));
        return default.to_owned();
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_strategy_is_refused_with_the_possible_ones() {
        let refusal = DistributionStrategy::read("AllReduceStrategy", &mut Vec::new()).unwrap_err();
        assert_eq!(refusal.help, "did you mean `AllreduceStrategy`?");
        let refusal = DistributionStrategy::read("mesh", &mut Vec::new()).unwrap_err();
        assert_eq!(refusal.help, "expected one of ParameterServerStrategy, AllreduceStrategy, Local, CustomStrategy");
    }

    #[test]
    fn an_empty_strategy_is_the_default_and_said_so() {
        let mut remarks = Vec::new();
        assert_eq!(DistributionStrategy::read("", &mut remarks), Ok(DistributionStrategy::ParameterServer));
        assert_eq!(remarks.len(), 1);
    }

    #[test]
    fn only_log_levels_may_be_written_small() {
        assert_eq!(LogLevel::read("info", &mut Vec::new()), Ok(LogLevel::Info));
        assert!(ImagePullPolicy::read("always", &mut Vec::new()).is_err());
    }
}
