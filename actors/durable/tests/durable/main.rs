//! Durable requests, with crashes wherever there can be one.

mod answers;
mod bank;
mod catching_up;
mod changes;
mod commits;
mod endings;
mod forms;
mod handles;
mod held_up;
mod jumps;
mod keys;
mod lab;
mod log;
mod logic;
mod loops;
mod node;
mod order;
mod replay;
mod results;
mod rules;
mod schedule;
mod settled;
mod several;
mod shop;
mod suspects;
mod typed_errors;
