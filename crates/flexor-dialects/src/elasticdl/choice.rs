//! Options whose value is one of a few words.

use super::{
    slip::meant,
    value::{OptionValue, Refusal, Remark, quoted},
};

macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
        }

        impl $name {
            /// Every choice.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word for it.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            fn named(text: &str) -> Result<Self, Refusal> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(not_a_choice(text, &[$($word,)+])),
                }
            }
        }
    };
}

choice! {
    /// How the processes of a job share the work.
    DistributionStrategy {
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
    ImagePullPolicy {
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
    RestartPolicy {
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
    LogLevel {
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

impl OptionValue for DistributionStrategy {
    const EXPECTS: &'static str = "ParameterServerStrategy|AllreduceStrategy|Local|CustomStrategy";

    fn read(text: &str, remarks: &mut Vec<Remark>) -> Result<Self, Refusal> {
        if text.is_empty() {
            let default = Self::ParameterServer;
            remarks.push(Remark::replaced(format!("is empty; the default {} is taken", default.as_str())));
            return Ok(default);
        }
        Self::named(text)
    }

    fn write(&self) -> String {
        self.as_str().to_owned()
    }
}

impl OptionValue for ImagePullPolicy {
    const EXPECTS: &'static str = "Never|IfNotPresent|Always";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        Self::named(text)
    }

    fn write(&self) -> String {
        self.as_str().to_owned()
    }
}

impl OptionValue for RestartPolicy {
    const EXPECTS: &'static str = "Never|OnFailure|Always";

    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        Self::named(text)
    }

    fn write(&self) -> String {
        self.as_str().to_owned()
    }
}

impl OptionValue for LogLevel {
    const EXPECTS: &'static str = "DEBUG|INFO|WARNING|ERROR|CRITICAL";

    /// Small letters are as good as capitals.
    fn read(text: &str, _: &mut Vec<Remark>) -> Result<Self, Refusal> {
        Self::named(&text.to_uppercase())
    }

    fn write(&self) -> String {
        self.as_str().to_owned()
    }
}

fn not_a_choice(text: &str, words: &[&'static str]) -> Refusal {
    let help = match meant(text, words.iter().copied()) {
        Some(word) => format!("did you mean {word}? Possible are {}", words.join(", ")),
        None => format!("write one of {}", words.join(", ")),
    };
    Refusal::invalid(format!("{} is none of the possible values", quoted(text)), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_strategy_is_refused_with_the_possible_ones() {
        let refusal = DistributionStrategy::read("AllReduceStrategy", &mut Vec::new()).unwrap_err();
        assert!(refusal.help.starts_with("did you mean AllreduceStrategy?"), "{}", refusal.help);
        let refusal = DistributionStrategy::read("mesh", &mut Vec::new()).unwrap_err();
        assert_eq!(refusal.help, "write one of ParameterServerStrategy, AllreduceStrategy, Local, CustomStrategy");
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
