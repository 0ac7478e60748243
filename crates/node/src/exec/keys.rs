//! Keys whatever they hold: DEL, EXISTS, TYPE, TOUCH.

use super::{Call, Handler, Outcome};

pub(super) fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "DEL" | "UNLINK" => del,
        "EXISTS" | "TOUCH" => exists,
        "TYPE" => type_of,
        _ => return None,
    })
}

fn del(call: &mut Call<'_>) -> Outcome {
    let mut deleted = 0;
    for key in &call.args[1..] {
        deleted += i64::from(call.space.delete(key)?);
    }
    call.reply.int(deleted);
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Outcome {
    let mut found = 0;
    for key in &call.args[1..] {
        found += i64::from(call.space.get(key)?.is_some());
    }
    call.reply.int(found);
    Ok(())
}

fn type_of(call: &mut Call<'_>) -> Outcome {
    let record = call.space.get(call.args[1])?;
    call.reply.simple(record.map_or("none", |record| record.view().kind.type_name()));
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn transcript() {
        super::super::transcript::check("keys");
    }
}
