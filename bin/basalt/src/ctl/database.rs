//! `basalt ctl database`: the databases of `database-listen`: where each is, its name, and what bounds it.

use super::ask::{Asker, Failure};
use super::plan_begin::carried_out;
use super::plan_table::one;
use super::shards::ranges;
use super::table::{Table, colours, number};
use super::verdict::Verdict;
use clap::{Args, Subcommand};
use cluster::{DATABASE_WORDS, DATABASES_SETTING, Databases};
use serde_json::{Value, json};
use vocab::Database;

/// How often a change is worked out anew because another one came first.
const TRIES: usize = 16;

const AFTER: &str = "\
A database is named by its number, or by the name that it was given. All its keys are in one slot, hence in one shard.

Examples:
  basalt ctl database list                      number, name, keys, shard and leader of each
  basalt ctl database set 3 name=orders         SELECT orders chooses database 3
  basalt ctl database set orders keys-max=100000 ops-max=5000 consistency=any
  basalt ctl database set orders keys-max=      without a bound again
  basalt ctl database place orders              gives the database a shard to itself

What can be set of a database:
";

#[derive(Args, Debug)]
pub(super) struct DatabaseOptions {
    /// What to do
    #[command(subcommand)]
    command: DatabaseCommand,
}

#[derive(Debug, Subcommand)]
enum DatabaseCommand {
    /// Show the databases that have keys, or of which something is set
    List,
    /// Give a database a shard to itself
    Place {
        /// Its number or name
        database: String,
    },
    /// Set a name, a bound, or how old answers may be; an empty value takes it back
    Set {
        /// Its number or name
        database: String,
        /// Words with their values
        #[arg(required = true, value_name = "WORD=VALUE")]
        words: Vec<String>,
    },
}

/// What the help says behind the options.
pub(super) fn after() -> String {
    let words: Vec<String> = DATABASE_WORDS.iter().map(|word| format!("  {:<12}  {}", word.name, word.help)).collect();
    format!("{AFTER}{}", words.join("\n"))
}

pub(super) fn run(asker: &mut Asker, options: &DatabaseOptions) -> Result<Verdict, Failure> {
    match &options.command {
        DatabaseCommand::List => list(asker),
        DatabaseCommand::Place { database } => place(asker, database),
        DatabaseCommand::Set { database, words } => set(asker, database, words),
    }
}

/// What is set for single databases.
fn databases(asker: &mut Asker) -> Result<Databases, Failure> {
    parsed(&setting(asker)?)
}

/// The setting as it is written.
fn setting(asker: &mut Asker) -> Result<String, Failure> {
    let setting = asker.ask(&["SETTINGS", "GET", DATABASES_SETTING])?;
    Ok(setting["value"].as_str().unwrap_or_default().to_owned())
}

fn parsed(setting: &str) -> Result<Databases, Failure> {
    setting.parse().map_err(Failure::Refused)
}

/// The database that a number or a name means; an error if clients cannot select it.
fn named(asker: &mut Asker, databases: &Databases, name: &str) -> Result<Database, Failure> {
    let by_number = name.parse().ok().and_then(Database::of_number);
    let count = asker.databases()?;
    if let Some(database) = by_number.filter(|database| u64::from(database.number()) >= count) {
        let number = database.number();
        let text =
            format!("there is no database {number}: the store has {count}, 0 to {} (`databases`)", count.max(1) - 1);
        return Err(Failure::Usage(text));
    }
    by_number.or_else(|| databases.named(name)).ok_or_else(|| Failure::Usage(format!("no database is called {name}")))
}

fn list(asker: &mut Asker) -> Result<Verdict, Failure> {
    let set = databases(asker)?;
    let (shards, count) = (asker.ask(&["SHARDS"])?, asker.databases()?);
    let mut rows = Vec::new();
    for database in (0..count).filter_map(Database::of_number) {
        let (place, row) = (set.place_of(database), set.row(database));
        let keys = asker.keys_of(place)?;
        if keys == 0 && row.is_none() && database != Database::default() {
            continue;
        }
        let shard = shard_of(&shards, place);
        let leader = shard["leader"].as_str().map(|id| shards["nodes"][id].as_str().unwrap_or(id).to_owned());
        rows.push(json!({
            "database": database.number(),
            "name": row.and_then(|row| row.name.clone()),
            "keys": keys,
            "slot": place.slot().0,
            "shard": shard["id"],
            "slots": shard["slots"],
            "leader": leader,
            "set": row.map(ToString::to_string).unwrap_or_default(),
        }));
    }
    asker.show(&json!({ "databases": rows }), |answer| table(answer, colours()))?;
    Ok(Verdict::Good)
}

