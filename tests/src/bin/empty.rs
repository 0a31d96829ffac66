//! A program that does nothing, to measure what starting and ending any program costs.

fn main() {}
