//! Runs a pickle instruction by instruction, with a stack and a memo and without recursion.
//!
//! It knows the instructions that picklers write for a rendezvous state, and makes only values of [`Value`]. A pickle that
//! it accepts means the same to Python. It accepts only pickles that torchrun writes.

use super::assemble;
use super::cursor::Cursor;
use super::error::StateError;
use super::objects::Objects;
use super::opcode::*;
use super::stamp::{Stamp, Zone};
use super::value::{Class, Value};
use super::{MAX_NODES, MAX_TEXT, RendezvousState};

/// The most values on the stack: the items of a dict of all nodes, with a reserve.
const MAX_STACK: usize = 4 * MAX_NODES;
/// The most values in the memo. Picklers remember up to seven for each node.
const MAX_MEMO: usize = 16 * MAX_NODES;
/// The most open marks. Three are needed: the state's attributes, the participants, a participant's attributes.
const MAX_MARKS: usize = 8;

pub(super) struct Machine<'a> {
    cursor: Cursor<'a>,
    stack: Vec<Value<'a>>,
    /// The height of the stack at each open `MARK`. Values below the last mark are inaccessible.
    marks: Vec<usize>,
    memo: Vec<Value<'a>>,
    objects: Objects<'a>,
    state_begun: bool,
    state: Option<RendezvousState>,
}

impl<'a> Machine<'a> {
    /// Reads the one state of a pickle.
    pub(super) fn run(pickle: &'a [u8]) -> Result<RendezvousState, StateError> {
        let mut machine = Self {
            cursor: Cursor::of_pickle(pickle)?,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            objects: Objects::default(),
            state_begun: false,
            state: None,
        };
        loop {
            machine.step()?;
            if let Some(state) = machine.state.take() {
                machine.end()?;
                return Ok(state);
            }
        }
    }

    fn step(&mut self) -> Result<(), StateError> {
        match self.cursor.opcode()? {
            FRAME => self.cursor.frame(),
            MARK => self.mark(),
            MEMOIZE => self.memoize(),
            BINGET => self.cursor.byte().and_then(|index| self.recall(index.into())),
            LONG_BINGET => self.cursor.array().and_then(|index| self.recall(u32::from_le_bytes(index))),
            NONE => self.push(Value::None),
            NEWTRUE => self.push(Value::Bool(true)),
            NEWFALSE => self.push(Value::Bool(false)),
            BININT1 => self.cursor.byte().and_then(|int| self.push(Value::Int(int.into()))),
            BININT2 => self.cursor.array().and_then(|int| self.push(Value::Int(u16::from_le_bytes(int).into()))),
            BININT => self.int(),
            LONG1 => self.long(),
            SHORT_BINUNICODE => self.cursor.byte().and_then(|length| self.text(length.into())),
            BINUNICODE => self.cursor.array().and_then(|length| self.text(u32::from_le_bytes(length))),
            SHORT_BINBYTES => self.datetime_bytes(),
            EMPTY_TUPLE => self.push(Value::EmptyTuple),
            TUPLE1 => self.tuple_of_one(),
            TUPLE2 => self.tuple_of_two(),
            TUPLE3 => self.timedelta_args(),
            EMPTY_DICT => self.objects.new_dict(&self.cursor).and_then(|dict| self.push(dict)),
            SETITEM => self.set_item(),
            SETITEMS => self.add_marked(Objects::set_items),
            EMPTY_SET => self.objects.new_set(&self.cursor).and_then(|set| self.push(set)),
            ADDITEMS => self.add_marked(Objects::add_items),
            STACK_GLOBAL => self.class(),
            NEWOBJ => self.new_object(),
            REDUCE => self.call(),
            BUILD => self.build(),
            GLOBAL => Err(self.cursor.refused_global()),
            _ => Err(self.cursor.refused_opcode()),
        }
    }

    /// Checks that only the end follows the complete state.
    fn end(mut self) -> Result<(), StateError> {
        loop {
            match self.cursor.opcode()? {
                FRAME => self.cursor.frame()?,
                STOP => break,
                _ => return Err(self.cursor.refused_opcode()),
            }
        }
        match self.cursor.rest() {
            0 => Ok(()),
            bytes => Err(StateError::Trailing { bytes }),
        }
    }

