#![allow(clippy::unwrap_used)]
use super::*;

const FILE: &str = r#"
name = "small"
title = "t"
about = "a"
order = "given"
[scales.default]
takes = "no time"
records = 10
sizes = [1, 2]
slow = false
[every-step]
clients = 3
properties = { recordcount = "= $records * $size", fieldcount = 2 }
[[part]]
name = "size $size"
each.size = "$sizes"
[part.store]
nodes = 3
set = { acks = "majority" }
[[part.step]]
does = "load"
[[part.step]]
name = "run $letter"
each.letter = [{ letter = "a", reads = 0.5 }, { letter = "b", reads = 1 }]
does = "run"
clients = 5
duration = "1s"
properties = { readproportion = "$reads", fieldcount = 1 }
event = [{ at = "1s", do = "kill", node = 2 }]
[[part.step]]
when = "$slow"
name = "slow"
does = "delete"
"#;

fn plan(wishes: &Wishes<'_>) -> Result<Plan, String> {
    Plan::read(FILE, wishes)
}

#[test]
fn parts_and_steps_are_multiplied_and_filled() {
    let wishes = Wishes { scale: "default", ..Wishes::default() };
    let plan = plan(&wishes).unwrap();
    let names: Vec<String> = plan
        .parts
        .iter()
        .flat_map(|part| part.steps.iter().map(|step| format!("{} / {}", part.name, step.name)))
        .collect();
    let expected =
        ["size 1 / load", "size 1 / run a", "size 1 / run b", "size 2 / load", "size 2 / run a", "size 2 / run b"];
    assert_eq!(names, expected);
    let run = &plan.parts[1].steps[2].file;
    assert_eq!((run.clients, run.properties["recordcount"].as_integer()), (Some(5), Some(20)));
    assert_eq!(
        (run.properties["fieldcount"].as_integer(), run.properties["readproportion"].as_integer()),
        (Some(1), Some(1))
    );
    assert_eq!(run.events[0].action, crate::model::ActionFile::Kill { node: 2 });
    assert_eq!(plan.parts[0].store.set["acks"].as_str(), Some("majority"));
}

#[test]
fn what_is_wished_for_wins() {
    let mut wishes = Wishes { scale: "default", ..Wishes::default() };
    wishes.names.insert("sizes".to_owned(), Value::Array(vec![Value::Integer(7)]));
    wishes.names.insert("slow".to_owned(), Value::Boolean(true));
    let mut found = plan(&wishes).unwrap();
    found.keep_only(&["run b".to_owned()]).unwrap();
    let names: Vec<&str> = found.parts[0].steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!((found.parts.len(), names), (1, vec!["load", "run b"]));
    let mut all = plan(&Wishes { scale: "default", ..Wishes::default() }).unwrap();
    assert!(all.keep_only(&["nothing".to_owned()]).unwrap_err().contains("size 1 / run a"));
    assert!(plan(&Wishes { scale: "huge", ..Wishes::default() }).unwrap_err().contains("there are default"));
    wishes.names.insert("typo".to_owned(), Value::Integer(1));
    assert!(plan(&wishes).unwrap_err().contains("typo"));
}

#[test]
fn a_random_order_follows_from_the_seed() {
    let text = FILE.replace("order = \"given\"", "order = \"random\"").replace("[1, 2]", "[1, 2, 3, 4, 5, 6]");
    let order = |seed: u64| -> Vec<usize> {
        let plan = Plan::read(&text, &Wishes { scale: "default", seed, ..Wishes::default() }).unwrap();
        plan.parts.iter().map(|part| part.number).collect()
    };
    assert_eq!(order(1), order(1));
    assert!((1..9).any(|seed| order(seed) != [1, 2, 3, 4, 5, 6]));
}
