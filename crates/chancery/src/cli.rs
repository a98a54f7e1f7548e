//! The command line (`docs/operations.md`).
//!
//! Every setting is also a flag of every command, so `chancery build create` takes the new super admin from
//! `--admin-username` and `--admin-password` like `chancery serve` on an empty data directory.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
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
    /// Print the API keys and the public key of receipts, or change the secret key
    Keys {
        /// Change of the keys [default: print the API keys]
        #[command(subcommand)]
        command: Option<KeysCommand>,
        /// As a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put a copy of `backup` in the place of an empty or missing data directory, and check it
    Restore {
        /// The copy
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Compare databases, files, references and counts: exit code 1 if something is wrong
    Check {
        /// Domain of a build [default: all]
        domain: Option<String>,
        /// As a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check the receipts of deletions
    #[command(subcommand)]
    Receipt(ReceiptCommand),
    /// Copy the embedded data directory into a new directory, while the server runs or not
    Backup {
        /// The new directory
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Leave out the files of the keys; a server started on the copy needs CHANCERY_SECRET_KEY
        #[arg(long)]
        without_keys: bool,
    },
    /// Check the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask a running service on this machine whether it is ready; exit with 1 if it is not
    Health {
        /// The service
        #[arg(default_value = "api")]
        part: ServicePart,
        /// Print the answer of /readyz, a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the script that completes commands and flags in a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Commands on the settings.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Read the settings as `chancery serve` does, and name every mistake; exit with 1 if there is one
    Check {
        /// Also connect to the database, to ClickHouse and to the store of files
        #[arg(long)]
        connect: bool,
        /// As a JSON object
        #[arg(long)]
        json: bool,
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
        /// Print the service as a JSON object
        #[arg(long)]
        json: bool,
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
    Rotate {
        /// Print the result as a JSON object
        #[arg(long)]
        json: bool,
    },
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
        /// Print the build and its super admin as a JSON object
        #[arg(long)]
        json: bool,
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
        /// File of the signed receipt [default: below `receipts` in the data directory; none with PostgreSQL]
        #[arg(long, value_name = "FILE")]
        receipt: Option<PathBuf>,
        /// Print the remaining history and the receipt as a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a build with its files to an archive, while the server runs or not
    Export {
        /// Domain of the build
        domain: String,
        /// The new archive; `-` is standard output
        file: PathBuf,
        /// Without hashes of passwords and tokens, so that the archive can be given to people of the build
        #[arg(long, conflicts_with = "with_secrets")]
        without_credentials: bool,
        /// The optional contents.
        #[command(flatten)]
        contents: ArchiveContents,
    },
    /// Create a build from an archive
    Import {
        /// The archive; `-` is standard input
        file: PathBuf,
        /// Domain of the new build [default: the one in the archive]
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
        /// The optional contents.
        #[command(flatten)]
        contents: ArchiveContents,
    },
    /// Show the limits of a build, or set one
    Limits {
        /// Domain of the build
        domain: String,
        /// Name of the limit, as in the API [default: show all]
        key: Option<String>,
        /// Its new value, or `default`; file extensions are separated by commas [default: show it]
        value: Option<String>,
        /// As a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Permit passwords again for a build's super admins, if their identity provider is unavailable
    AllowPasswords {
        /// Domain of the build
        domain: String,
    },
}

/// The optional contents of an archive.
#[derive(Args)]
pub struct ArchiveContents {
    /// With the history of the build
    #[arg(long)]
    pub with_history: bool,
    /// With client secrets, mail passwords and second factors, sealed by a passphrase
    #[arg(long)]
    pub with_secrets: bool,
    /// Read the passphrase from this file; a newline at its end is dropped [default: the terminal asks for it]
    #[arg(long, value_name = "FILE", requires = "with_secrets")]
    pub passphrase_file: Option<PathBuf>,
}

/// Commands on receipts.
#[derive(Subcommand)]
pub enum ReceiptCommand {
    /// Check the signature of a receipt: exit code 0 or 1
    Check {
        /// The receipt
        file: PathBuf,
        /// The public key, as `chancery keys` prints it
        #[arg(long, value_name = "KEY")]
        public_key: String,
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
        let Command::Build(BuildCommand::Limits { domain, key, value, json: false }) = cli.command else { panic!() };
        assert_eq!((domain.as_str(), key.as_deref(), value.as_deref()), ("a.example", Some("roles"), Some("200")));
        assert!(is_refused("chancery build limits"));
        let cli = parse("chancery build delete a.example --yes");
        let Command::Build(BuildCommand::Delete { domain, yes, with_history, json: false, .. }) = cli.command else {
            panic!()
        };
        assert_eq!((domain.as_str(), yes, with_history), ("a.example", true, false));
    }

    #[test]
    fn builds_are_exported_and_imported() {
        let cli = parse("chancery build export a.example a.tar --with-history");
        let Command::Build(BuildCommand::Export { domain, file, contents, .. }) = cli.command else { panic!() };
        assert_eq!((domain.as_str(), file), ("a.example", PathBuf::from("a.tar")));
        assert!(contents.with_history && !contents.with_secrets);
        let cli = parse("chancery build import - --domain b.example --with-secrets --passphrase-file p");
        let Command::Build(BuildCommand::Import { file, domain, contents }) = cli.command else { panic!() };
        assert_eq!((file, domain.as_deref()), (PathBuf::from("-"), Some("b.example")));
        assert_eq!(contents.passphrase_file, Some(PathBuf::from("p")));
        assert!(is_refused("chancery build import a.tar --passphrase-file p"));
        assert!(is_refused("chancery build export a.example"));
        assert!(!is_refused("chancery build export a.example a.tar --without-credentials"));
        assert!(is_refused("chancery build export a.example a.tar --without-credentials --with-secrets"));
    }

    #[test]
    fn copies_are_restored_and_everything_is_checked() {
        let cli = parse("chancery restore copy");
        assert!(matches!(cli.command, Command::Restore { directory } if directory == *"copy"));
        assert!(is_refused("chancery restore"));
        let cli = parse("chancery check a.example --json");
        assert!(matches!(cli.command, Command::Check { domain: Some(_), json: true }));
        assert!(matches!(parse("chancery check").command, Command::Check { domain: None, json: false }));
    }

    #[test]
    fn receipts_are_checked_with_a_key() {
        let cli = parse("chancery receipt check r.json --public-key k");
        assert!(matches!(cli.command, Command::Receipt(ReceiptCommand::Check { public_key, .. }) if public_key == "k"));
        assert!(is_refused("chancery receipt check r.json"));
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
        assert!(matches!(cli.command, Command::History(HistoryCommand::Adopt { new_tenants: false, .. })));
        let cli_with = parse("chancery history adopt --new-tenants");
        assert!(matches!(cli_with.command, Command::History(HistoryCommand::Adopt { new_tenants: true, .. })));
        assert_eq!(cli.flags.history_url.as_deref(), Some("http://127.0.0.1:1"));
        assert!(is_refused("chancery history"));
    }

    #[test]
    fn keys_are_printed_or_rotated() {
        assert!(matches!(parse("chancery keys").command, Command::Keys { command: None, json: false }));
        let cli = parse("chancery keys rotate --new-secret-key x");
        assert!(matches!(cli.command, Command::Keys { command: Some(KeysCommand::Rotate { json: false }), .. }));
        assert_eq!(cli.flags.new_secret_key.as_deref(), Some("x"));
        assert!(is_refused("chancery keys turn"));
    }

    /// Commands that print a sentence for people, or a text of another form.
    const WITHOUT_DATA: [&str; 12] = [
        "chancery serve",
        "chancery build export",
        "chancery build import",
        "chancery restore",
        "chancery receipt check",
        "chancery sequences pause",
        "chancery build allow-passwords",
        "chancery user create",
        "chancery user set-password",
        "chancery user reset-second-factors",
        "chancery backup",
        "chancery completions",
    ];

    /// The commands that do something, with their full names.
    fn runnable(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
        let below = command.get_subcommands();
        let below =
            below.flat_map(|below| runnable(below, &format!("{name} {}", below.get_name()))).collect::<Vec<_>>();
        match below.is_empty() || name == "chancery keys" {
            true => [vec![(name.to_owned(), command.clone())], below].concat(),
            false => below,
        }
    }

    #[test]
    fn every_command_that_prints_data_prints_it_as_json() {
        for (name, command) in runnable(&Cli::command(), "chancery") {
            let has_json = command.get_arguments().any(|argument| argument.get_id() == "json");
            assert_eq!(has_json, !WITHOUT_DATA.contains(&name.as_str()), "{name}");
        }
    }

    /// Removes the subcommands `help`, which have no manual page.
    fn without_help(command: clap::Command) -> clap::Command {
        command.disable_help_subcommand(true).mut_subcommands(without_help)
    }

    /// The manual pages in `deploy/man`: one for each command. The page `chancery` lists the settings, the others do not.
    fn manual_pages(command: &clap::Command) -> Vec<(String, String)> {
        let is_root = command.get_name() == "chancery";
        let page = command.clone().mut_args(|argument| match argument.is_global_set() && !is_root {
            true => argument.hide(true),
            false => argument,
        });
        let manual = clap_mangen::Man::new(page).date(" ").source("Chancery").manual("Chancery");
        let mut text = Vec::new();
        manual.render(&mut text).unwrap();
        let own = (manual.get_filename(), String::from_utf8(text).unwrap());
        std::iter::once(own).chain(command.get_subcommands().flat_map(manual_pages)).collect()
    }

    #[test]
    fn the_manual_pages_are_those_of_the_declaration() {
        let directory = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/man"));
        let mut command = without_help(Cli::command());
        command.build();
        let pages = manual_pages(&command);
        if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
            let _ = std::fs::remove_dir_all(directory);
            std::fs::create_dir_all(directory).unwrap();
            return pages.iter().for_each(|(name, page)| std::fs::write(directory.join(name), page).unwrap());
        }
        let command = "UPDATE=1 cargo test -p chancery --bin chancery manual_pages";
        for (name, page) in &pages {
            let written = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
            assert!(written == *page, "deploy/man/{name} differs. Write it by: {command}");
        }
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), pages.len(), "deploy/man has other files: {command}");
    }
}
