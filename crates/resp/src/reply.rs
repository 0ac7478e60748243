//! Writes replies: one buffer, RESP2 or RESP3. <https://redis.io/docs/latest/develop/reference/protocol-spec/>

/// The protocol version that a connection has negotiated with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proto {
    /// The default of a new connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// A buffer of encoded replies. What RESP2 has no type for is written as Redis 7 writes it there.
#[derive(Debug, Default)]
pub struct Reply {
    /// The encoded bytes.
    pub buf: Vec<u8>,
    /// How to encode what differs between the versions.
    pub proto: Proto,
}

impl Reply {
    /// An empty buffer.
    #[must_use]
    pub fn new(proto: Proto) -> Self {
        Self { buf: Vec::new(), proto }
    }

    /// `+text`. The text must hold no line break.
    pub fn simple(&mut self, text: &str) {
        self.buf.push(b'+');
        self.buf.extend_from_slice(text.as_bytes());
        self.crlf();
    }

    /// `+OK`
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// `-text`, with its code first, such as `ERR no such key`. Line breaks become spaces, as Redis does.
    pub fn error(&mut self, text: &str) {
        self.buf.push(b'-');
        self.buf.extend(text.bytes().map(|b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.crlf();
    }

    /// `:n`
    pub fn int(&mut self, n: i64) {
        self.buf.push(b':');
        self.decimal(n);
        self.crlf();
    }

    /// `$length` and the bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
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
        let mut digits = Vec::with_capacity(20);
        std::mem::swap(&mut digits, &mut self.buf);
        let mark = digits.len();
        self.decimal(n);
        std::mem::swap(&mut digits, &mut self.buf);
        debug_assert!(mark <= self.buf.len());
        self.bulk(&digits);
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

    /// A double; in RESP2 a bulk string.
    pub fn double(&mut self, d: f64) {
        let text = if d.is_infinite() {
            if d > 0.0 { "inf".to_owned() } else { "-inf".to_owned() }
        } else {
            format!("{d}")
        };
        if self.proto == Proto::Resp2 {
            self.bulk(text.as_bytes());
        } else {
            self.buf.push(b',');
            self.buf.extend_from_slice(text.as_bytes());
            self.crlf();
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
        if self.proto == Proto::Resp2 {
            return self.bulk(text.as_bytes());
        }
        self.head(b'=', text.len() + 4);
        self.buf.extend_from_slice(b"txt:");
        self.buf.extend_from_slice(text.as_bytes());
        self.crlf();
    }

    fn head(&mut self, kind: u8, n: usize) {
        self.buf.push(kind);
        self.decimal(n as i64);
        self.crlf();
    }

    fn crlf(&mut self) {
        self.buf.extend_from_slice(b"\r\n");
    }

    fn decimal(&mut self, n: i64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = n.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if n < 0 {
            self.buf.push(b'-');
        }
        self.buf.extend_from_slice(&digits[at..]);
    }
}
