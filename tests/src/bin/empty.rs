//! A program that does nothing: what any program costs to start and end.

fn main() {}
