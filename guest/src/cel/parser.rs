//! Reads a condition into a tree: names, functions and numbers of arguments are checked on the way.

use regex::RegexBuilder;

use super::lexer::{Lexeme, tokens};
use super::re2;
use super::tree::{Comprehension, Expression, FUNCTIONS, Kind, Macro, Operator, Signature};
use super::value::{DURATION_TYPE, TIMESTAMP_TYPE, TYPES};
use super::{CelError, Dialect};
use crate::naming::distance;

/// Reads a condition.
pub(super) fn parse(text: &str, dialect: &Dialect) -> Result<Expression, CelError> {
    if text.len() > MAX_BYTES {
        return Err(CelError { at: MAX_BYTES, message: format!("a condition has at most {MAX_BYTES} bytes") });
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, dialect, locals: Vec::new(), depth: 0 };
    let node = parser.expression()?;
    match parser.peek() {
        Lexeme::End => Ok(node),
        other => parser.fail(parser.at(), format!("expected an operator or the end, found {}", describe(other))),
    }
}

/// The maximum length of a condition in bytes.
const MAX_BYTES: usize = 64 << 10;
/// The maximum nesting of a condition; each operator of a chain other than `&&` and `||` counts.
const MAX_DEPTH: usize = 100;
/// The maximum size of a compiled regular expression in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The words that are no names.
const KEYWORDS: &[&str] = &["false", "in", "null", "true"];
/// The words that CEL keeps for later.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

struct Parser<'a> {
    tokens: Vec<(usize, Lexeme)>,
    next: usize,
    dialect: &'a Dialect,
    /// The variables of the macros around this place, innermost last.
    locals: Vec<String>,
    depth: usize,
}

type Parsed = Result<Expression, CelError>;

