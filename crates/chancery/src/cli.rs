//! The command line (`docs/operations.md`).
//!
//! Every setting is also a flag of every command, so `chancery build create` takes the new super admin from
//! `--admin-username` and `--admin-password` like `chancery serve` on an empty data directory.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use platform::kit::account_type::AccountType;

use crate::settings::Flags;

/// A multi-tenant records platform with an HTTP API.
#[derive(Parser)]
#[command(name = "chancery", version, arg_required_else_help = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
    /// File with settings [default: chancery.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Settings given as flags.
    #[command(flatten)]
    pub flags: Flags,
}

/// The subcommands.
#[derive(Subcommand)]
pub enum Command {
    /// Serve the main API and the history service, or one of them
    Serve {
        /// The one to serve [default: both, in one process]
        part: Option<ServicePart>,
    },
    /// Create, list and delete builds
    #[command(subcommand)]
    Build(BuildCommand),
    /// Create a build with example people, classes, records and tasks
    Demo {
        /// Domain of the build
        #[arg(default_value = "demo.localhost")]
        domain: String,
        /// Print the created objects as a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Create users and set passwords
    #[command(subcommand)]
    User(UserCommand),
    /// Pause sequences
    #[command(subcommand)]
    Sequences(SequencesCommand),
    /// Change the history service of the database
    #[command(subcommand)]
    History(HistoryCommand),
    /// Print the two API keys, or change the secret key
    Keys {
        /// Change of the keys [default: print the API keys]
        #[command(subcommand)]
        command: Option<KeysCommand>,
    },
    /// Copy the embedded data directory into a new directory, while the server runs or not
    Backup {
        /// The new directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Leave out the files of the keys; a server started on the copy needs CHANCERY_SECRET_KEY
        #[arg(long)]
        without_keys: bool,
    },
}

/// Commands on the history service.
#[derive(Subcommand)]
pub enum HistoryCommand {
    /// Use the history service of the settings from now on, in place of the former one
    Adopt {
        /// Create a new tenant there for each build, since the tenants of the former service are lost
        #[arg(long)]
        new_tenants: bool,
    },
}

/// Commands on sequences.
#[derive(Subcommand)]
pub enum SequencesCommand {
    /// Pause a sequence of a build, or all of them, and hold their runs; super admins resume them
    Pause {
        /// Domain of the build
        #[arg(long, value_name = "DOMAIN")]
        build: String,
        /// Id of the sequence [default: all]
        #[arg(long)]
        id: Option<i64>,
    },
}

/// Commands on keys.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// Replace the secret key by CHANCERY_NEW_SECRET_KEY, while no server runs
    Rotate,
}

/// One of the two services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServicePart {
    /// The main API
    Api,
    /// The history service
    History,
}

