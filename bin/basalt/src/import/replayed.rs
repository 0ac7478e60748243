//! Commands of a history as the store takes them: some that Redis accepts of its own history it refuses of clients, and some that were
//! made before an interruption would be refused the second time.

/// Changes the words of such a command.
pub(super) fn rewrite(args: &mut Vec<Vec<u8>>) {
    let is = |args: &[Vec<u8>], at: usize, word: &[u8]| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(word));
    if is(args, 0, b"XADD") || is(args, 0, b"XTRIM") {
        // `MAXLEN ~ 5 LIMIT 10` has become `MAXLEN = 3 LIMIT 10`: how much was removed is told, and LIMIT means nothing.
        let begins =
            args.iter().skip(2).take_while(|word| BEFORE_TRIM.iter().any(|one| word.eq_ignore_ascii_case(one)));
        let at = 2 + begins.count();
        let trims = is(args, at, b"MAXLEN") || is(args, at, b"MINID");
        let exact = (trims && is(args, at + 1, b"=") && is(args, at + 3, b"LIMIT")).then_some(at);
        if let Some(at) = exact.filter(|at| at + 4 < args.len()) {
            args.drain(at + 3..at + 5);
        }
    }
    if is(args, 0, b"FUNCTION") && is(args, 1, b"LOAD") && args.len() == 3 {
        args.insert(2, b"REPLACE".to_vec());
    }
    // Without a policy it is APPEND.
    if is(args, 0, b"FUNCTION") && is(args, 1, b"RESTORE") && (args.len() == 3 || is(args, 3, b"APPEND")) {
        args.truncate(3);
        args.push(b"REPLACE".to_vec());
    }
}

/// Options of XADD that may stand before those that trim the stream.
const BEFORE_TRIM: [&[u8]; 4] = [b"NOMKSTREAM", b"KEEPREF", b"DELREF", b"ACKED"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_that_clients_may_not_give() {
        for (text, expected) in [
            ("XADD s MAXLEN = 2 LIMIT 10 1-1 f v", "XADD s MAXLEN = 2 1-1 f v"),
            ("XADD s NOMKSTREAM minid = 2-0 limit 10 3-1 f v", "XADD s NOMKSTREAM minid = 2-0 3-1 f v"),
            ("XADD s 1-1 MAXLEN = a LIMIT", "XADD s 1-1 MAXLEN = a LIMIT"),
            ("XADD s 1-1 MAXLEN = a LIMIT b c", "XADD s 1-1 MAXLEN = a LIMIT b c"),
            ("XADD s 1-1 a b MAXLEN = a LIMIT 1 c", "XADD s 1-1 a b MAXLEN = a LIMIT 1 c"),
            ("XADD s MAXLEN ~ 2 LIMIT 10 1-1 f v", "XADD s MAXLEN ~ 2 LIMIT 10 1-1 f v"),
            ("XTRIM s MAXLEN = 2 LIMIT 10", "XTRIM s MAXLEN = 2"),
            ("FUNCTION LOAD x", "FUNCTION LOAD REPLACE x"),
            ("FUNCTION LOAD REPLACE x", "FUNCTION LOAD REPLACE x"),
            ("FUNCTION RESTORE x", "FUNCTION RESTORE x REPLACE"),
            ("FUNCTION RESTORE x append", "FUNCTION RESTORE x REPLACE"),
            ("FUNCTION RESTORE x FLUSH", "FUNCTION RESTORE x FLUSH"),
        ] {
            let mut args = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            rewrite(&mut args);
            assert_eq!(args.join(&b' '), expected.as_bytes(), "{text}");
        }
    }
}
