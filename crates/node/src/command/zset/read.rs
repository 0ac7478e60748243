//! ZCARD, ZSCORE, ZMSCORE, ZRANK and ZREVRANK.

use super::leaves::{Among, Cut};
use super::stored::SortedSet;
use crate::ReadSpace;
use crate::command::args::{SYNTAX, is_word};
use crate::command::call::{Error, Outcome, ReadCall};
use crate::command::steps::{Progress, ReplySteps, Rest, Step};
use resp::Reply;

pub(super) fn zcard(call: &mut ReadCall<'_>) -> Outcome {
    let count = match SortedSet::load(call.space, call.args[1])? {
        Some(set) => set.count()?,
        None => 0,
    };
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn zscore(call: &mut ReadCall<'_>) -> Outcome {
    let score = match SortedSet::load(call.space, call.args[1])? {
        Some(set) => set.score(call.space, call.args[2])?,
        None => None,
    };
    double_or_null(call.reply, score);
    Ok(())
}

pub(super) fn zmscore(call: &mut ReadCall<'_>) -> Result<Rest, Error> {
    let members = call.args[2..].iter().map(|member| member.to_vec()).collect();
    let mut left = ScoresLeft { key: call.args[1].to_vec(), members, made: 0 };
    SortedSet::load(call.space, call.args[1])?;
    call.reply.array(left.members.len());
    Ok(match left.step(call.space, call.reply)? {
        Progress::More => Some(Box::new(left)),
        Progress::Done => None,
    })
}

/// The scores of these members are still to be answered.
struct ScoresLeft {
    key: Vec<u8>,
    members: Vec<Vec<u8>>,
    made: usize,
}

impl ReplySteps for ScoresLeft {
    fn step(&mut self, space: &mut dyn ReadSpace, reply: &mut Reply) -> Result<Progress, Error> {
        let set = SortedSet::load(space, &self.key)?;
        let mut step = Step::begin(reply);
        for member in &self.members[self.made..] {
            let score = match &set {
                Some(set) => set.score(space, member)?,
                None => None,
            };
            double_or_null(reply, score);
            self.made += 1;
            if !step.goes_on(reply) {
                break;
            }
        }
        Ok(if self.made == self.members.len() { Progress::Done } else { Progress::More })
    }
}

fn double_or_null(reply: &mut Reply, score: Option<f64>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

pub(super) fn zrank(call: &mut ReadCall<'_>) -> Outcome {
    rank(call, false)
}

pub(super) fn zrevrank(call: &mut ReadCall<'_>) -> Outcome {
    rank(call, true)
}

fn rank(call: &mut ReadCall<'_>, falls: bool) -> Outcome {
    let member = call.args[2];
    let with_score = match call.args[3..] {
        [] => false,
        [word] if is_word(word, "WITHSCORE") => true,
        [_] => return Err(SYNTAX.into()),
        _ if falls => return Err("ERR wrong number of arguments for 'zrevrank' command".into()),
        _ => return Err("ERR wrong number of arguments for 'zrank' command".into()),
    };
    let set = SortedSet::load(call.space, call.args[1])?;
    let score = match &set {
        Some(set) => set.score(call.space, member)?,
        None => None,
    };
    let (Some(set), Some(score)) = (set, score) else {
        if with_score {
            call.reply.null_array()
        } else {
            call.reply.null()
        }
        return Ok(());
    };
    let before = set.rank(call.space, &Cut { score, among: Among::Before(member) })?;
    let rank = if falls { (set.count()?.saturating_sub(1)).saturating_sub(before) } else { before };
    if with_score {
        call.reply.array(2);
    }
    call.reply.int(rank as i64);
    if with_score {
        call.reply.double(score);
    }
    Ok(())
}