/// Commands on builds. A running server serves a new build immediately.
#[derive(Subcommand)]
pub enum BuildCommand {
    /// Create a build with a super admin (--admin-username, --admin-password)
    Create {
        /// Domain of the build
        domain: String,
        /// The password of the super admin.
        #[command(flatten)]
        password: PasswordSource,
    },
    /// List the builds
    List {
        /// As a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Delete a build and all its data
    Delete {
        /// Domain of the build
        domain: String,
        /// Confirm that all data of the build is lost
        #[arg(long)]
        yes: bool,
        /// Also delete its history tenant
        #[arg(long)]
        with_history: bool,
    },
    /// Show the limits of a build, or set one
    Limits {
        /// Domain of the build
        domain: String,
        /// Name of the limit, as in the API [default: show all]
        key: Option<String>,
        /// Its new value, or `default`; file extensions are separated by commas [default: show it]
        value: Option<String>,
    },
    /// Permit passwords again for a build's super admins, if their identity provider is unavailable
    AllowPasswords {
        /// Domain of the build
        domain: String,
    },
}

/// Commands on users.
#[derive(Subcommand)]
pub enum UserCommand {
    /// Create an active user with a password
    Create {
        /// The user and the password.
        #[command(flatten)]
        user: UserPassword,
        /// Type of the account
        #[arg(long, value_parser = account_type())]
        account_type: AccountType,
    },
    /// Set a user's password, unlock the account and end its sessions
    SetPassword {
        /// The user and the password.
        #[command(flatten)]
        user: UserPassword,
    },
    /// Remove a user's lost second factors and end its sessions
    ResetSecondFactors {
        /// Domain of the user's build
        #[arg(long, value_name = "DOMAIN")]
        build: String,
        /// The user's e-mail address
        #[arg(long)]
        username: String,
    },
}

/// A user of a build and a password.
#[derive(Args)]
pub struct UserPassword {
    /// Domain of the user's build
    #[arg(long, value_name = "DOMAIN")]
    pub build: String,
    /// The user's e-mail address
    #[arg(long)]
    pub username: String,
    /// The password [default: the terminal asks for it]
    #[arg(long, conflicts_with_all = ["password_stdin", "password_file"])]
    pub password: Option<String>,
    /// Other sources of the password.
    #[command(flatten)]
    pub source: PasswordSource,
}

/// Sources of a password that do not show it on the command line or in the environment.
#[derive(Args)]
pub struct PasswordSource {
    /// Read the password from standard input; a newline at its end is dropped
    #[arg(long, conflicts_with = "admin_password")]
    pub password_stdin: bool,
    /// Read the password from this file; a newline at its end is dropped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["password_stdin", "admin_password"])]
    pub password_file: Option<PathBuf>,
}

/// Parses the account types that an operator may choose. Only the server creates `one_time_completion` accounts.
fn account_type() -> impl TypedValueParser<Value = AccountType> {
    let permitted = AccountType::all().filter(|account_type| *account_type != AccountType::OneTimeCompletion);
    PossibleValuesParser::new(permitted.map(AccountType::name))
        .map(|name| AccountType::parse(&name).expect("the parser accepts only these names"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{SETTINGS, Setting};
    use clap::CommandFactory;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn is_refused(line: &str) -> bool {
        Cli::try_parse_from(line.split_whitespace()).is_err()
    }

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_takes_one_part_or_both() {
        assert!(matches!(parse("chancery serve").command, Command::Serve { part: None }));
        assert!(matches!(parse("chancery serve api").command, Command::Serve { part: Some(ServicePart::Api) }));
        assert!(matches!(parse("chancery serve history").command, Command::Serve { part: Some(ServicePart::History) }));
        assert!(is_refused("chancery serve files"));
    }

    #[test]
    fn settings_stand_before_or_behind_the_command() {
        assert_eq!(parse("chancery --data x serve").flags.data.as_deref(), Some("x"));
        let cli = parse("chancery serve --history-listen [::1]:1 --config other.toml");
        assert_eq!(cli.flags.history_listen.as_deref(), Some("[::1]:1"));
        assert_eq!(cli.config, Some(PathBuf::from("other.toml")));
    }

    #[test]
    fn every_setting_is_a_flag_in_kebab_case() {
        for flag in SETTINGS.iter().map(Setting::flag) {
            assert!(!is_refused(&format!("chancery serve {flag} x")), "{flag}");
        }
    }

    #[test]
    fn builds_are_created_listed_and_deleted() {
        let cli = parse("chancery build create a.example --admin-username x@a.example --admin-password pw");
        assert!(matches!(cli.command, Command::Build(BuildCommand::Create { domain, .. }) if domain == "a.example"));
        assert_eq!(cli.flags.admin_username.as_deref(), Some("x@a.example"));
        assert!(matches!(parse("chancery build list").command, Command::Build(BuildCommand::List { json: false })));
        assert!(matches!(
            parse("chancery build list --json").command,
            Command::Build(BuildCommand::List { json: true })
        ));
        let cli = parse("chancery build limits a.example roles 200");
        let Command::Build(BuildCommand::Limits { domain, key, value }) = cli.command else { panic!() };
        assert_eq!((domain.as_str(), key.as_deref(), value.as_deref()), ("a.example", Some("roles"), Some("200")));
        assert!(is_refused("chancery build limits"));
        let cli = parse("chancery build delete a.example --yes");
        let Command::Build(BuildCommand::Delete { domain, yes, with_history }) = cli.command else { panic!() };
        assert_eq!((domain.as_str(), yes, with_history), ("a.example", true, false));
    }

    #[test]
    fn a_demo_has_a_domain() {
        let cli = parse("chancery demo");
        assert!(matches!(cli.command, Command::Demo { domain, json: false } if domain == "demo.localhost"));
        let cli = parse("chancery demo a.example --json --admin-username x@a.example");
        assert!(matches!(cli.command, Command::Demo { domain, json: true } if domain == "a.example"));
        assert!(is_refused("chancery demo a.example b.example"));
    }

    #[test]
    fn users_are_created_with_a_type() {
        let user = "--build a.example --username u@a.example";
        let cli = parse(&format!("chancery user create {user} --account-type service_internal --password pw"));
        let Command::User(UserCommand::Create { user: created, account_type }) = cli.command else { panic!() };
        assert_eq!(account_type.name(), "service_internal");
        assert_eq!(created.password.as_deref(), Some("pw"));
        assert!(is_refused(&format!("chancery user create {user} --account-type robot --password pw")));
        for source in ["--password-stdin", "--password-file x"] {
            assert!(!is_refused(&format!("chancery user set-password {user} {source}")), "{source}");
            assert!(is_refused(&format!("chancery user set-password {user} {source} --password pw")), "{source}");
            assert!(!is_refused(&format!("chancery build create a.example {source}")), "{source}");
            assert!(is_refused(&format!("chancery build create a.example {source} --admin-password pw")), "{source}");
        }
        assert!(is_refused(&format!("chancery user set-password {user} --password-stdin --password-file x")));
        let cli = parse(&format!("chancery user set-password {user}"));
        assert!(matches!(cli.command, Command::User(UserCommand::SetPassword { user }) if user.password.is_none()));
    }

    #[test]
    fn second_factors_of_a_user_are_reset() {
        let cli = parse("chancery user reset-second-factors --build a.example --username u@a.example");
        let Command::User(UserCommand::ResetSecondFactors { build, username }) = cli.command else { panic!() };
        assert_eq!((build.as_str(), username.as_str()), ("a.example", "u@a.example"));
        assert!(is_refused("chancery user reset-second-factors --build a.example"));
    }

    #[test]
    fn sequences_of_a_build_are_paused() {
        let cli = parse("chancery sequences pause --build a.example --id 7");
        let Command::Sequences(SequencesCommand::Pause { build, id }) = cli.command else { panic!() };
        assert_eq!((build.as_str(), id), ("a.example", Some(7)));
        assert!(is_refused("chancery sequences pause"));
    }

    #[test]
    fn backup_needs_its_directory() {
        assert!(is_refused("chancery backup"));
        let cli = parse("chancery backup copy");
        assert!(matches!(cli.command, Command::Backup { directory, without_keys: false } if directory == *"copy"));
        let cli = parse("chancery backup --without-keys copy");
        assert!(matches!(cli.command, Command::Backup { without_keys: true, .. }));
    }

    #[test]
    fn a_history_service_is_adopted() {
        let cli = parse("chancery history adopt --history-url http://127.0.0.1:1");
        assert!(matches!(cli.command, Command::History(HistoryCommand::Adopt { new_tenants: false })));
        let cli_with = parse("chancery history adopt --new-tenants");
        assert!(matches!(cli_with.command, Command::History(HistoryCommand::Adopt { new_tenants: true })));
        assert_eq!(cli.flags.history_url.as_deref(), Some("http://127.0.0.1:1"));
        assert!(is_refused("chancery history"));
    }

    #[test]
    fn keys_are_printed_or_rotated() {
        assert!(matches!(parse("chancery keys").command, Command::Keys { command: None }));
        let cli = parse("chancery keys rotate --new-secret-key x");
        assert!(matches!(cli.command, Command::Keys { command: Some(KeysCommand::Rotate) }));
        assert_eq!(cli.flags.new_secret_key.as_deref(), Some("x"));
        assert!(is_refused("chancery keys turn"));
    }
}
