//! The table of options: one row gives the typed field, how it is read, how it is printed back and how it is explained.
//!
//! A row is `name: Type = "default", commands, presence, generations, fate;` under the line that help texts show.

use super::OptionSpec;
use crate::elasticdl::values::OptionValue;

/// Declares a struct of options together with its rows.
macro_rules! option_group {
    (
        $(#[$meta:meta])*
        $vis:vis struct $group:ident {
            $(
                $(#[doc = $help:literal])+
                $field:ident: $type:ty =
                    $default:literal, $commands:expr, $presence:expr, $generations:expr, $fate:expr;
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        $vis struct $group {
            $($(#[doc = $help])+ pub $field: $type,)+
        }

        impl $group {
            const COUNT: usize = [$(stringify!($field)),+].len();

            /// The rows of these options.
            pub(in crate::elasticdl) const SPECS: [$crate::elasticdl::options::OptionSpec; Self::COUNT] = [$(
                $crate::elasticdl::options::OptionSpec {
                    name: concat!("--", stringify!($field)),
                    commands: $commands,
                    presence: $presence,
                    arity: <$type as $crate::elasticdl::values::OptionValue>::ARITY,
                    expects: <$type as $crate::elasticdl::values::OptionValue>::EXPECTS,
                    default: $default,
                    generations: $generations,
                    help: concat!($($help),+).trim_ascii(),
                    fate: $fate,
                },
            )+];

            /// What the command line gives; none where something about these options is wrong.
            pub(in crate::elasticdl) fn read(given: &mut $crate::elasticdl::command_line::Given) -> Option<Self> {
                let [$($field),+] = &Self::SPECS;
                $(let $field = given.read::<$type>($field);)+
                Some(Self { $($field: $field?,)+ })
            }

            /// Adds every option that is not at its default.
            pub(in crate::elasticdl) fn write(&self, args: &mut Vec<String>) {
                let [$($field),+] = &Self::SPECS;
                $($crate::elasticdl::options::group::write($field, &self.$field, args);)+
            }
        }
    };
}

pub(super) use option_group;

/// Adds one option, unless it is at its default.
pub(super) fn write<T: OptionValue>(spec: &OptionSpec, value: &T, args: &mut Vec<String>) {
    let default = T::read(spec.default, &mut Vec::new());
    if default.as_ref() != Ok(value) {
        args.push(format!("{}={}", spec.name, value.write()));
    }
}
