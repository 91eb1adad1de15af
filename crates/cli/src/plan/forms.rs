//! The forms of `plan`, and the flags that each form uses. A flag that a form does not use is
//! refused by name: nothing is ignored silently.

use crate::exit::UsageError;

/// The question that a command line asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A drive by the stages of a profile.
    Profile,
    /// A bill of material.
    Bill,
    /// A bill of material with `[[stream]]`.
    Streams,
    /// A bill of material at an arrival rate.
    BillArriving,
    /// Bills of material next to each other.
    Compare,
    /// A drive of the catalogue with what is around it.
    Drive,
    /// Systems of one drive at an arrival rate.
    DriveArriving,
    /// A search for one server.
    Search,
    /// A search for hosts.
    Sizing,
}

use Form::{Bill, BillArriving, Compare, Drive, DriveArriving, Profile, Search, Sizing, Streams};

/// All forms with one system of the catalogue's parts and a closed loop.
const CLOSED: &[Form] = &[Bill, Compare, Drive, Search, Sizing];
/// Forms whose drive is a flag.
const DRIVES: &[Form] = &[Drive, DriveArriving];
/// Forms that look for systems.
const SEARCHES: &[Form] = &[Search, Sizing];
/// Forms whose system and work are flags.
const FLAGGED: &[Form] = &[Drive, DriveArriving, Search, Sizing];
/// Forms that open a file by the first argument.
const FILES: &[Form] = &[Profile, Bill, Streams, BillArriving];

/// Forms that ask the catalogue for figures of parts.
const PARTS: &[Form] =
    &[Bill, Streams, BillArriving, Compare, Drive, DriveArriving, Search, Sizing];

/// Each flag with the forms that use it.
static FLAGS: [(&str, &[Form]); 55] = [
    ("bill", FILES),
    ("compare", &[Compare]),
    ("money", &[Compare]),
    ("goal", CLOSED),
    ("drive", DRIVES),
    ("drives", &[Profile, Drive, DriveArriving]),
    ("adapter", FLAGGED),
    ("adapters", DRIVES),
    ("server", FLAGGED),
    ("software", FLAGGED),
    ("size", &[Profile, Compare, Drive, DriveArriving, Search, Sizing]),
    ("read", &[Profile, Compare, Drive, DriveArriving, Search, Sizing]),
    ("outstanding", &[Profile, Compare, Drive, Search, Sizing]),
    ("price_max", SEARCHES),
    ("power_max", SEARCHES),
    ("jobs", DRIVES),
    ("sequential", DRIVES),
    ("in_flight", &[Drive]),
    ("flush", DRIVES),
    ("state", DRIVES),
    ("record", DRIVES),
    ("buffered", DRIVES),
    ("write_cache", DRIVES),
    ("target", DRIVES),
    ("target_cores", DRIVES),
    ("rate", &[BillArriving, DriveArriving]),
    ("hosts", &[Sizing]),
    ("drives_max", &[Sizing]),
    ("latency", &[Sizing]),
    ("p99", &[Sizing]),
    ("capacity", &[Sizing]),
    ("growth", &[Sizing]),
    ("years", &[Sizing]),
    ("raid", &[Drive, DriveArriving, Sizing]),
    ("width", &[Sizing]),
    ("spares", &[Sizing]),
    ("replicas", &[Sizing]),
    ("down_drives", &[Sizing]),
    ("down_hosts", &[Sizing]),
    ("link", &[Drive, DriveArriving, Sizing]),
    ("ports", &[Drive, DriveArriving, Sizing]),
    ("height_max", &[Sizing]),
    ("year", SEARCHES),
    ("interface", SEARCHES),
    ("price", CLOSED),
    ("prices", CLOSED),
    ("confident", SEARCHES),
    ("draws", CLOSED),
    ("seed", CLOSED),
    ("anyway", &[Profile]),
    ("html", &[Bill, Compare, Drive]),
    ("why", SEARCHES),
    ("details", CLOSED),
    ("parts", PARTS),
    ("sourced", PARTS),
];

impl Form {
    /// The form in words, as the subject of a refusal.
    fn title(self) -> &'static str {
        match self {
            Profile => "a profile",
            Bill => "a bill",
            Streams => "a bill with [[stream]]",
            BillArriving | DriveArriving => "a prediction with --rate",
            Compare => "--compare",
            Drive => "a prediction with --drive",
            Search => "a search",
            Sizing => "a search for hosts",
        }
    }

    /// The flags that the form uses.
    fn flags(self) -> impl Iterator<Item = &'static str> {
        FLAGS.iter().filter(move |(_, forms)| forms.contains(&self)).map(|(flag, _)| *flag)
    }

    /// Refuses the first of the typed flags that the form does not use. Typed names that are no
    /// flags of `plan` are left alone.
    ///
    /// # Errors
    ///
    /// The flag, and those that the form uses.
    pub fn check(self, typed: &[String]) -> Result<(), UsageError> {
        let known = |name: &str| FLAGS.iter().find(|(flag, _)| *flag == name);
        let unused = |name: &&String| known(name).is_some_and(|(_, forms)| !forms.contains(&self));
        let Some(name) = typed.iter().find(unused) else { return Ok(()) };
        let long = |name: &str| format!("--{}", name.replace('_', "-"));
        let used: Vec<String> = self.flags().filter(|flag| *flag != "bill").map(long).collect();
        let more = match (self, name.as_str()) {
            (Profile, "rate") => "; simulate PROFILE --rate has it",
            (Profile, "goal" | "in_flight" | "jobs" | "sequential") => {
                "; --drive PART, or a bill, has it"
            }
            _ => "",
        };
        Err(UsageError(format!(
            "{}: not used by {}{more}; it uses {}",
            long(name),
            self.title(),
            used.join(", ")
        )))
    }
}

#[cfg(test)]
mod test {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_flag_of_the_command_is_in_the_table_and_used_by_a_form() {
        let program = crate::args::Args::command();
        let plan = program.find_subcommand("plan").unwrap();
        let mut typed: Vec<&str> = plan.get_arguments().map(|arg| arg.get_id().as_str()).collect();
        // Every form prints a document.
        typed.retain(|id| !["json", "help", "color"].contains(id));
        let mut table: Vec<&str> = FLAGS.iter().map(|(flag, _)| *flag).collect();
        typed.sort_unstable();
        table.sort_unstable();
        assert_eq!(typed, table);
        assert!(FLAGS.iter().all(|(_, forms)| !forms.is_empty()));
    }

    #[test]
    fn a_flag_that_a_form_does_not_use_is_refused_by_name() {
        let typed = |name: &str| ["bill".to_owned(), name.to_owned()];
        for (form, flag, word) in [
            (Profile, "rate", "--rate: not used by a profile; simulate PROFILE --rate has it"),
            (Profile, "in_flight", "--in-flight: not used by a profile"),
            (Bill, "size", "--size: not used by a bill"),
            (BillArriving, "draws", "--draws: not used by a prediction with --rate"),
            (Streams, "goal", "--goal: not used by a bill with [[stream]]"),
        ] {
            let error = form.check(&typed(flag)).unwrap_err().0;
            assert!(error.starts_with(word), "{error}");
        }
        assert!(Profile.check(&typed("read")).is_ok());
        assert!(Bill.check(&typed("color")).is_ok(), "a flag of the whole program");
    }
}
