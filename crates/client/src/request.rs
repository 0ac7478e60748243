//! Writes one request into a buffer, argument by argument, without an intermediate list.

/// A request being written: as many arguments must follow as were announced.
#[derive(Debug)]
pub struct Request<'a> {
    out: &'a mut Vec<u8>,
    left: usize,
}

impl<'a> Request<'a> {
    /// Begins a request of `arguments` arguments, the command's name included, at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, arguments: usize) -> Self {
        header(out, b'*', arguments);
        Self { out, left: arguments }
    }

    /// Adds the next argument.
    pub fn arg(&mut self, bytes: &[u8]) -> &mut Self {
        assert!(self.left > 0, "more arguments than were announced");
        self.left -= 1;
        header(self.out, b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Adds the next argument: the decimal form of `number`.
    pub fn number(&mut self, number: u64) -> &mut Self {
        let mut line = [0u8; 24];
        let start = decimal(&mut line, number);
        self.arg(&line[start..22])
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        assert!(self.left == 0 || std::thread::panicking(), "{} arguments were announced and not written", self.left);
    }
}

/// `kind`, the decimal form of `n` and the end of the line.
fn header(out: &mut Vec<u8>, kind: u8, n: usize) {
    let mut line = [0u8; 24];
    let start = decimal(&mut line, n as u64) - 1;
    line[start] = kind;
    line[22] = b'\r';
    line[23] = b'\n';
    out.extend_from_slice(&line[start..]);
}

/// Writes the digits so that they end before position 22, and says where they begin.
fn decimal(line: &mut [u8; 24], n: u64) -> usize {
    let (mut at, mut rest) = (22, n);
    loop {
        at -= 1;
        line[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_as_the_protocol_has_it() {
        let mut out = Vec::new();
        Request::new(&mut out, 3).arg(b"SET").arg(b"a key").arg(b"");
        Request::new(&mut out, 2).arg(&[b'x'; 10]).number(u64::MAX);
        let expected =
            "*3\r\n$3\r\nSET\r\n$5\r\na key\r\n$0\r\n\r\n*2\r\n$10\r\nxxxxxxxxxx\r\n$20\r\n18446744073709551615\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    #[should_panic(expected = "1 arguments were announced")]
    fn a_missing_argument_is_a_bug() {
        Request::new(&mut Vec::new(), 2).arg(b"GET");
    }
}
