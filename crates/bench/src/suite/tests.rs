//! Suites as they are shipped, and a small one from end to end.
