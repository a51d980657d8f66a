//! Answers of the lab's commands, as [`sluice_node::output`] writes them.

/// As `println!`.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::put!("{}\n", format_args!($($text)*)) };
}
pub(crate) use say;

/// As `print!`.
macro_rules! put {
    ($($text:tt)*) => {
        sluice_node::output::write(sluice_node::output::Stream::Out, format_args!($($text)*))
    };
}
pub(crate) use put;

/// As `eprintln!`.
macro_rules! tell {
    ($($text:tt)*) => {
        sluice_node::output::write(
            sluice_node::output::Stream::Err,
            format_args!("{}\n", format_args!($($text)*)),
        )
    };
}
pub(crate) use tell;
