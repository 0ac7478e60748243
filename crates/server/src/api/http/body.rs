//! Bodies: an answer in one piece, and a request's, which may not be long.

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use vocab::limits::HTTP_BODY_BYTES_MAX;

/// An answer in one piece.
pub(super) struct Whole(Option<Bytes>);

impl Whole {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(Some(Bytes::from(bytes)).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Why a request's body was not read.
pub(super) enum BodyError {
    TooLong,
    Broken,
}

/// All of a request's body.
pub(super) async fn read(mut body: Incoming) -> Result<Vec<u8>, BodyError> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > HTTP_BODY_BYTES_MAX {
            return Err(BodyError::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}
