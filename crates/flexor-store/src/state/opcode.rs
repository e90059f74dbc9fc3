//! The opcodes of Python's pickle machine.
//!
//! The constants are the allow-list: the opcodes that picklers of protocol 4 and 5 emit for a rendezvous state. The names
//! of all other opcodes are for error messages.

pub(super) const PROTO: u8 = 0x80;
pub(super) const FRAME: u8 = 0x95;
pub(super) const STOP: u8 = b'.';
pub(super) const MARK: u8 = b'(';
pub(super) const MEMOIZE: u8 = 0x94;
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';

pub(super) const NONE: u8 = b'N';
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const BININT: u8 = b'J';
pub(super) const LONG1: u8 = 0x8a;
pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const SHORT_BINBYTES: u8 = b'C';

pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;
pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';
pub(super) const EMPTY_SET: u8 = 0x8f;
pub(super) const ADDITEMS: u8 = 0x90;

pub(super) const STACK_GLOBAL: u8 = 0x93;
pub(super) const NEWOBJ: u8 = 0x81;
pub(super) const REDUCE: u8 = b'R';
pub(super) const BUILD: u8 = b'b';

/// Names a class in two lines of text. Picklers of protocol 4 use `STACK_GLOBAL` instead. It is known here so that a
/// hostile pickle is refused with the name of the function that it would call.
pub(super) const GLOBAL: u8 = b'c';

/// The name of an opcode in Python's `pickletools`; none for a byte that is no opcode.
pub(super) fn name(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        b'I' => "INT",
        BININT => "BININT",
        BININT1 => "BININT1",
        BININT2 => "BININT2",
        b'L' => "LONG",
        LONG1 => "LONG1",
        0x8b => "LONG4",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'B' => "BINBYTES",
        SHORT_BINBYTES => "SHORT_BINBYTES",
        0x8e => "BINBYTES8",
        0x96 => "BYTEARRAY8",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        NONE => "NONE",
        NEWTRUE => "NEWTRUE",
        NEWFALSE => "NEWFALSE",
        b'V' => "UNICODE",
        SHORT_BINUNICODE => "SHORT_BINUNICODE",
        BINUNICODE => "BINUNICODE",
        0x8d => "BINUNICODE8",
        b'F' => "FLOAT",
        b'G' => "BINFLOAT",
        b']' => "EMPTY_LIST",
        b'a' => "APPEND",
        b'e' => "APPENDS",
        b'l' => "LIST",
        EMPTY_TUPLE => "EMPTY_TUPLE",
        b't' => "TUPLE",
        TUPLE1 => "TUPLE1",
        TUPLE2 => "TUPLE2",
        TUPLE3 => "TUPLE3",
        EMPTY_DICT => "EMPTY_DICT",
        b'd' => "DICT",
        SETITEM => "SETITEM",
        SETITEMS => "SETITEMS",
        EMPTY_SET => "EMPTY_SET",
        ADDITEMS => "ADDITEMS",
        0x91 => "FROZENSET",
        b'0' => "POP",
        b'2' => "DUP",
        MARK => "MARK",
        b'1' => "POP_MARK",
        b'g' => "GET",
        BINGET => "BINGET",
        LONG_BINGET => "LONG_BINGET",
        b'p' => "PUT",
        b'q' => "BINPUT",
        b'r' => "LONG_BINPUT",
        MEMOIZE => "MEMOIZE",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        GLOBAL => "GLOBAL",
        STACK_GLOBAL => "STACK_GLOBAL",
        REDUCE => "REDUCE",
        BUILD => "BUILD",
        b'i' => "INST",
        b'o' => "OBJ",
        NEWOBJ => "NEWOBJ",
        0x92 => "NEWOBJ_EX",
        PROTO => "PROTO",
        STOP => "STOP",
        FRAME => "FRAME",
        b'P' => "PERSID",
        b'Q' => "BINPERSID",
        _ => return None,
    })
}
