//! House rules that no lint knows.
