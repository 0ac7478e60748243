//! Writes replies: one buffer, RESP2 or RESP3. <https://redis.io/docs/latest/develop/reference/protocol-spec/>

use crate::number::{Digits, decimal, format_double, format_long_double};

/// The protocol version that a connection has negotiated with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// The default of a new connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// What a bulk string costs beside its bytes: its length, its line ends, and the place of an empty one.
const BULK_COST: usize = 32;

/// A buffer of encoded replies. What RESP2 has no type for is written as Redis 7 writes it there.
///
/// The buffer may be given a bound. The bulk strings of a reply count against it, by their length and not by their
/// encoding, so that every replica comes to the same count whatever protocol its client speaks. Behind the bound bulk
/// strings are dropped, and `exceeded` says so: the caller then answers an error instead.
#[derive(Debug)]
pub struct Reply {
    /// The encoded bytes.
    pub buf: Vec<u8>,
    /// How to encode what differs between the versions.
    pub proto: Proto,
    /// What the bulk strings since `limit` cost, in bytes.
    spent: usize,
    /// What they may cost, in bytes.
    bound: usize,
    /// Bulk strings are counted and dropped: no client waits for the reply.
    discards: bool,
}

impl Default for Reply {
    fn default() -> Self {
        Self::new(Proto::default())
    }
}

impl Reply {
    /// An empty buffer without a bound.
    #[must_use]
    pub const fn new(proto: Proto) -> Self {
        Self::with_buffer(Vec::new(), proto)
    }

    /// The same, which appends to `buf`.
    #[must_use]
    pub const fn with_buffer(buf: Vec<u8>, proto: Proto) -> Self {
        Self { buf, proto, spent: 0, bound: usize::MAX, discards: false }
    }

    /// From here on bulk strings may cost `bytes`.
    pub fn limit(&mut self, bytes: usize) {
        (self.spent, self.bound) = (0, bytes);
    }