    fn push(&mut self, value: Value<'a>) -> Result<(), StateError> {
        if self.stack.len() == MAX_STACK {
            return Err(self.cursor.too_much(MAX_STACK, "values on the stack"));
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value<'a>, StateError> {
        let value = self.top()?;
        self.stack.pop();
        Ok(value)
    }

    fn top(&self) -> Result<Value<'a>, StateError> {
        let reachable = &self.stack[self.floor()..];
        reachable.last().copied().ok_or_else(|| self.cursor.refused_operand("a value from the stack", "nothing"))
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn mark(&mut self) -> Result<(), StateError> {
        if self.marks.len() == MAX_MARKS {
            return Err(self.cursor.too_much(MAX_MARKS, "open MARKs"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    fn memoize(&mut self) -> Result<(), StateError> {
        if self.memo.len() == MAX_MEMO {
            return Err(self.cursor.too_much(MAX_MEMO, "values in the memo"));
        }
        self.memo.push(self.top()?);
        Ok(())
    }

    fn recall(&mut self, index: u32) -> Result<(), StateError> {
        match self.memo.get(index as usize) {
            Some(value) => self.push(*value),
            None => Err(self.cursor.refused_operand("the number of a value in the memo", index.to_string())),
        }
    }

    fn int(&mut self) -> Result<(), StateError> {
        let int = i32::from_le_bytes(self.cursor.array()?);
        match u64::try_from(int) {
            Ok(int) => self.push(Value::Int(int)),
            Err(_) => Err(self.cursor.refused_operand("an int that is not negative", int.to_string())),
        }
    }

    /// Reads an int in little-endian two's complement. A 64-bit number can need a ninth byte for its sign.
    fn long(&mut self) -> Result<(), StateError> {
        let length = self.cursor.byte()?;
        let bytes = self.cursor.take(length.into())?;
        let mut wide = [0; 16];
        match bytes {
            [.., last] if last & 0x80 != 0 => {
                return Err(self.cursor.refused_operand("an int that is not negative", "a negative one"));
            }
            _ if bytes.len() <= 9 => wide[..bytes.len()].copy_from_slice(bytes),
            _ => return Err(self.cursor.refused_operand("an int of 64 bits", format!("one of {length} bytes"))),
        }
        match u64::try_from(u128::from_le_bytes(wide)) {
            Ok(int) => self.push(Value::Int(int)),
            Err(_) => Err(self.cursor.refused_operand("an int of 64 bits", "a larger one")),
        }
    }

    fn text(&mut self, length: u32) -> Result<(), StateError> {
        let length = length as usize;
        if length > MAX_TEXT {
            return Err(self.cursor.too_much(MAX_TEXT, "bytes of text"));
        }
        match std::str::from_utf8(self.cursor.take(length)?) {
            Ok(text) => self.push(Value::Text(text)),
            Err(_) => Err(self.cursor.refused_operand("UTF-8", "other bytes")),
        }
    }

    fn datetime_bytes(&mut self) -> Result<(), StateError> {
        match self.cursor.byte()? {
            10 => self.cursor.array().and_then(|bytes| self.push(Value::DatetimeBytes(bytes))),
            length => Err(self.cursor.refused_operand("the 10 bytes of a datetime", format!("{length}"))),
        }
    }

    fn timedelta_args(&mut self) -> Result<(), StateError> {
        let args = [self.pop()?, self.pop()?, self.pop()?];
        match args {
            [Value::Int(0), Value::Int(0), Value::Int(0)] => self.push(Value::TimedeltaArgs),
            _ => Err(self.cursor.refused_operand("the (0, 0, 0) of UTC's timedelta", "other values")),
        }
    }

    /// Makes the argument of UTC, or of a datetime without a zone.
    fn tuple_of_one(&mut self) -> Result<(), StateError> {
        match self.pop()? {
            Value::ZeroTimedelta => self.push(Value::TimezoneArgs),
            Value::DatetimeBytes(bytes) => self.datetime_args(bytes, Zone::Unsaid),
            other => Err(self.cursor.refused_operand("the timedelta of UTC or the bytes of a datetime", other.kind())),
        }
    }

    fn tuple_of_two(&mut self) -> Result<(), StateError> {
        let (zone, bytes) = (self.pop()?, self.pop()?);
        let (Value::DatetimeBytes(bytes), Value::Utc) = (bytes, zone) else {
            let found = format!("{} and {}", bytes.kind(), zone.kind());
            return Err(self.cursor.refused_operand("the bytes of a datetime and UTC", found));
        };
        self.datetime_args(bytes, Zone::Utc)
    }

    fn datetime_args(&mut self, bytes: [u8; 10], zone: Zone) -> Result<(), StateError> {
        match Stamp::from_pickled(bytes) {
            Some(stamp) => self.push(Value::DatetimeArgs(stamp.in_zone(zone))),
            None => Err(self.cursor.refused_operand("a time of the calendar", format!("{bytes:02x?}"))),
        }
    }

    fn set_item(&mut self) -> Result<(), StateError> {
        let (value, key) = (self.pop()?, self.pop()?);
        self.objects.set_items(&self.cursor, self.top()?, &[key, value])
    }

    /// Adds the values above the last `MARK` to the container below it.
    fn add_marked(
        &mut self,
        add: fn(&mut Objects<'a>, &Cursor<'_>, Value<'a>, &[Value<'a>]) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let Some(mark) = self.marks.pop() else {
            return Err(self.cursor.refused_operand("the values above a MARK", "a stack without one"));
        };
        let (below, items) = self.stack.split_at(mark);
        let Some(target) = below[self.floor()..].last() else {
            return Err(self.cursor.refused_operand("a container below the MARK", "nothing"));
        };
        add(&mut self.objects, &self.cursor, *target, items)?;
        self.stack.truncate(mark);
        Ok(())
    }

    fn class(&mut self) -> Result<(), StateError> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (Value::Text(module), Value::Text(name)) = (module, name) else {
            let found = format!("{} and {}", module.kind(), name.kind());
            return Err(self.cursor.refused_operand("a module and a name", found));
        };
        match Class::named(module, name) {
            Some(class) => self.push(Value::Class(class)),
            None => Err(self.cursor.refused_class(module, name)),
        }
    }

    fn new_object(&mut self) -> Result<(), StateError> {
        let (args, class) = (self.pop()?, self.pop()?);
        match (class, args) {
            (Value::Class(Class::State), Value::EmptyTuple) if !self.state_begun => {
                self.state_begun = true;
                self.push(Value::State)
            }
            (Value::Class(Class::State), Value::EmptyTuple) => {
                Err(self.cursor.refused_operand("one _RendezvousState", "a second one"))
            }
            (Value::Class(Class::Node), Value::EmptyTuple) => {
                self.objects.new_node(&self.cursor).and_then(|node| self.push(node))
            }
            _ => {
                let found = format!("{} with {}", class.kind(), args.kind());
                Err(self.cursor.refused_operand("_RendezvousState or _NodeDesc without arguments", found))
            }
        }
    }

    fn call(&mut self) -> Result<(), StateError> {
        let (args, class) = (self.pop()?, self.pop()?);
        match (class, args) {
            (Value::Class(Class::Timedelta), Value::TimedeltaArgs) => self.push(Value::ZeroTimedelta),
            (Value::Class(Class::Timezone), Value::TimezoneArgs) => self.push(Value::Utc),
            (Value::Class(Class::Datetime), Value::DatetimeArgs(stamp)) => self.push(Value::Datetime(stamp)),
            _ => {
                let found = format!("{} with {}", class.kind(), args.kind());
                Err(self.cursor.refused_operand("a datetime, timezone or timedelta with its arguments", found))
            }
        }
    }

    fn build(&mut self) -> Result<(), StateError> {
        let (attributes, object) = (self.pop()?, self.top()?);
        let Value::Dict(dict) = attributes else {
            return Err(self.cursor.refused_operand("a dict of attributes", attributes.kind()));
        };
        match object {
            Value::Node(node) if self.objects.nodes[node].is_none() => {
                self.objects.nodes[node] = Some(assemble::node(&self.objects.dicts[dict])?);
                Ok(())
            }
            Value::Node(_) => Err(self.cursor.refused_operand("a _NodeDesc without attributes", "a finished one")),
            Value::State if self.stack.len() == 1 => {
                self.state = Some(assemble::state(&self.objects, dict)?);
                Ok(())
            }
            Value::State => Err(self.cursor.refused_operand("the state alone on the stack", "more values")),
            _ => Err(self.cursor.refused_operand("a _NodeDesc or the state", object.kind())),
        }
    }
}
