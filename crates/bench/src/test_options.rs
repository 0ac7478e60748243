//! Options as a command line gives them, for tests.

use clap::{Args, Parser};

/// A command with these options and no others.
#[derive(Debug, Parser)]
pub(crate) struct Given<O: Args> {
    #[command(flatten)]
    pub(crate) options: O,
}

impl<O: Args> Given<O> {
    /// The options of a command line, whose first word is the command's; it must be one.
    pub(crate) fn by<'a>(words: impl IntoIterator<Item = &'a str>) -> O {
        Self::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).options
    }
}