impl Parser<'_> {
    fn peek(&self) -> &Lexeme {
        &self.tokens[self.next].1
    }

    fn at(&self) -> usize {
        self.tokens[self.next].0
    }

    fn advance(&mut self) -> Lexeme {
        let token = self.tokens[self.next].1.clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Lexeme::Sign(next) if *next == sign);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), CelError> {
        if self.takes(sign) {
            return Ok(());
        }
        self.fail(self.at(), format!("expected `{sign}`, found {}", describe(self.peek())))
    }

    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, CelError> {
        Err(CelError { at, message: message.into() })
    }

    /// Goes one level deeper, unless that is too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, CelError>) -> Result<T, CelError> {
        if self.depth == MAX_DEPTH {
            return self.fail(self.at(), format!("a condition is nested at most {MAX_DEPTH} levels deep"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn expression(&mut self) -> Parsed {
        self.deeper(|parser| {
            let condition = parser.or()?;
            let at = parser.at();
            if !parser.takes("?") {
                return Ok(condition);
            }
            let one = parser.or()?;
            parser.expect(":")?;
            let other = parser.expression()?;
            Ok(Expression { at, kind: Kind::Choose(Box::new([condition, one, other])) })
        })
    }

    fn or(&mut self) -> Parsed {
        self.chain("||", Self::and, Kind::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain("&&", Self::relation, Kind::And)
    }

    /// Reads a chain of one operator, which becomes one node.
    fn chain(&mut self, sign: &str, part: fn(&mut Self) -> Parsed, kind: fn(Vec<Expression>) -> Kind) -> Parsed {
        let first = part(self)?;
        let at = self.at();
        if !matches!(self.peek(), Lexeme::Sign(next) if *next == sign) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.takes(sign) {
            parts.push(part(self)?);
        }
        Ok(Expression { at, kind: kind(parts) })
    }

    fn relation(&mut self) -> Parsed {
        let operator = |token: &Lexeme| match token {
            Lexeme::Sign("==") => Some(Operator::Equal),
            Lexeme::Sign("!=") => Some(Operator::NotEqual),
            Lexeme::Sign("<") => Some(Operator::Less),
            Lexeme::Sign("<=") => Some(Operator::LessOrEqual),
            Lexeme::Sign(">") => Some(Operator::Greater),
            Lexeme::Sign(">=") => Some(Operator::GreaterOrEqual),
            Lexeme::Word(word) if word == "in" => Some(Operator::In),
            _ => None,
        };
        self.binary(operator, Self::sum)
    }

    fn sum(&mut self) -> Parsed {
        let operator = |token: &Lexeme| match token {
            Lexeme::Sign("+") => Some(Operator::Add),
            Lexeme::Sign("-") => Some(Operator::Subtract),
            _ => None,
        };
        self.binary(operator, Self::product)
    }

    fn product(&mut self) -> Parsed {
        let operator = |token: &Lexeme| match token {
            Lexeme::Sign("*") => Some(Operator::Multiply),
            Lexeme::Sign("/") => Some(Operator::Divide),
            Lexeme::Sign("%") => Some(Operator::Remainder),
            _ => None,
        };
        self.binary(operator, Self::unary)
    }

    /// Reads operators of one rank, from left to right.
    fn binary(&mut self, operator: fn(&Lexeme) -> Option<Operator>, part: fn(&mut Self) -> Parsed) -> Parsed {
        let mut left = part(self)?;
        let depth = self.depth;
        while let Some(operator) = operator(self.peek()) {
            let at = self.at();
            self.advance();
            // The tree becomes deeper on its left side.
            self.depth += 1;
            let right = self.deeper(part)?;
            left = Expression { at, kind: Kind::Binary(operator, Box::new([left, right])) };
        }
        self.depth = depth;
        Ok(left)
    }

    /// Reads a value behind signs of one kind: `!!x` and `--x` are right, `!-x` is not.
    fn unary(&mut self) -> Parsed {
        let sign = match self.peek() {
            Lexeme::Sign(sign @ ("!" | "-")) => *sign,
            _ => return self.member(),
        };
        if let Some(number) = self.negative_number()? {
            return self.members(number);
        }
        let at = self.at();
        self.advance();
        let operand = self.deeper(|parser| match parser.peek() {
            Lexeme::Sign(next) if *next == sign => parser.unary(),
            _ => match parser.negative_number()? {
                Some(number) => parser.members(number),
                None => parser.member(),
            },
        })?;
        let kind = if sign == "!" { Kind::Not } else { Kind::Negate };
        Ok(Expression { at, kind: kind(Box::new(operand)) })
    }

    /// Reads a number with a minus sign, which belongs to it: the least whole number has no positive counterpart.
    fn negative_number(&mut self) -> Result<Option<Expression>, CelError> {
        let at = self.at();
        let kind = match (self.peek(), self.tokens.get(self.next + 1).map(|(_, token)| token)) {
            (Lexeme::Sign("-"), Some(Lexeme::Double(number))) => Kind::Double(-number),
            (Lexeme::Sign("-"), Some(Lexeme::Int(number))) => match 0i64.checked_sub_unsigned(*number) {
                Some(number) => Kind::Int(number),
                None => return self.fail(at, "this number has more than 64 bits"),
            },
            _ => return Ok(None),
        };
        self.advance();
        self.advance();
        Ok(Some(Expression { at, kind }))
    }

    fn member(&mut self) -> Parsed {
        let node = self.primary()?;
        self.members(node)
    }

    /// Reads the members, items and methods behind a value.
    fn members(&mut self, mut node: Expression) -> Parsed {
        let depth = self.depth;
        loop {
            let at = self.at();
            if self.takes("[") {
                let index = self.expression()?;
                self.expect("]")?;
                node = Expression { at, kind: Kind::Index(Box::new(node), Box::new(index)) };
            } else if self.takes(".") {
                let at = self.at();
                node = match self.advance() {
                    Lexeme::Quoted(name) => Expression { at, kind: Kind::Select(Box::new(node), name) },
                    Lexeme::Word(name) if KEYWORDS.contains(&name.as_str()) => {
                        return self.fail(at, format!("`{name}` is a keyword; write [{name:?}] instead"));
                    }
                    Lexeme::Word(name) if self.takes("(") => self.method(at, node, &name)?,
                    Lexeme::Word(name) => Expression { at, kind: Kind::Select(Box::new(node), name) },
                    _ => return self.fail(at, "expected the name of a member or function behind the point"),
                };
            } else {
                self.depth = depth;
                return Ok(node);
            }
            self.depth += 1;
            if self.depth >= MAX_DEPTH {
                return self.fail(at, format!("a condition is nested at most {MAX_DEPTH} levels deep"));
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let kind = match self.advance() {
            Lexeme::Int(number) => match i64::try_from(number) {
                Ok(number) => Kind::Int(number),
                Err(_) => return self.fail(at, "this number has more than 64 bits"),
            },
            Lexeme::Double(number) => Kind::Double(number),
            Lexeme::String(text) => Kind::String(text),
            Lexeme::Sign("(") => {
                let node = self.expression()?;
                self.expect(")")?;
                return Ok(node);
            }
            Lexeme::Sign("[") => {
                let items = self.list("]", Self::expression)?;
                self.takes(",");
                self.expect("]")?;
                Kind::List(items)
            }
            Lexeme::Sign("{") => {
                let members = self.list("}", |parser| {
                    let key = parser.expression()?;
                    parser.expect(":")?;
                    Ok((key, parser.expression()?))
                })?;
                self.takes(",");
                self.expect("}")?;
                Kind::Map(members)
            }
            // A point in front names a variable that a macro hides.
            Lexeme::Sign(".") => match self.advance() {
                Lexeme::Word(word) => {
                    let hidden = std::mem::take(&mut self.locals);
                    let node = self.word(at, word);
                    self.locals = hidden;
                    return node;
                }
                other => return self.fail(at, format!("expected a variable, found {}", describe(&other))),
            },
            Lexeme::Word(word) => return self.word(at, word),
            other => return self.fail(at, format!("expected a value, found {}", describe(&other))),
        };
        Ok(Expression { at, kind })
    }

    /// Reads what is separated by commas, up to a closing bracket or a comma before it.
    fn list<T>(
        &mut self,
        close: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, CelError>,
    ) -> Result<Vec<T>, CelError> {
        let mut items = Vec::new();
        if *self.peek() == Lexeme::Sign(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            let is_last = self.tokens.get(self.next + 1).is_some_and(|(_, token)| *token == Lexeme::Sign(close));
            if *self.peek() != Lexeme::Sign(",") || is_last {
                return Ok(items);
            }
            self.advance();
        }
    }

    /// Reads arguments and the closing bracket behind them.
    fn arguments(&mut self) -> Result<Vec<Expression>, CelError> {
        let arguments = self.list(")", Self::expression)?;
        self.expect(")")?;
        Ok(arguments)
    }

    fn word(&mut self, at: usize, word: String) -> Parsed {
        let node = |kind| Ok(Expression { at, kind });
        match word.as_str() {
            "true" => return node(Kind::Bool(true)),
            "false" => return node(Kind::Bool(false)),
            "null" => return node(Kind::Null),
            "in" => return self.fail(at, "expected a value, found `in`"),
            reserved if RESERVED.contains(&reserved) => {
                return self.fail(at, format!("{reserved:?} is a reserved word"));
            }
            _ => {}
        }
        if self.takes("(") {
            return self.function(at, &word);
        }
        if let Some(local) = self.locals.iter().rposition(|name| *name == word) {
            return node(Kind::Local(local));
        }
        if let Some(variable) = self.dialect.variables.iter().position(|name| *name == word) {
            return node(Kind::Variable(variable));
        }
        if let Some(name) = TYPES.iter().find(|name| **name == word) {
            return node(Kind::Type(name));
        }
        if word == "google" {
            return self.time_type(at);
        }
        if let Some(node) = self.namespaced(at, &word)? {
            return Ok(node);
        }
        let known = self.locals.iter().map(String::as_str).chain(self.dialect.variables.iter().copied());
        self.fail(at, format!("there is no variable {word:?}{}", did_you_mean(&word, known)))
    }

    /// Reads the rest of the name that the type of a time or a duration has.
    fn time_type(&mut self, at: usize) -> Parsed {
        for name in [TIMESTAMP_TYPE, DURATION_TYPE] {
            let parts = name.split('.').skip(1).flat_map(|part| [Lexeme::Sign("."), Lexeme::Word(part.to_owned())]);
            let found = self.tokens[self.next..].iter().map(|(_, token)| token);
            if parts.clone().eq(found.take(4).cloned()) {
                self.next += 4;
                return Ok(Expression { at, kind: Kind::Type(name) });
            }
        }
        self.fail(at, "there is no variable \"google\"")
    }

    /// Reads a call of a foreign function with a point in its name.
    fn namespaced(&mut self, at: usize, space: &str) -> Result<Option<Expression>, CelError> {
        let is_space = |name: &str| name.split_once('.').is_some_and(|(before, _)| before == space);
        if !self.dialect.functions.iter().any(|(name, _)| is_space(name)) {
            return Ok(None);
        }
        self.expect(".")?;
        let name = self.advance();
        let Lexeme::Word(name) = name else { return self.fail(at, "expected the name of a function") };
        self.expect("(")?;
        self.function(at, &format!("{space}.{name}")).map(Some)
    }

    /// Reads the arguments of a function behind its opening bracket.
    fn function(&mut self, at: usize, name: &str) -> Parsed {
        if name == "has" {
            return self.has(at);
        }
        let arguments = self.arguments()?;
        if let Some(number) = self.dialect.functions.iter().position(|(own, _)| *own == name) {
            let (_, count) = self.dialect.functions[number];
            self.check_count(at, name, count..=count, arguments.len())?;
            return Ok(Expression { at, kind: Kind::Foreign(number, arguments) });
        }
        if name == "matches" {
            return self.matches(at, arguments);
        }
        match FUNCTIONS.iter().find(|signature| signature.is_global && signature.name == name) {
            Some(signature) => self.call(at, signature, arguments, 0),
            None => {
                let own = self.dialect.functions.iter().map(|(name, _)| *name);
                let known = FUNCTIONS.iter().filter(|signature| signature.is_global).map(|signature| signature.name);
                let hint = match FUNCTIONS.iter().any(|signature| signature.name == name) {
                    true => format!("; it is called on a value, as in `x.{name}(…)`"),
                    false => did_you_mean(name, own.chain(known)),
                };
                self.fail(at, format!("there is no function {name:?}{hint}"))
            }
        }
    }

    /// Reads the arguments of a method behind its opening bracket.
    fn method(&mut self, at: usize, target: Expression, name: &str) -> Parsed {
        let of_macro = match name {
            "all" => Some(Macro::All),
            "exists" => Some(Macro::Exists),
            "exists_one" => Some(Macro::ExistsOne),
            "map" => Some(Macro::Map),
            "filter" => Some(Macro::Filter),
            _ => None,
        };
        if let Some(kind) = of_macro {
            return self.comprehension(at, kind, target, name);
        }
        let mut arguments = vec![target];
        arguments.extend(self.arguments()?);
        if name == "matches" {
            return self.matches(at, arguments);
        }
        match FUNCTIONS.iter().find(|signature| signature.is_method && signature.name == name) {
            Some(signature) => self.call(at, signature, arguments, 1),
            None => {
                let known = FUNCTIONS.iter().filter(|signature| signature.is_method).map(|signature| signature.name);
                self.fail(at, format!("values have no function {name:?}{}", did_you_mean(name, known)))
            }
        }
    }

    /// Checks the number of arguments; those before `own` are what the function is called on.
    fn call(&self, at: usize, signature: &Signature, arguments: Vec<Expression>, own: usize) -> Parsed {
        let (least, most) = (signature.arguments.start() - own, signature.arguments.end() - own);
        self.check_count(at, signature.name, least..=most, arguments.len() - own)?;
        Ok(Expression { at, kind: Kind::Call(signature.function, arguments) })
    }

    fn check_count(
        &self,
        at: usize,
        name: &str,
        wanted: std::ops::RangeInclusive<usize>,
        found: usize,
    ) -> Result<(), CelError> {
        if wanted.contains(&found) {
            return Ok(());
        }
        let (least, most) = (wanted.start(), wanted.end());
        let wanted = if least == most { least.to_string() } else { format!("{least} or {most}") };
        self.fail(at, format!("{name} takes {wanted} arguments, not {found}"))
    }

    /// Compiles the pattern of `matches`, which must be written out so that its cost is known.
    fn matches(&self, at: usize, arguments: Vec<Expression>) -> Parsed {
        let count = arguments.len();
        let Ok([text, pattern]) = <[Expression; 2]>::try_from(arguments) else {
            return self.fail(at, format!("matches takes a text and a pattern, not {count} values"));
        };
        let Kind::String(written) = pattern.kind else {
            return self.fail(pattern.at, "the pattern of matches must be written out as a string");
        };
        let rewritten = match re2::rewrite(&written) {
            Ok(rewritten) => rewritten,
            Err(why) => return self.fail(pattern.at, format!("this is no regular expression: {why}")),
        };
        let compiled = RegexBuilder::new(&rewritten).size_limit(MAX_REGEX_BYTES).build();
        match compiled {
            Ok(regex) => Ok(Expression { at, kind: Kind::Matches(Box::new(text), regex) }),
            Err(regex::Error::CompiledTooBig(_)) => self.fail(pattern.at, "this pattern is too large"),
            Err(error) => {
                let why = error.to_string();
                let last = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                self.fail(pattern.at, format!("this is no regular expression: {last}"))
            }
        }
    }

    /// Reads `has(value.member)` behind its opening bracket.
    fn has(&mut self, at: usize) -> Parsed {
        let argument = self.expression()?;
        self.expect(")")?;
        match argument.kind {
            Kind::Select(value, name) => Ok(Expression { at, kind: Kind::Has(value, name) }),
            _ => self.fail(argument.at, "has takes a member, as in `has(args.path)`"),
        }
    }

    /// Reads the variable and the parts of a macro behind its opening bracket.
    fn comprehension(&mut self, at: usize, kind: Macro, range: Expression, name: &str) -> Parsed {
        let place = self.at();
        let variable = match self.advance() {
            Lexeme::Word(word) if !KEYWORDS.contains(&word.as_str()) && !RESERVED.contains(&word.as_str()) => word,
            other => return self.fail(place, format!("{name} begins with a variable, found {}", describe(&other))),
        };
        self.expect(",")?;
        self.locals.push(variable);
        let parts = self.arguments();
        self.locals.pop();
        let mut parts = parts?.into_iter();
        let (condition, value) = match (kind, parts.next(), parts.next(), parts.next()) {
            (Macro::Map, Some(value), None, _) => (None, Some(value)),
            (Macro::Map, Some(condition), Some(value), None) => (Some(condition), Some(value)),
            (Macro::Map, ..) => return self.fail(at, "map takes a variable, a condition if you like, and a value"),
            (_, Some(condition), None, _) => (Some(condition), None),
            _ => return self.fail(at, format!("{name} takes a variable and a condition")),
        };
        Ok(Expression { at, kind: Kind::Macro(kind, Box::new(Comprehension { range, condition, value })) })
    }
}

/// Describes a token, for messages.
fn describe(token: &Lexeme) -> String {
    match token {
        Lexeme::Word(word) | Lexeme::Quoted(word) => format!("`{word}`"),
        Lexeme::Int(number) => number.to_string(),
        Lexeme::Double(number) => number.to_string(),
        Lexeme::String(_) => "a string".to_owned(),
        Lexeme::Sign(sign) => format!("`{sign}`"),
        Lexeme::End => "the end".to_owned(),
    }
}

/// Returns a hint with the most similar of some names.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    let closest = known.map(|known| (distance(known, &letters), known)).min();
    let similar = closest.filter(|(distance, _)| *distance <= 2);
    similar.map_or_else(String::new, |(_, known)| format!("; did you mean {known:?}?"))
}
