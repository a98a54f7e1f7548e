/// The reason for which a command failed, for people.
pub type Failure = Box<dyn std::error::Error>;
