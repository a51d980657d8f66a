//! Writes a profile as pprof's protocol buffer (google/pprof, `proto/profile.proto`), by hand: it
//! is six messages of integers, and nothing else here speaks protocol buffers.

use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use pprof::{Report, Symbol};

/// A message being written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn int(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn packed(&mut self, field: u64, values: &[u64]) {
        let mut packed = Self::default();
        values.iter().for_each(|it| packed.varint(*it));
        self.message(field, &packed);
    }
}

/// Functions, locations and words, each written once and referred to by number.
#[derive(Debug, Default)]
struct Tables {
    words: HashMap<String, u64>,
    /// In the order of their numbers; the first must be empty.
    word_list: Vec<String>,
    /// By name and file.
    functions: HashMap<(u64, u64), u64>,
    /// By the functions and lines that were inlined into each other there.
    locations: HashMap<Vec<(u64, u64)>, u64>,
    written: Message,
}

impl Tables {
    fn word(&mut self, word: &str) -> u64 {
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let number = self.word_list.len() as u64;
        self.words.insert(word.to_owned(), number);
        self.word_list.push(word.to_owned());
        number
    }

    fn function(&mut self, symbol: &Symbol) -> u64 {
        let name = self.word(&symbol.name());
        let file = self.word(&symbol.filename());
        if let Some(number) = self.functions.get(&(name, file)) {
            return *number;
        }
        let number = self.functions.len() as u64 + 1;
        let system_name = self.word(&symbol.sys_name());
        let mut function = Message::default();
        function.int(1, number);
        function.int(2, name);
        function.int(3, system_name);
        function.int(4, file);
        self.written.message(5, &function);
        self.functions.insert((name, file), number);
        number
    }

    fn location(&mut self, frame: &[Symbol]) -> u64 {
        let lines = frame.iter();
        let lines: Vec<(u64, u64)> = lines
            .map(|it| (self.function(it), it.lineno().into()))
            .collect();
        if let Some(number) = self.locations.get(&lines) {
            return *number;
        }
        let number = self.locations.len() as u64 + 1;
        let mut location = Message::default();
        location.int(1, number);
        for (function, line_number) in &lines {
            let mut line = Message::default();
            line.int(1, *function);
            line.int(2, *line_number);
            location.message(4, &line);
        }
        self.written.message(4, &location);
        self.locations.insert(lines, number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let mut value_type = Message::default();
        value_type.int(1, self.word(kind));
        value_type.int(2, self.word(unit));
        value_type
    }
}

/// The profile; `frequency` in samples per second.
pub(super) fn profile(report: &Report, frequency: i32) -> Vec<u8> {
    let period = 1_000_000_000 / u64::try_from(frequency.max(1)).unwrap_or(1);
    let mut tables = Tables::default();
    tables.word("");
    let mut profile = Message::default();
    profile.message(1, &tables.value_type("samples", "count"));
    profile.message(1, &tables.value_type("cpu", "nanoseconds"));
    let thread = tables.word("thread");
    for (stack, count) in &report.data {
        let locations = stack.frames.iter().map(|it| tables.location(it));
        let locations: Vec<u64> = locations.collect();
        let count = u64::try_from(*count).unwrap_or(0);
        let mut label = Message::default();
        label.int(1, thread);
        label.int(2, tables.word(&stack.thread_name_or_id()));
        let mut sample = Message::default();
        sample.packed(1, &locations);
        sample.packed(2, &[count, count.saturating_mul(period)]);
        sample.message(3, &label);
        profile.message(2, &sample);
    }
    let nanoseconds = |it: Duration| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX);
    let start = report.timing.start_time.duration_since(UNIX_EPOCH);
    profile.int(9, nanoseconds(start.unwrap_or_default()));
    profile.int(10, nanoseconds(report.timing.duration));
    profile.message(11, &tables.value_type("cpu", "nanoseconds"));
    profile.int(12, period);
    profile.0.extend_from_slice(&tables.written.0);
    for word in &tables.word_list {
        profile.bytes(6, word.as_bytes());
    }
    profile.0
}

#[cfg(test)]
mod tests;
