//! A condition as a tree, in which every name is resolved.

use regex::Regex;

/// A part of a condition.
#[derive(Debug)]
pub(super) struct Expression {
    /// The byte at which the part stands.
    pub(super) at: usize,
    pub(super) kind: Kind,
}

/// What a part of a condition is.
#[derive(Debug)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    String(String),
    /// The name of a type.
    Type(&'static str),
    /// A variable, by its number.
    Variable(usize),
    /// The variable of a macro, by the number of macros around it.
    Local(usize),
    List(Vec<Expression>),
    Map(Vec<(Expression, Expression)>),
    /// A member by its name.
    Select(Box<Expression>, String),
    /// Whether a member is there.
    Has(Box<Expression>, String),
    /// A member or an item.
    Index(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    /// All parts of a chain of `&&`.
    And(Vec<Expression>),
    /// All parts of a chain of `||`.
    Or(Vec<Expression>),
    /// `condition ? one : other`
    Choose(Box<[Expression; 3]>),
    Binary(Operator, Box<[Expression; 2]>),
    /// `text.matches(pattern)`
    Matches(Box<Expression>, Regex),
    /// A function of CEL; what it is called on is the first argument.
    Call(Function, Vec<Expression>),
    /// A function of whoever evaluates the condition, by its number.
    Foreign(usize, Vec<Expression>),
    Macro(Macro, Box<Comprehension>),
}

/// A macro over the items of a list or the keys of a map; the variable is a local.
#[derive(Debug)]
pub(super) struct Comprehension {
    pub(super) range: Expression,
    /// The condition on an item, if there is one.
    pub(super) condition: Option<Expression>,
    /// What an item becomes.
    pub(super) value: Option<Expression>,
}

/// The macros over lists and maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
}

/// An operator between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    /// Returns the sign of the operator.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::In => "in",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::Remainder => "%",
        }
    }
}

/// The functions of CEL, except `matches`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Int,
    Double,
    String,
    Bool,
    Type,
    Dyn,
    Timestamp,
    Duration,
    GetFullYear,
    GetMonth,
    GetDate,
    GetDayOfMonth,
    GetDayOfWeek,
    GetDayOfYear,
    GetHours,
    GetMinutes,
    GetSeconds,
    GetMilliseconds,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
    Substring,
    IndexOf,
    LastIndexOf,
    CharAt,
}

/// Where a function stands, and how many arguments it takes, with what it is called on.
pub(super) struct Signature {
    pub(super) function: Function,
    pub(super) name: &'static str,
    /// Whether it can be called as `name(x)`.
    pub(super) is_global: bool,
    /// Whether it can be called as `x.name()`.
    pub(super) is_method: bool,
    pub(super) arguments: std::ops::RangeInclusive<usize>,
}

/// All functions of CEL that there are, except `matches`.
pub(super) const FUNCTIONS: &[Signature] = &[
    both(Function::Size, "size", 1),
    method(Function::Contains, "contains", 2, 2),
    method(Function::StartsWith, "startsWith", 2, 2),
    method(Function::EndsWith, "endsWith", 2, 2),
    global(Function::Int, "int"),
    global(Function::Double, "double"),
    global(Function::String, "string"),
    global(Function::Bool, "bool"),
    global(Function::Type, "type"),
    global(Function::Dyn, "dyn"),
    global(Function::Timestamp, "timestamp"),
    global(Function::Duration, "duration"),
    method(Function::GetFullYear, "getFullYear", 1, 2),
    method(Function::GetMonth, "getMonth", 1, 2),
    method(Function::GetDate, "getDate", 1, 2),
    method(Function::GetDayOfMonth, "getDayOfMonth", 1, 2),
    method(Function::GetDayOfWeek, "getDayOfWeek", 1, 2),
    method(Function::GetDayOfYear, "getDayOfYear", 1, 2),
    method(Function::GetHours, "getHours", 1, 2),
    method(Function::GetMinutes, "getMinutes", 1, 2),
    method(Function::GetSeconds, "getSeconds", 1, 2),
    method(Function::GetMilliseconds, "getMilliseconds", 1, 2),
    method(Function::LowerAscii, "lowerAscii", 1, 1),
    method(Function::UpperAscii, "upperAscii", 1, 1),
    method(Function::Trim, "trim", 1, 1),
    method(Function::Split, "split", 2, 3),
    method(Function::Join, "join", 1, 2),
    method(Function::Replace, "replace", 3, 4),
    method(Function::Substring, "substring", 2, 3),
    method(Function::IndexOf, "indexOf", 2, 3),
    method(Function::LastIndexOf, "lastIndexOf", 2, 3),
    method(Function::CharAt, "charAt", 2, 2),
];

const fn method(function: Function, name: &'static str, least: usize, most: usize) -> Signature {
    Signature { function, name, is_global: false, is_method: true, arguments: least..=most }
}

const fn global(function: Function, name: &'static str) -> Signature {
    Signature { function, name, is_global: true, is_method: false, arguments: 1..=1 }
}

const fn both(function: Function, name: &'static str, arguments: usize) -> Signature {
    Signature { function, name, is_global: true, is_method: true, arguments: arguments..=arguments }
}