    /// Whether there is a bound.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.bound != usize::MAX
    }

    /// What they have cost since then, in bytes.
    #[must_use]
    pub fn spent(&self) -> usize {
        self.spent
    }

    /// Whether they have cost more than they may. Some of them are missing then.
    #[must_use]
    pub fn exceeded(&self) -> bool {
        self.spent > self.bound
    }

    /// What they may still cost, in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.bound.saturating_sub(self.spent)
    }

    /// Counts what an encoded reply costs that was made elsewhere, with `spent` there.
    pub fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// Whether a bulk string that was counted would be written: a client waits, and the bound is not passed.
    #[must_use]
    pub fn keeps(&self) -> bool {
        !self.discards && self.spent <= self.bound
    }

    /// Whether bulk strings are counted and not kept, because no client waits.
    pub fn discard(&mut self, discards: bool) {
        self.discards = discards;
    }

    /// `+text`. The text must hold no line break.
    pub fn simple(&mut self, text: &str) {
        self.simple_bytes(text.as_bytes());
    }

    /// The same of text that need not be UTF-8.
    pub fn simple_bytes(&mut self, text: &[u8]) {
        debug_assert!(!text.iter().any(|byte| matches!(byte, b'\r' | b'\n')), "a line break ends a simple string");
        self.line(b'+', text);
    }

    /// `+OK`
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// `-text`, with its code first, such as `ERR no such key`. Line breaks become spaces, as Redis does.
    pub fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }

    /// The same of text that need not be UTF-8.
    pub fn error_bytes(&mut self, text: &[u8]) {
        self.buf.push(b'-');
        self.buf.extend(text.iter().map(|&b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.crlf();
    }

    /// `:n`
    pub fn int(&mut self, n: i64) {
        match n {
            0..10 => self.buf.extend_from_slice(&[b':', b'0' + n as u8, b'\r', b'\n']),
            _ => self.line(b':', decimal(n, &mut Digits::default())),
        }
    }

    /// `$length` and the bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.spent = self.spent.saturating_add(bytes.len() + BULK_COST);
        if self.keeps() {
            self.text(bytes);
        }
    }

    /// A number in digits, which may be thousands: a double in RESP3, a bulk string in RESP2. It counts as a bulk string in both, so that what an
    /// entry answers counts alike wherever it is evaluated.
    pub fn digits(&mut self, text: &str) {
        self.spent = self.spent.saturating_add(text.len() + BULK_COST);
        match self.proto {
            _ if !self.keeps() => {}
            Proto::Resp2 => self.text(text.as_bytes()),
            Proto::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// Counts as so many bulk strings of `length` bytes that are not written, because the bound is passed.
    pub fn bulks_dropped(&mut self, count: usize, length: usize) {
        debug_assert!(self.exceeded(), "a reply within its bound has all bulk strings");
        self.spend(count.saturating_mul(length + BULK_COST));
    }

    /// The head of a bulk string of `length` bytes, which counts. Its bytes and its line end follow in pieces.
    pub fn bulk_head(&mut self, length: usize) {
        self.spent = self.spent.saturating_add(length + BULK_COST);
        if self.keeps() {
            self.head(b'$', length);
        }
    }

    /// Bytes of a bulk string whose head is written.
    pub fn bulk_piece(&mut self, bytes: &[u8]) {
        if self.keeps() {
            self.buf.extend_from_slice(bytes);
        }
    }

    /// A bulk string that counts against no bound: what another protocol has as something else.
    fn text(&mut self, bytes: &[u8]) {
        self.buf.reserve(bytes.len() + 32);
        self.head(b'$', bytes.len());
        self.buf.extend_from_slice(bytes);
        self.crlf();
    }

    /// A bulk string, or null.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// The decimal form of `n` as a bulk string.
    pub fn bulk_int(&mut self, n: i64) {
        self.bulk(decimal(n, &mut Digits::default()));
    }

    /// A null: `$-1` or `_`.
    pub fn null(&mut self) {
        self.buf.extend_from_slice(if self.proto == Proto::Resp2 { b"$-1\r\n" } else { b"_\r\n" });
    }

    /// A null in place of an array: `*-1` or `_`.
    pub fn null_array(&mut self) {
        self.buf.extend_from_slice(if self.proto == Proto::Resp2 { b"*-1\r\n" } else { b"_\r\n" });
    }

    /// The head of an array of `n` elements, which the caller writes next.
    pub fn array(&mut self, n: usize) {
        self.head(b'*', n);
    }

    /// The head of a map of `n` pairs; in RESP2 an array of 2n.
    pub fn map(&mut self, n: usize) {
        if self.proto == Proto::Resp2 { self.head(b'*', n * 2) } else { self.head(b'%', n) }
    }

    /// The head of a set of `n` elements; in RESP2 an array.
    pub fn set(&mut self, n: usize) {
        self.head(if self.proto == Proto::Resp2 { b'*' } else { b'~' }, n);
    }

    /// A double, printed as C's `%.17g`; in RESP2 a bulk string.
    pub fn double(&mut self, d: f64) {
        let text = format_double(d);
        if self.proto == Proto::Resp2 {
            self.text(text.as_bytes());
        } else {
            self.line(b',', text.as_bytes());
        }
    }

    /// A double, printed without an exponent and without needless zeros; in RESP2 a bulk string.
    pub fn plain_double(&mut self, d: f64) {
        let text = format_long_double(d);
        if self.proto == Proto::Resp2 {
            self.text(text.as_bytes());
        } else {
            self.line(b',', text.as_bytes());
        }
    }

    /// An integer of any size, in decimal; in RESP2 a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        self.big_number_bytes(digits.as_bytes());
    }

    /// The same of text that need not be UTF-8: scripts give what they like.
    pub fn big_number_bytes(&mut self, digits: &[u8]) {
        if self.proto == Proto::Resp2 {
            self.text(digits);
        } else {
            self.line(b'(', digits);
        }
    }

    /// A boolean; in RESP2 the integers 0 and 1.
    pub fn boolean(&mut self, b: bool) {
        self.buf.extend_from_slice(match (self.proto, b) {
            (Proto::Resp2, true) => b":1\r\n",
            (Proto::Resp2, false) => b":0\r\n",
            (Proto::Resp3, true) => b"#t\r\n",
            (Proto::Resp3, false) => b"#f\r\n",
        });
    }

    /// A verbatim text (`txt`); in RESP2 a bulk string.
    pub fn verbatim(&mut self, text: &str) {
        self.verbatim_as(*b"txt", text.as_bytes());
    }

    /// A verbatim text of any format; in RESP2 a bulk string.
    pub fn verbatim_as(&mut self, format: [u8; 3], text: &[u8]) {
        if self.proto == Proto::Resp2 {
            return self.text(text);
        }
        self.head(b'=', text.len() + 4);
        self.buf.extend_from_slice(&format);
        self.buf.push(b':');
        self.buf.extend_from_slice(text);
        self.crlf();
    }

    /// The head of a message of `n` elements out of turn; in RESP2 an array.
    pub fn push(&mut self, n: usize) {
        self.head(if self.proto == Proto::Resp2 { b'*' } else { b'>' }, n);
    }

    /// The head of `n` pairs that describe the reply which follows them. RESP2 has nothing like it: write none there.
    pub fn attribute(&mut self, n: usize) {
        debug_assert_eq!(self.proto, Proto::Resp3, "RESP2 has no attributes");
        self.head(b'|', n);
    }

    /// Begins an array whose length is not known yet; end it with `end_array`.
    #[must_use]
    pub fn begin_array(&mut self) -> Mark {
        Mark(self.buf.len())
    }

    /// Ends an array of `n` elements: all that has been written since `begin_array`.
    pub fn end_array(&mut self, mark: Mark, n: usize) {
        let mut head = Self::new(self.proto);
        head.array(n);
        self.buf.splice(mark.0..mark.0, head.buf);
    }

    /// Like `end_array`, for a map of `n` pairs.
    pub fn end_map(&mut self, mark: Mark, n: usize) {
        let mut head = Self::new(self.proto);
        head.map(n);
        self.buf.splice(mark.0..mark.0, head.buf);
    }

    /// Appends encoded replies.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.buf.extend_from_slice(encoded);
    }

    fn head(&mut self, kind: u8, n: usize) {
        // Nearly all heads are of up to three digits.
        match n {
            0..10 => self.buf.extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']),
            10..100 => {
                let (tens, ones) = (b'0' + (n / 10) as u8, b'0' + (n % 10) as u8);
                self.buf.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
            }
            100..1000 => {
                let digit = |n: usize| b'0' + (n % 10) as u8;
                let digits = [digit(n / 100), digit(n / 10), digit(n)];
                self.buf.extend_from_slice(&[kind, digits[0], digits[1], digits[2], b'\r', b'\n']);
            }
            _ => self.line(kind, decimal(n as i64, &mut Digits::default())),
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.buf.reserve(text.len() + 3);
        self.buf.push(kind);
        self.buf.extend_from_slice(text);
        self.crlf();
    }

    fn crlf(&mut self) {
        self.buf.extend_from_slice(b"\r\n");
    }
}

/// Where a collection of unknown length begins.
#[derive(Debug)]
pub struct Mark(usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn all_types(proto: Proto) -> String {
        let mut r = Reply::new(proto);
        r.simple("PONG");
        r.error("ERR two\r\nlines");
        r.int(i64::MIN);
        r.int(7);
        r.bulk(b"");
        r.bulk(&[b'x'; 101]);
        r.bulk_int(-12);
        r.null();
        r.null_array();
        r.array(12);
        r.map(2);
        r.set(3);
        r.double(0.5);
        r.double(f64::INFINITY);
        r.boolean(true);
        r.big_number("-123");
        r.verbatim("hi");
        r.push(1);
        let outer = r.begin_array();
        let inner = r.begin_array();
        r.int(1);
        r.end_map(inner, 1);
        r.end_array(outer, 2);
        String::from_utf8(r.buf).unwrap().replace("\r\n", " ").replace(&"x".repeat(101), "x*101")
    }

    #[test]
    fn every_type_in_both_versions() {
        assert_eq!(
            all_types(Proto::Resp2),
            "+PONG -ERR two  lines :-9223372036854775808 :7 $0  $101 x*101 $3 -12 $-1 *-1 *12 *4 *3 $3 0.5 $3 inf \
             :1 $4 -123 $2 hi *1 *2 *2 :1 "
        );
        assert_eq!(
            all_types(Proto::Resp3),
            "+PONG -ERR two  lines :-9223372036854775808 :7 $0  $101 x*101 $3 -12 _ _ *12 %2 ~3 ,0.5 ,inf \
             #t (-123 =6 txt:hi >1 *2 %1 :1 "
        );
    }

    #[test]
    fn digits_count_alike_in_both_protocols_and_where_no_client_waits() {
        let spent = |proto, discards, bound| {
            let mut reply = Reply::new(proto);
            reply.limit(bound);
            reply.discard(discards);
            reply.digits("12345");
            (reply.spent(), reply.buf)
        };
        assert_eq!(spent(Proto::Resp2, false, 100), (5 + BULK_COST, b"$5\r\n12345\r\n".to_vec()));
        assert_eq!(spent(Proto::Resp3, false, 100), (5 + BULK_COST, b",12345\r\n".to_vec()));
        for proto in [Proto::Resp2, Proto::Resp3] {
            assert_eq!(spent(proto, true, 100), (5 + BULK_COST, Vec::new()));
            assert_eq!(spent(proto, false, 4), (5 + BULK_COST, Vec::new()));
        }
    }
}
