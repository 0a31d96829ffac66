//! Ring 2: tests the component in its sandbox, and against the same code without one.

mod cases;
mod cel;
mod contract;
mod differential;
mod hostile;
mod seeds;
mod supervision;