/// The shard that has the slot of a database.
fn shard_of(shards: &Value, place: Database) -> Value {
    let slot = u64::from(place.slot().0);
    let has = |range: &Value| {
        let end = |at: usize| range[at].as_u64();
        end(0).is_some_and(|first| first <= slot) && end(1).is_some_and(|last| slot <= last)
    };
    let of = |shard: &&Value| shard["slots"].as_array().is_some_and(|slots| slots.iter().any(has));
    shards["shards"].as_array().into_iter().flatten().find(of).cloned().unwrap_or_default()
}

fn table(answer: &Value, colours: bool) -> String {
    let mut table = Table::new(&["database", "name ", "keys", "slot", "shard", "slots ", "leader ", "set "]);
    for row in answer["databases"].as_array().into_iter().flatten() {
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let count = |name: &str| row[name].as_u64().unwrap_or(0);
        table.row(vec![
            count("database").into(),
            word("name").into(),
            number(count("keys") as f64).into(),
            count("slot").into(),
            count("shard").into(),
            ranges(&row["slots"]).into(),
            word("leader").into(),
            word("set").into(),
        ]);
    }
    table.text(colours)
}

/// Divides the shard of a database at its slot, and behind it.
fn place(asker: &mut Asker, name: &str) -> Result<Verdict, Failure> {
    let set = databases(asker)?;
    let place = set.place_of(named(asker, &set, name)?);
    let slot = place.slot().0;
    let (mut plans, mut verdict) = (Vec::new(), Verdict::Good);
    for at in [slot, slot + 1] {
        let shard = shard_of(&asker.ask(&["SHARDS"])?, place);
        let first = shard["slots"][0][0].as_u64();
        let last = shard["slots"].as_array().and_then(|slots| slots.last()).and_then(|range| range[1].as_u64());
        let (Some(id), Some(first), Some(last)) = (shard["id"].as_u64(), first, last) else {
            return Err(Failure::Refused("no shard has the slot of the database".to_owned()));
        };
        if u64::from(at) <= first || u64::from(at) > last {
            continue;
        }
        let words = ["split-shard", &id.to_string(), &at.to_string()];
        let (plan, ended) = carried_out(asker, &words, &format!("database {name} gets a shard to itself"))?;
        plans.push(plan);
        verdict = ended;
        if !matches!(verdict, Verdict::Good) {
            break;
        }
    }
    asker.show(&json!({ "plans": plans }), |answer| {
        let plans = answer["plans"].as_array().into_iter().flatten();
        let text: String = plans.map(one).collect();
        if text.is_empty() { format!("database {name} has a shard to itself already\n") } else { text }
    })?;
    Ok(verdict)
}

fn set(asker: &mut Asker, name: &str, words: &[String]) -> Result<Verdict, Failure> {
    for _ in 1..TRIES {
        match set_once(asker, name, words) {
            Err(Failure::Stale(_)) => {}
            outcome => return outcome,
        }
    }
    set_once(asker, name, words)
}

/// Sets it unless the databases have changed meanwhile: SWAPDB, or another operator.
fn set_once(asker: &mut Asker, name: &str, words: &[String]) -> Result<Verdict, Failure> {
    let was = setting(asker)?;
    let mut set = parsed(&was)?;
    let database = named(asker, &set, name)?;
    for word in words {
        let (word, value) =
            word.split_once('=').ok_or_else(|| Failure::Usage(format!("{word}: WORD=VALUE is wanted")))?;
        if !DATABASE_WORDS.iter().any(|known| known.name == word) {
            return Err(Failure::Usage(format!("{word} cannot be set of a database")));
        }
        set.set(database, word, value).map_err(Failure::Usage)?;
    }
    let now = set.to_string();
    let answer = match asker.ask(&["SETTINGS", "SET", DATABASES_SETTING, &now, "WAS", &was]) {
        // A release before this one compares nothing.
        Err(Failure::Usage(_)) => asker.ask(&["SETTINGS", "SET", DATABASES_SETTING, &now]),
        answer => answer,
    }?;
    asker.show(&answer, |_| {
        let row = set.row(database).map(ToString::to_string).unwrap_or_default();
        format!("database {}: {}\n", database.number(), if row.is_empty() { "nothing is set" } else { &row })
    })?;
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_shard_of_a_database_is_found() {
        let shards = json!({ "shards": [
            { "id": 0, "slots": [] },
            { "id": 1, "slots": [[0, 4095]] },
            { "id": 2, "slots": [[4096, 4096], [9000, 16383]] },
        ] });
        for (database, shard) in [(0, 1), (2, 2), (3, 2)] {
            let place = Database::of_number(database).unwrap();
            assert_eq!(shard_of(&shards, place)["id"], shard, "{database}");
        }
    }
}
