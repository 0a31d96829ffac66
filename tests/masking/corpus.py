"""Texts for the masks, ordinary and hostile, as questions for `toolgate eval`.

    corpus.py [--seed N] [--count N]    prints the questions, one line each
    corpus.py --golden BIN              prints chosen questions with the answers of BIN, for tests/cases/masked.json

The same seed gives the same questions everywhere. Only the section `repository` reads files, and it is not in the golden
file. `compare.py` puts the questions to two programs.
"""

import argparse
import base64
import collections
import itertools
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Question(NamedTuple):
    """A text, what to mask in it, how it is asked (`mask` or one of CALLS), and the section that made it."""

    masks: dict
    text: str
    kind: str
    section: str


def questions(seed=1, count=30_000, repository=True):
    """Yields about `count` questions: each text with all masks, with others, and one in three in a whole call."""
    draw = Draw(seed, "questions")
    for section, text in texts(seed, max(1, count * 3 // 7), repository):
        yield Question(masks_of(["all"]), text, "mask", section)
        yield Question(other_masks(draw), text, "mask", section)
        if draw.chance(3):
            masks = masks_of(["all"]) if draw.chance(2) else other_masks(draw)
            yield Question(masks, text, draw.pick(CALLS), section)
        if section == "shapes":
            # Tokens are also found across the blocks of a result.
            yield Question(masks_of(["all"]), text, draw.pick(["halves", "lines"]), section)
    if count >= 20_000:
        yield from largest()


def largest():
    """Yields texts of the largest size that is masked, and larger ones: a limit for all rules together."""
    for masks, rules in [(masks_of(["all"]), 28), (masks_of(["all"], [], CUSTOM[:1]), 29)]:
        for more in (0, 1):
            blanks = " " * ((80 << 20) // rules + more - 2)
            yield Question(masks, "{}" + blanks, "mask", "largest")


def texts(seed, count, repository=True):
    """Returns this many texts with their sections: a fifth or more are mixtures of the others.

    Pieces of files come last, so that a change of a file changes no other question.
    """
    pool, seen = [], set()

    def fresh(text):
        is_new = text not in seen
        seen.add(text)
        return is_new

    for make in SECTIONS:
        made = [(make.__name__, text) for text in make(Draw(seed, make.__name__)) if fresh(text)]
        # No section takes the place of the others.
        pool += Draw(seed, "share").sample(made, max(1, count // 9))
    of_files = min(count // 25, 3 * FILES)
    chosen = Draw(seed, "chosen").sample(pool, count - of_files - count // 5)
    draw = Draw(seed, "mixed")
    while len(chosen) < count - of_files:
        text = mixture(draw, pool)
        if fresh(text):
            chosen.append(("mixed", text))
    if repository:
        files = list(pieces_of_files(Draw(seed, "repository")))
        chosen += [("repository", text) for text in Draw(seed, "sample").sample(files, of_files)]
    return chosen


def masks_of(groups=(), patterns=(), custom=()):
    """Returns masks as `eval` takes them."""
    custom = [{"pattern": pattern, "replacement": replacement} for pattern, replacement in custom]
    return {"groups": list(groups), "patterns": list(patterns), "custom": custom}


def other_masks(draw):
    """Returns masks other than all built-in ones."""
    form = draw.below(20)
    if form < 6:
        return masks_of([draw.pick(GROUPS)])
    if form < 12:
        return masks_of([], [draw.pick(PATTERNS)])
    if form < 14:
        return masks_of([], draw.picks(PATTERNS, 2, 4))
    if form < 16:
        return masks_of([], [], draw.picks(CUSTOM, 1, 3))
    if form < 17:
        return masks_of([draw.pick(GROUPS)], [draw.pick(PATTERNS)], [draw.pick(CUSTOM)])
    return masks_of(["all"], [], draw.picks(CUSTOM, 1, 2))


def line_of(question):
    """Returns the line that asks a question."""
    masks, text, kind, _ = question
    if kind == "mask":
        return json.dumps({"op": "mask", **masks, "text": text})
    settings = {"masking": masks}
    events = [f'{{"answered":{answer_of(text, kind)}}}']
    if kind == "condense":
        # The whole text is shown to the host before it is cut.
        settings.update(max_result_bytes=48, spill=True)
        events.append('{"condensed":{"kept":"/tmp/kept"}}')
    op = {"op": "execute", "servers": {"a": {"tools": ["x"]}}, "call": {"name": "a.x"}, "settings": settings}
    return f'{json.dumps(op)[:-1]}, "events": [{", ".join(events)}]}}'


def answer_of(text, kind):
    """Returns the result of a tool with this text, as JSON on one line."""
    block = lambda text: {"type": "text", "text": text}
    half = len(text) // 2
    if kind == "text":
        return json.dumps({"content": [block(text)]}, ensure_ascii=False)
    if kind == "spelt":
        # Every third letter is written as an escape.
        said, letters = json.dumps(text, ensure_ascii=False), itertools.count(1)
        said = re.sub(r"\\u....|\\.|[A-Za-z]", lambda found: third(found[0], letters), said)
        return f'{{"content":[{{"type":"text","text":{said}}}]}}'
    if kind == "halves":
        return json.dumps({"content": [block(text[:half]), block(text[half:])], "isError": True})
    if kind == "lines":
        return json.dumps({"content": [block(line) for line in text.split("\n", 12)]}, ensure_ascii=False)
    if kind == "image":
        image = {"type": "image", "mimeType": "image/png", "data": BLOB}
        return json.dumps({"content": [block(text[:half]), image, block(text[half:])], "_meta": {"token": BLOB}})
    if kind == "condense":
        resource = {"type": "resource", "resource": {"uri": "file:///a.txt", "text": text[half:]}}
        return json.dumps({"content": [block(text[:half]), resource]})
    value = read_json(text)
    if not isinstance(value, (dict, list)):
        return json.dumps({"content": [], "structuredContent": {"said": text, "n": 12345678}})
    if kind == "escaped":
        return json.dumps({"content": [], "structuredContent": value})
    # Strings of JSON have no line breaks, so those in the text are blanks.
    raw = text.replace("\n", " ").replace("\r", " ")
    return f'{{"content":[],"structuredContent":{raw}}}'


def third(part, letters):
    """Returns a letter as an escape if it is the third, and anything else as it is."""
    return spell(part) if len(part) == 1 and next(letters) % 3 == 0 else part


def spell(text):
    """Returns a text whose last letter is written as an escape."""
    return f"{text[:-1]}\\u{ord(text[-1]):04x}"


def read_json(text):
    """Returns what a JSON text says, or None."""

    def refuse(word):
        raise ValueError(word)

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


class Draw:
    """Draws the same numbers for the same seed and name, in every version of Python."""

    def __init__(self, seed, name):
        self.state = (zlib.crc32(name.encode()) << 32 | (seed * 0x9E3779B1 + 1) & 0xFFFFFFFF) | 1 << 63
        for _ in range(8):
            self.below(2)

    def below(self, limit):
        self.state ^= self.state << 13 & 0xFFFFFFFFFFFFFFFF
        self.state ^= self.state >> 7
        self.state ^= self.state << 17 & 0xFFFFFFFFFFFFFFFF
        return (self.state >> 11) % limit

    def chance(self, one_in):
        return self.below(one_in) == 0

    def pick(self, items):
        return items[self.below(len(items))]

    def picks(self, items, least, most):
        return [self.pick(items) for _ in range(least + self.below(most - least + 1))]

    def sample(self, items, count):
        """Returns at most this many of the items, in their order."""
        left, kept = min(count, len(items)), []
        for at, item in enumerate(items):
            if self.below(len(items) - at) < left:
                kept.append(item)
                left -= 1
        return kept

    def shuffled(self, items):
        items = list(items)
        for at in range(len(items) - 1, 0, -1):
            other = self.below(at + 1)
            items[at], items[other] = items[other], items[at]
        return items

    def letters(self, alphabet, length):
        return "".join(self.pick(alphabet) for _ in range(length))

    def fill(self, template):
        """Returns a template with each «name» replaced by something of that name."""
        return re.sub("«([a-z0-9_]+)»", lambda found: FILLS[found[1]](self), template)


LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
DIGITS = "0123456789"
BASE64 = UPPER + LOWER + DIGITS + "+/"
HEX = DIGITS + "abcdef"
BLOB = base64.b64encode(bytes(range(96))).decode()

GROUPS = ["basic", "secrets", "security", "kubernetes", "cloud"]
PATTERNS = [
    "kubernetes_secret", "private_key", "certificate", "certificate_authority_data", "ssh_key", "aws_secret_key",
    "aws_access_key", "github_token", "slack_token", "secret_key", "api_key", "token", "password", "email",
    "base64_secret", "base64_short",
]
CALLS = ["text", "spelt", "halves", "lines", "image", "structured", "escaped", "condense"]
CUSTOM = [
    (r"id-(?<value>\d+)", "$1"),
    (r"\b\d{3}-\d{4}\b", "<000-0000>"),
    (r"card \d+", 'a "card"'),
    (r"[a-z]+\d", 'a "quoted" \\ thing'),
    (r"^\w+", "first"),
    (r"\w+$", "last"),
    (r"(?m)^#.*$", "# removed"),
    (r"(?m)^\s*user.*$", "\tuser"),
    (r"secret.*", "s"),
    (r"(?s)BEGIN.*END", "BEGIN \\ END"),
    (r"(?s)data.+", "'d'"),
    (r"[A-Z_]{6,}", "***"),
    (r"\d{4}", "0"),
    (r"\\", "/"),
    (r"[a-z]\\", "X"),
    (r'"a":', "x"),
    (r'","', ";"),
    (r"\n", " "),
    (r"\s+$", ""),
    (r"ab", ""),
    (r"(?i)password", "[MASKED_X]"),
    (r"user", "password: user12345"),
    (r"host(?<value>[^:]*):", "h"),
    (r"(?<value>x)|y", "z"),
    (r"(?<value>[0-9a-f]{8})-", "12345678-"),
    (r"[^ -~\s]+", "?"),
    (r"\w+@", "é@"),
    (r"\[MASKED_[A-Z]+\]", "[M]"),
    (r"\bin\b", ""),
    (r"[\"'`]", "'"),
]

# Every way to write the key of every rule; some are no keys, by one letter.
KEYS = [
    "private_key", "private-key", "private.key", "private key", "privatekey", "client-key-data", "client_keydata",
    "clientkeydata", "certificate-authority-data", "certificate_authority_data", "certificateauthoritydata",
    "client-certificate-data", "clientCertificateData", "ca-bundle", "ca_bundle", "caBundle", "aws_secret_access_key",
    "aws.secret.access.key", "aws secret key", "awsSecretKey", "aws_session_token", "AWS-SESSION-TOKEN",
    "secret_access_key", "secretAccessKey", "aws_access_key_id", "awsAccessKey", "access_key_id", "access key id",
    "github_token", "GH-TOKEN", "ghPat", "github.pat", "slack_bot_token", "slackToken", "slack user token",
    "slack_app-token", "secret", "client_secret", "secret_key", "SECRET_KEY_BASE", "secretkeybase", "secret-access",
    "api_key", "apikey", "apiKey", "X-API-Key", "app.key", "access key", "account_key", "authKey", "encryption-key",
    "masterKey", "signing_key", "subscription-key", "token", "access_token", "nextPageToken", "page_token",
    "continuation-token", "bearer", "jwt", "Authorization", "Proxy-Authorization", "password", "passwd", "passwort",
    "passphrase", "pass-phrase", "pass phrase", "pwd", "DB_PASS", "dbPassword", "mysql_pwd", "tokens", "token_type",
    "secretName", "secrets", "passwords", "password_file", "pass", "key", "publicKey", "keys", "monkey", "Kennwort",
    "data", "name", "value",
]
# What opens a key, and what stands between the key and its value.
SEPARATORS = [
    ("", ": "), ("", ":"), ("", "="), ("", " = "), ("", "=="), ("", " === "), ("", ":="), ("", " => "), ("", "::"),
    ("", " :\t"), ("", ">"), ("<", ">"), ('"', '": '), ('"', '":'), ('"', '" :'), ("'", "': "), ("'", "' => "),
    ("`", "`: "), ('["', '"] = '), ("['", "']="), (r"\"", r"\": "), (r"{\\\"", r"\\\":"), (r"\\\\\\\"", r"\\\\\\\": "),
    ('["', '", '), ("('", "', "), ("--", " "), ("--db-", "="), ("-", "\t"), ("--", "\n- "), ('["--', '", '),
    ("- --", "\n  -  "), ("", " "), ("", "\n"), ("", ":\n"), ("", ":\n\n  "), ("the ", " =\r\n"), ("**", ":**\n`"),
    ("- name: ", "\n  value: "), ('- name: "', '"\n  value: '), ('{"name": "', '", "value": '),
    ("{'key':'", "','value':"),
    (r'{\"name\":\"', r'\",\"value\":'), ("name=", r"\nvalue: "), ("", ": |\n  "), ("  ", ": >-\n    "), ("", "："),
    ("?a=1&", "="), ("a;", "="), ("//", ", "), ("", "1: "), ("x", "22="), ("", "333: "), ("_", "' , '"),
]
SECRETS = [
    "hunter2hunter2", "hunter2", "abc123", "abc12", "s3cret-s3cret", "Tr0ub4dor&3", "48392011", "p@ssw0rd!",
    "correcthorsebattery", "correcthors", "abcdef1234567890", "abcdef123456789", "abcdefg", "abcdefgh", "a", "aB3d",
    "dGVzdA==", "aHVudGVyMmh1bnRlcjI=", "RkFLRS1CQVNFNjQtTk9UX1JFQUxfREFUQQ",
    "3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "550e8400-e29b-41d4-a716-446655440000", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "пароль-пароль1", "密码密码密码123456", "pass🔑word🔑1", "x" * 19, "Aa1" * 30,
]
# How a value may be written; §s is the secret.
VALUES = [
    "§s", '"§s"', "'§s'", "`§s`", r"\"§s\"", r"\\\"§s\\\"", r"\'§s\'", '"§s', "'§s", '§s"', "§s'", r"\"§s", r'\"§s\\\"',
    "Bearer §s", '"Bearer §s"', "Basic  §s", "token\t§s", "'Digest §s'", "bearer§s", "Bearer ", "ApiKey §s §s",
    "<§s>", "${§s}", "$(§s)", "{{ §s }}", "${X:-§s}", "$§s", "%§s%", "null", "true", "string", "Required", "undefined",
    "[§s]", '["§s"]', "{§s}", '{"a":"§s"}', "(§s)", "§s()", "§s(", "get.§s();", "process.env.SECRET1",
    "os.environ['X']",
    "env.X_1", "getPassword()", "ENV[§s", "§s,", "§s;", "§s, §s", "§s,b=2", "§s&x=1", "§s;b:2", "§s;;§s", "§s)x", "§s}",
    "(§s)§s)", "§s]§s", "[MASKED_TOKEN]", "[MASKED_TOKEN]§s", "§s[MASKED_X]§s", "[MASKED_§s", "[REDACTED]",
    "[REDACTED]§s",
    "[REDACTED: data masking failure — tool result could not be safely processed]", "[REDACTED: §s]", "[1, 2]",
    r'"§s \"§s\" x"', "'§s''§s'", r"§s\n§s", r"§s\\n§s", r"§s\t", r"§s\u0041§s", r"C:\§s\x", "§s\\", '"§s\\\\"',
    '"§s\\"',
    "", '""', "''", '"   "', '" §s "', "12345678", "1.5e10", "-12345678", "-§s", "--§s", "/home/§s", "~/§s", ":§s",
    "::§s", "word word", '"two words §s"', "identifier expected", "identifier, expected", "identifier  expected",
    "'\n§s'", '\n"§s"', "\n  '§s'", "\r\n\t\"§s\"", "|\n    §s\n    §s\n", "|-\n  §s\n\n  §s\nend", "|2\n §s", "> §s",
    "\u00a0§s\u00a0", "\u200b§s", "§s\u2003x", "§s\u3000", "§s\x0bx", "§s\0x", '"§s\0x"', "§s#x", "§s #x", "§s`§s",
    "§s<br>", "§s…", "**§s**", "`§s", '""§s""', "'\"§s\"'", '"\'§s\'"', "=§s", "§s=§s", "§s:§s", "§s@example.com",
    "https://u:§s@h.example.com/", '"§s": "§s"', "'§s': 1", "§s\n", "§s\n\n", "§s x: §s", "v1.2.3", "2024-01-01",
]
BEFORE = [
    "", "", "", "x", " ", "\n", "é", '{"a":1,', "- ", "# ", "\"", "'", "it's ", "5\" ", "[MASKED_EMAIL] ", "a: b\n  ",
    "\0",
]
AFTER = [
    "", "", "", "\n", " x", "}", '"', "'", ", b: 1", "\nb: 1", '","b":"c"}', " and more", "\r\n", "\\n", "\\", "</a>",
    " é", "\0b",
]

WORDS = (
    "server cluster request answer model config page table deploy region bucket release network volume account invoice "
    "user order customer queue worker session cache index report window engine filter handler parser stream buffer "
    "letter garden river window summer bridge paper simple quick green early local remote shared stable empty primary"
).split()
SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "See the documentation for details.", "Nothing was found.",
    "To reset your password, open the settings page.", "A token is the smallest unit that a parser reads.",
    "Secrets rotate every 30 days, tokens after 3600s.", "Don't share your API key; it's private.",
    "The password must have at least 12 characters!", "Use `kubectl get secrets -n default` to list them.",
    "Which key? The primary key of the table users2 is id.", "He said: \"never mind\".",
    "It costs 5\" of space, doesn't it?",
    "Basic authentication is deprecated since version 2.4.1.", "Bearer of bad news: the build failed.",
    "Authorization: required for all endpoints.", "Contact support@example.com or call 555-0100.",
    "Visit https://example.com/docs/v2/keys?page=2#top for more.", "All data is encrypted, and its kind: unknown.",
]
OTHER_TONGUES = [
    "密码：请输入您的密码，至少８位。令牌（token）有效期为１小时。", "パスワード：８文字以上で入力してください。ＡＢＣ株式会社",
    "Das Passwort lautet: «secret». Bitte ändern Sie es spätestens übermorgen!",
    "Größe: 5 m², Straße «number», Öl für 3 €.",
    "Пароль: «secret», а токен истёк вчера.", "كلمة المرور: «secret» \u200f(password)", "비밀번호: «secret» 입니다",
    "naïve café — cre\u0300me brûlée, pass\u00e9, 𝑥² + 𝑦² = 𝑟²", "🔑 password 👉 «secret» 👈",
    "👨\u200d👩\u200d👧 token: «secret» ✅",
    "密码: «secret»，用户: «user»", "İstanbul'da şifre=«secret»", "paſſword: «secret»", "to\u212aen: «secret»",
    "Ｐａｓｓｗｏｒｄ：«secret»",
]

FILLS = {
    "word": lambda d: d.pick(WORDS),
    "name": lambda d: d.pick(WORDS).capitalize() + d.pick(WORDS).capitalize(),
    "snake": lambda d: d.pick(WORDS) + "_" + d.pick(WORDS),
    "sentence": lambda d: d.pick(SENTENCES),
    "user": lambda d: d.pick(["admin", "deploy", "root", "svc-web", "user1", "backup_2"]),
    "host": lambda d: d.pick(["db.example.com", "10.0.0.7", "localhost", "api-2.example.org", "web.internal"]),
    "ip": lambda d: ".".join(str(d.below(256)) for _ in range(4)),
    "port": lambda d: str(d.pick([22, 80, 443, 5432, 8080])),
    "number": lambda d: str(d.below(10 ** (1 + d.below(9)))),
    "date": lambda d: f"2024-{1 + d.below(12):02}-{1 + d.below(28):02}",
    "time": lambda d: f"2024-{1 + d.below(12):02}-{1 + d.below(28):02}T{d.below(24):02}:{d.below(60):02}:{d.below(60):02}Z",
    "clock": lambda d: f"{d.below(24):02}:{d.below(60):02}:{d.below(60):02}.{d.below(1000):03}",
    "level": lambda d: d.pick(["INFO", "WARN", "ERROR", "debug", "TRACE"]),
    "hex": lambda d: d.letters(HEX, d.pick([7, 8, 12])),
    "sha": lambda d: d.letters(HEX, d.pick([32, 40, 64])),
    "uuid": lambda d: "-".join(d.letters(HEX, length) for length in (8, 4, 4, 4, 12)),
    "b64": lambda d: encoded(d, 1 + d.below(48)),
    "b64long": lambda d: encoded(d, 60 + d.below(200)),
    "jwt": lambda d: f"eyJ{d.letters(BASE64[:62], 8 + d.below(20))}.{d.letters(BASE64[:62] + '_-', 7 + d.below(30))}.{d.letters(BASE64[:62], d.below(43))}",
    "key": lambda d: d.pick(KEYS),
    "secret": lambda d: d.pick(SECRETS),
    "value": lambda d: d.pick(VALUES).replace("§s", d.pick(SECRETS)),
    "email": lambda d: d.pick(["support@example.com", "a.b+c@mail.example.org", "no-reply@example.co.uk", "git@example.com"]),
    "path": lambda d: d.pick(["/usr/share/", "/home/user/src/", "src/", "C:\\Users\\me\\", "./"]) + d.pick(WORDS) + d.pick([".rs", ".py", "/index.html", "", ".tar.gz"]),
    "url": lambda d: f"https://{d.pick(['example.com', 'api.example.org:8443', 'cdn.example.net'])}/{d.pick(WORDS)}/{d.pick(WORDS)}?id={d.below(9999)}",
    "version": lambda d: f"{d.below(3)}.{d.below(30)}.{d.below(12)}",
    "token": lambda d: shaped(d),
    "mask": lambda d: d.pick(["[MASKED_PASSWORD]", "[MASKED_TOKEN]", "[REDACTED]", "[MASKED_X1]", "[MASKED_]", "[MASKED_a b]", "[MASKED"]),
}


def encoded(draw, length):
    """Returns base64 of this many random bytes."""
    return base64.b64encode(bytes(draw.below(256) for _ in range(length))).decode()


# Values that are recognized by their form: a prefix, the signs that follow, and the least number of them.
SHAPES = [
    ("ssh-rsa ", BASE64, 20), ("ssh-ed25519\t", BASE64, 20), ("ecdsa-sha2-nistp256 ", BASE64, 20),
    ("sk-ssh-ed25519@openssh.com ", BASE64, 20), ("AKIA", UPPER + DIGITS, 12), ("ASIA", UPPER + DIGITS, 12),
    ("AROA", UPPER + DIGITS, 12), ("AIPA", UPPER + DIGITS, 12), ("ghp_", BASE64[:62], 20), ("ghs_", BASE64[:62], 20),
    ("ghx_", BASE64[:62], 20), ("github_pat_", BASE64[:62] + "_", 20), ("xoxb-", BASE64[:62] + "-", 10),
    ("xoxe.xoxp-", BASE64[:62] + "-", 10), ("xapp-", BASE64[:62] + "-", 10),
    ("https://hooks.slack.com/services/", BASE64[:62] + "/", 16),
    ("hooks.slack.com/workflows/", BASE64[:62] + "/_", 16),
    ("sk-", BASE64[:62] + "_-", 20), ("sk_live_", BASE64[:62], 16), ("rk_test_", BASE64[:62], 16),
    ("AIza", BASE64[:62] + "_-", 35), ("eyJ", BASE64[:62] + "_-", 8), ("Bearer ", BASE64 + "._~-", 16),
    ("basic\t", BASE64 + "._~-", 16), ("Authorization: token ", BASE64 + "._~-", 1), ("glpat-", BASE64[:62] + "_-", 16),
    ("npm_", BASE64[:62], 30), ("hf_", BASE64[:62], 30),
]


def shaped(draw, more=None):
    """Returns a token of a known form, with a few signs more or less than it needs."""
    prefix, alphabet, least = draw.pick(SHAPES)
    length = max(0, least + (draw.pick([-1, 0, 0, 1, 3, 20]) if more is None else more))
    body = draw.letters(alphabet, length)
    if prefix == "eyJ":
        body += "." + draw.letters(alphabet, draw.pick([7, 8, 30])) + draw.pick(["", ".", "." + draw.letters(alphabet, 20)])
    return prefix + body


SECTIONS = []


def section(make):
    """Registers a function that yields the texts of a section."""
    SECTIONS.append(make)
    return make


def filled(draw, templates, count, most=1, joint="\n"):
    """Yields texts of one or several templates each."""
    for at in range(count):
        first = draw.fill(templates[at % len(templates)])
        yield joint.join([first] + [draw.fill(draw.pick(templates)) for _ in range(draw.below(most))])


@section
def prose(draw):
    for _ in range(60):
        yield " ".join(draw.picks(SENTENCES, 1, 9))
    yield from filled(draw, [
        "The «word» of the «word» is «word», and its «key» is «word» too.",
        "Set the «key» to «secret» before you start the «word»; then «word».",
        "# «name»\n\n«sentence» «sentence»\n\n- «key»: the «word» of the «word»\n- «key»: «sentence»\n\n## «key»\n\n«sentence»",
        "**«key»:** «value»\n\n> «sentence»\n\n1. `«key»`\n2. «word»",
        "Hello,\n\nyour «key»:\n«secret»\n\nRegards\n«email»",
        "Which «key»?\n«secret»\nThat «word» (see «url»).",
        "unexpected token: «word» expected at line «number»\nsecret: «word» «word»\npassword: «word», «word»",
    ], 70, 3, "\n\n")


@section
def other_tongues(draw):
    yield from filled(draw, OTHER_TONGUES, 60, 3)
    yield from filled(draw, ["«sentence»"] + OTHER_TONGUES, 30, 4, " ")


@section
def code(draw):
    yield from filled(draw, [
        'fn «snake»(«key»: &str) -> Result<String, Error> {\n    let token = «snake»()?;\n    match token {\n        Token::Key => Some(Key),\n        Token::Value(v2) => None,\n    }\n}\n',
        'let «snake» = Config { password: "«secret»".into(), user: «word».clone(), token: None };\nassert_eq!(«word».«word»(), "«secret»");\n',
        'use std::collections::BTreeMap;\n\n/// «sentence»\npub struct «name»<\'a> {\n    key: &\'a str,\n    secret: Option<String>,\n}\n',
        "def «snake»(username, password='«secret»'):\n    token = request.headers.get('token')\n    return {'password': password, \"«key»\": os.environ['X']}\n",
        "class «name»:\n    api_key = os.environ[\"API_KEY\"]\n    password = getpass(\"Password: \")\n    secret = «snake»(«word»)[0]\n    pairs = [('password', '«secret»'), (\"«word»\", 1)]\n",
        "const { password, token } = req.body;\nconst «word» = { apiKey: process.env.API_KEY, secret: `«secret»`, «word»: 12 };\nfetch(\"«url»\", { headers: { Authorization: `Bearer ${token}` } });\n",
        "export default { data() { return { password: '', «word»: [\"token\", \"«secret»\"] } } }\n",
        "cfg := &Config{Password: \"«secret»\", Token: os.Getenv(\"TOKEN\")}\nif pwd == \"\" { return fmt.Errorf(\"password: %w\", err) }\n",
        "#!/bin/sh\nset -e\nPASSWORD=${PASSWORD:-«secret»}\nexport DB_PASS='«secret»' «key»=«value»\ncurl -u «user»:«secret» «url» | jq '.data[\"token\"]'\nmysql -h «host» -p«secret» --password=\"$PW\"\n",
        "CREATE TABLE users (id int, password varchar(255), token varchar(64));\nINSERT INTO users (name, password) VALUES ('«user»', '«secret»');\nALTER USER «user» WITH PASSWORD '«secret»';\n",
        "<?php\n$config['password'] = '«secret»';\ndefine('SECRET_KEY', \"«secret»\");\n$a = array('token' => '«secret»');\n",
        "String password = getPassword();\nprivate static final String API_KEY = \"«secret»\"; // «sentence»\n",
        "fields = [\"id\", \"password\", \"created_at\"]\nrequired = [\"password\", \"«secret»\"]\n",
    ], 110, 3)


def manifest(draw, kind=None):
    """Returns a Kubernetes object."""
    kind = kind or draw.pick(["Pod", "Service", "ConfigMap", "Secret", "Secret", "Deployment", "Event", "Node"])
    name = f"{draw.pick(WORDS)}-{draw.letters(HEX, 5)}"
    meta = {"name": name, "namespace": draw.pick(["default", "kube-system"]), "labels": {"app": draw.pick(WORDS)},
            "uid": draw.fill("«uuid»"), "creationTimestamp": draw.fill("«time»"),
            "resourceVersion": draw.fill("«number»")}
    head = {"apiVersion": "v1", "kind": kind, "metadata": meta}
    values = lambda: {draw.pick(["username", "password", "tls.crt", "tls.key", "config.json", "a", ".dockerconfigjson"]): draw.pick([
        draw.fill("«b64»"), draw.fill("«secret»"), "", draw.fill("«secret»\n«word»: «secret»\n"), "12345678",
        draw.fill("{\"token\": \"«secret»\"}")])
        for _ in range(draw.below(4))}
    if kind == "Secret":
        head["data" if draw.below(3) else "stringData"] = values()
        head["type"] = draw.pick(["Opaque", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "Other"])
        if draw.chance(3):
            inner = {"apiVersion": "v1", "data": dict(head.get("data") or {"a": "eA=="}), "kind": "Secret"}
            meta["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(inner) + "\n"}
    elif kind == "ConfigMap":
        head["data"] = values()
    elif kind in ("Pod", "Deployment"):
        environment = [{"name": draw.pick(KEYS).replace(" ", "_"), "value": draw.pick(SECRETS)},
                       {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
                       {"name": "LEVEL", "value": "info"}]
        container = {"name": "app", "image": draw.fill("registry.example.com/«word»:«version»@sha256:«sha»"), "env": environment,
                     "args": ["--port", "8080", "--token", draw.pick(SECRETS), draw.fill("--«key»=«secret»")]}
        head["spec"] = {"containers": [container], "nodeName": draw.pick(WORDS), "serviceAccount": "default"}
        head["status"] = {"phase": "Running", "podIP": draw.fill("«ip»"), "ready": True, "restarts": draw.below(9)}
    elif kind == "Service":
        head["spec"] = {"type": "ClusterIP", "ports": [{"port": 80, "targetPort": 8080}], "selector": {"app": name}}
    else:
        head["involvedObject"] = {"kind": "Secret", "name": name}
        head["message"] = draw.fill("«sentence» data: «word»")
    return head


def yaml_of(value, indent=0, style=0):
    """Returns the lines of a value in YAML; the style says how lists are indented and words are quoted."""
    blank = " " * indent
    if isinstance(value, dict) and value:
        for key, member in value.items():
            if isinstance(member, (dict, list)) and member:
                if style & 4 and is_flat(member):
                    yield f"{blank}{key}: {flow_of(member)}"
                    continue
                yield f"{blank}{key}:"
                yield from yaml_of(member, indent + (0 if isinstance(member, list) and style & 1 else 2), style)
            elif isinstance(member, str) and "\n" in member:
                yield f"{blank}{key}: |"
                yield from (f"{blank}  {line}" for line in member.rstrip("\n").split("\n"))
            else:
                yield f"{blank}{key}: {scalar_of(member, style)}"
    elif isinstance(value, list) and value:
        for item in value:
            lines = list(yaml_of(item, indent + 2, style))
            yield f"{blank}- {lines[0].lstrip()}"
            yield from lines[1:]
    else:
        yield blank + scalar_of(value, style)


def is_flat(value):
    """Reports whether a value is a mapping of scalars."""
    return isinstance(value, dict) and not any(isinstance(part, (dict, list)) for part in value.values())


def scalar_of(value, style):
    """Returns a scalar in YAML."""
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z][\w./@=+-]*", value) and value not in ("true", "null")
        if style & 2 or not plain:
            return "'" + value.replace("'", "''") + "'" if style & 8 else json.dumps(value, ensure_ascii=False)
        return value
    return json.dumps(value)


def flow_of(value):
    """Returns a mapping of scalars in YAML's flow style."""
    return "{" + ", ".join(f"{key}: {scalar_of(member, 0)}" for key, member in value.items()) + "}"


def written(draw, value):
    """Returns an object as JSON, a Python literal or YAML."""
    form = draw.below(10)
    if form < 2:
        return json.dumps(value, separators=(",", ":"))
    if form < 3:
        return json.dumps(value, ensure_ascii=False)
    if form < 5:
        return json.dumps(value, indent=draw.pick([1, 2, 4]), ensure_ascii=False) + draw.pick(["", "\n"])
    if form < 6:
        return repr(value)
    return "\n".join(yaml_of(value, 0, draw.below(16))) + draw.pick(["\n", "\n", ""])


@section
def kubernetes(draw):
    for _ in range(220):
        form = draw.below(6)
        if form < 3:
            value = manifest(draw)
        elif form < 4:
            value = {"apiVersion": "v1", "items": [manifest(draw) for _ in range(1 + draw.below(3))], "kind": "List"}
        else:
            value = manifest(draw, "Secret")
            names = draw.shuffled(value)
            value = {name: value[name] for name in names}
        yield written(draw, value)
    for _ in range(30):
        yield draw.pick(["---\n", "", "\n"]).join(written(draw, manifest(draw)) for _ in range(1 + draw.below(3)))


@section
def logs(draw):
    yield from filled(draw, [
        '«ip» - «user» [01/Jan/2024:10:30:00 +0000] "GET /«word»?token=«secret»&id=«number» HTTP/1.1" 200 «number» "«url»" "curl/8.0"',
        "Jan  1 10:30:00 «word» sshd[«number»]: Accepted password for «user» from «ip» port «number» ssh2",
        '{"ts":"«time»","level":"«level»","msg":"«sentence»","«key»":"«secret»","user":"«user»","n":«number»}',
        '{"log":"«time» «level» «key»: «secret»\\n","stream":"stderr","time":"«time»"}',
        'time="«time»" level=«level» msg="«word» «word»" «key»="«secret»" id=«hex» err="dial tcp «ip»:«port»"',
        "I0101 10:30:00.«number»       1 «word».go:«number»] \"«word»\" pod=\"default/«word»-«hex»\" «key»=«value»",
        "«date» «clock» «level» [main] com.example.«name» - «key»: «value»",
        "«level»:root:«word» «snake» token=«token» took «number»ms",
        "[«time»] «level» «snake»: token refreshed, user=«number», took 12ms",
        "«time» stdout F «user» logged in with «key» «secret» from «ip»",
        "kernel: [«number».«number»] usb 1-1: new device idVendor=«hex», idProduct=«hex»",
        "type=USER_AUTH msg=audit(«number».«number»:«number»): pid=1 uid=0 acct=\"«user»\" exe=\"«path»\" hostname=«host»",
        "error: «sentence» (request id «uuid», trace «sha»)",
        "«time» connect postgres://«user»:«secret»@«host»:«port»/«word» failed: «sentence»",
        "«clock» > AUTH «secret»\n«clock» < OK\n«clock» > SET password:«number» «secret» EX 60",
    ], 150, 8)


@section
def tables(draw):
    for _ in range(140):
        columns = [draw.pick(["id", "name", "user", "city", "created_at", "password", "api_key", "token", "db-pass", "Secret Key", "Authorization", "data", "a b c d", ""])
                   for _ in range(1 + draw.below(5))]
        rows = [[draw.pick([draw.fill("«number»"), draw.pick(WORDS), draw.pick(SECRETS), draw.fill("«date»"), draw.fill("«email»"), "", "null", "a b", draw.fill("«mask»")])
                 for _ in columns] for _ in range(draw.below(5))]
        if rows and draw.chance(6):
            rows[-1].append("extra")
        form = draw.below(8)
        if form < 3:
            comma = draw.pick([",", ";", "\t", ", ", "; "])
            quote = draw.pick(["", "", '"', "'"])
            lines = [comma.join(f"{quote}{cell}{quote}" for cell in row) for row in [columns, *rows]]
        elif form < 5:
            lines = ["| " + " | ".join(row) + " |" for row in [columns, ["---"] * len(columns), *rows]]
        elif form < 6:
            lines = [" " + " | ".join(row) + " " for row in [columns, *rows]]
            lines.insert(1, draw.pick(["-+-".join("---" for _ in columns), "----", "", "x--y"]))
        elif form < 7:
            rule = "+" + "+".join("-" * 12 for _ in columns) + "+"
            lines = [rule, *("| " + " | ".join(cell.ljust(10) for cell in row) + " |" for row in [columns, *rows]), rule]
        else:
            titles = [cell.upper() for cell in columns]
            lines = ["   ".join(cell.ljust(14) for cell in row) for row in [titles, *rows]]
        before, breaks = draw.pick(["", "", "Result:\n", "\n"]), draw.pick(["\n", "\n", "\r\n"])
        yield before + breaks.join(lines) + draw.pick(["", "\n", "\n(3 rows)\n"])
    yield from (f"password,{'x' * length}\nhunter2,a" for length in (1, 39, 40, 41))
    yield from (f"|{'x|' * columns}password|\n|{'1|' * columns}hunter2|" for columns in (1, 62, 63, 64, 65))
    for length in (1023, 1024, 1025, 1026):
        header = f"password{(',' + 'x' * 39) * 25},"
        yield f"{header}{'x' * (length - len(header))}\nhunter2{',1' * 26}"
        yield f"{'x' * (length - 9)}password:\nhunter2"
        yield f"{'é' * (length // 2 - 5)} password:\nhunter2"


@section
def settings_files(draw):
    yield from filled(draw, [
        "«key»=«value»", "export «key»=\"«secret»\"", "# «sentence»", "«key»: «value»", "[«word»]", "«key» = «value»",
        "",
        "DATABASE_URL=postgres://«user»:«secret»@«host»:«port»/«word»?sslmode=disable", "«word».«key»=«secret»",
        "PORT=«port»",
        "spring.datasource.«key»=${DB_PASSWORD}", "«key»=", "set «key» «secret»", "«snake»=«path»",
        "; «key» = «secret»",
        "<add key=\"«key»\" value=\"«secret»\" />", "machine «host» login «user» password «secret»",
        "«host»:«port»:«word»:«user»:«secret»",
        "requirepass «secret»", "PWD=/home/user/project", "OLDPWD=~/x1y2z3",
    ], 150, 12)


@section
def traffic(draw):
    yield from filled(draw, [
        "GET /«word»?page_token=«secret»&access_token=«secret»&q=«word» HTTP/1.1\r\nHost: «host»\r\nAuthorization: Bearer «jwt»\r\nX-API-Key: «secret»\r\nCookie: session=«sha»; token=«secret»\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: sid=«b64»; Path=/; HttpOnly\r\nETag: \"«sha»\"\r\n\r\n{\"access_token\":\"«jwt»\",\"token_type\":\"Bearer\",\"expires_in\":3600}",
        "POST /login HTTP/2\nauthorization: Basic «b64»\nproxy-authorization: Digest username=\"«user»\", nonce=\"«sha»\"\n\nusername=«user»&password=«secret»&remember=1",
        "curl -H \"Authorization: Bearer «secret»\" -H 'x-api-key: «secret»' -d '{\"password\":\"«secret»\"}' «url»",
        "curl -u «user»:«secret» --token «secret» https://«user»:«secret»@«host»/«word»",
        "wget --password=«secret» --user «user» ftp://«user»:«secret»@«host»/«word».tar.gz",
        "$ docker login -u «user» --password-stdin «host» <<< «secret»\n$ helm install «word» --set auth.password=«secret»,auth.token=\"«secret»\"",
        "* Connected to «host» («ip») port 443\n> authorization: token «token»\n< www-authenticate: Basic realm=\"«word»\"\n{\"error\":\"invalid_token\",\"error_description\":\"«sentence»\"}",
        "«url»&sig=«b64»&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20240101&X-Amz-Security-Token=«b64long»",
    ], 90, 2)


@section
def traces(draw):
    yield from filled(draw, [
        "Exception in thread \"main\" java.lang.IllegalStateException: «key»: «value»\n\tat com.example.«name».«snake»(«name».java:«number»)\n\tat java.base/java.lang.Thread.run(Thread.java:«number»)\nCaused by: «sentence»",
        "Traceback (most recent call last):\n  File \"«path»\", line «number», in «snake»\n    connect(password='«secret»', token=token)\nValueError: «key»=«secret»",
        "thread 'main' panicked at «path»:«number»:5:\ncalled `Result::unwrap()` on an `Err` value: Os { code: 2, kind: NotFound, message: \"«key»: «secret»\" }\nstack backtrace:\n   0: rust_begin_unwind\n   1: «snake»::«snake»::h«hex»",
        "TypeError: Cannot read properties of undefined (reading 'token')\n    at «snake» («path»:«number»:12)\n    at async Promise.all (index 0) {\n  password: '«secret»',\n  «snake»: [ 'token', '«secret»' ]\n}",
        "goroutine 1 [running]:\nmain.«snake»(0xc«hex», {0x«hex», 0x10})\n\t«path»:«number» +0x«hex»\npanic: secret: «secret»",
        "error[E0308]: mismatched types\n  --> «path»:«number»:5\n   |\n12 |     let token: Token = \"«secret»\";\n   |                ^^^^^ expected `Token`, found `&str`\n",
    ], 60, 2)


@section
def histories(draw):
    yield from filled(draw, [
        "commit «sha»\nAuthor: «user» <«email»>\nDate:   Mon Jan 1 10:30:00 2024\n\n    «word»: token rotation, password hashing\n\n    «sentence»\n",
        "«hex» (HEAD -> main, tag: v«version») «word»: «sentence»\n«hex» Merge pull request #«number» from «user»/«word»\n",
        "diff --git a/«word».rs b/«word».rs\nindex «hex»..«hex» 100644\n--- a/«word».rs\n+++ b/«word».rs\n@@ -1,2 +1,2 @@\n-let password = \"«secret»\";\n+let password = \"«secret»\";\n+«key»: «value»\n",
        "On branch main\nYour branch is up to date with 'origin/main'.\n\n\tmodified:   secret.yaml\n\tmodified:   token2.rs\n",
        "origin\tssh://git@«host»/«word»/«word».git (fetch)\norigin\thttps://«user»:«token»@«host»/«word».git (push)\ngit@example.com:«word»/«word».git",
    ], 60, 2)


@section
def results_of_queries(draw):
    yield from filled(draw, [
        " id |   name   |  password  \n----+----------+------------\n  1 | «user» | «secret»\n  2 | «word» | «secret»\n(2 rows)\n",
        "*************************** 1. row ***************************\n      id: «number»\n    User: «user»\npassword: «secret»\n   token: NULL\n",
        '[{"id":«number»,"name":"«user»","password":"«secret»","token":null,"email":"«email»"},{"id":2,"password":12345678}]',
        '{"columns":["id","«word»","token"],"rows":[[1,"«word»","«secret»"],[2,"«secret»",12345678901]],"count":2}',
        '{"fields":[{"name":"password","type":"varchar"},{"name":"«key»","value":"«secret»"}],"values":[["«secret»","«secret»"]]}',
        "[('«user»', '«secret»', datetime.date(2024, 1, 1)), ('password', '«secret»')]",
        "id,name,api_key\n1,«word»,«secret»\n2,\"«word», «word»\",«b64»\n",
        '{"hits":{"total":«number»,"hits":[{"_id":"«b64»","_source":{"«key»":"«secret»","message":"«key»: «secret»"}}]}}',
    ], 60, 1)


@section
def markup(draw):
    yield from filled(draw, [
        '<form action="/login"><label>Password</label><input type="password" name="password" value="«secret»"><input name="csrf_token" value=\'«b64»\'/></form>',
        "<user><name>«user»</name><password>«secret»</password><Token >«secret»</Token><apiKey><![CDATA[«secret»]]></apiKey></user>",
        '<!DOCTYPE html>\n<html><head><title>«word»</title><meta name="api-key" content="«secret»"></head><body class="a-b" data-token="«secret»"><a href="mailto:«email»">«email»</a><img src="icon@2x.png" srcset="data:image/png;base64,«b64long»"></body></html>',
        "<script>window.config = {\"apiKey\": \"«secret»\", token: '«jwt»'};</script>",
        "<property name=\"«key»\" value=\"«secret»\"/>\n<entry key=\"«key»\">«secret»</entry>",
        "<td>password</td><td>«secret»</td>\n<dt>«key»</dt><dd>«secret»</dd>",
        "&lt;password&gt;«secret»&lt;/password&gt; &amp;token=«secret»&quot;",
    ], 60, 2)


@section
def encodings(draw):
    yield from filled(draw, [
        "«b64»", "«b64long»", "«sha»", "«uuid»", "«jwt»", "«token»", "sha256:«sha»", "md5 «sha»  «path»",
        "data:image/png;base64,«b64long»",
        "«word» «token» «word»", "\"«token»\"", "id=«uuid»,sum=«sha»", "00000000  «hex»«hex» 68 75 6e 74  |hunt|",
        "«key»: «jwt»", "(«token»)", "«token».", "é«token»é",
        "_«token»", "0«token»", "\\n«token»\\n", "https://example.com/«sha»/«b64»", "«token»«token»", "MII«b64long»",
        "«path» «b64»=", "rev «sha»\nkey «b64long»",
    ], 250, 3)
    for wrap in (64, 76):
        blob = encoded(draw, 200)
        yield "\n".join(blob[at:at + wrap] for at in range(0, len(blob), wrap))


@section
def keys(draw):
    """Every key with every separator, and every separator with every way to write a value."""
    def text(key, separator, value):
        opening, between = separator
        key = draw.pick([key, key, key.upper(), key.title(), draw.pick(["db_", "my", "x-", "$", "1", "é", "."]) + key])
        return draw.pick(BEFORE) + opening + key + between + value.replace("§s", draw.pick(SECRETS)) + draw.pick(AFTER)

    for key in KEYS:
        # Half of the pairs in each run; another seed takes others.
        for separator in draw.sample(SEPARATORS, len(SEPARATORS) // 2):
            yield text(key, separator, draw.pick(VALUES) if draw.below(3) else "§s")
    for value in VALUES:
        for separator in draw.sample(SEPARATORS, len(SEPARATORS) // 3):
            yield text(draw.pick(KEYS), separator, value)


CUT = [
    'db password: "hunter2hunter2", user: "a"', r'{"log":"{\"password\": \"hunter2 \\\"x\\\" y\", \"n\": 1}\n","b":1}',
    "args: [\"--token\", \"hunter2hunter2\"] --password hunter2 -v", "Authorization: Bearer abcdef123456 next",
    "postgres://user:p@ss:w0rd@db.example.com:5432/x a@b.co",
    "-----BEGIN RSA PRIVATE KEY-----\nabcd+/==\n-----END RSA PRIVATE KEY-----\nmore",
    r'{"k":"-----BEGIN X-----\\nabcd\\n-----END X-----\\n","b":"c"}',
    "-----BEGIN X-----\nProc-Type: 4,ENCRYPTED\n\nabcdefghijklmnopqrst\nxyz word",
    '{"apiVersion":"v1","items":[{"data":{"a":"eA==","b":{"c":1}},"kind":"Secret"}],"kind":"List"}',
    "apiVersion: v1\ndata:\n  a: x\n  b: |\n    y\n    z\nkind: Secret\n---\nb: 1\n",
    "kind: Secret\nstringData: {a: x, 'b': \"y\"} # c\ndata:\n- a: 1\n",
    r'"{\"kind\":\"Secret\",\"data\":{\"a\":\"eA==\",\"n\":1}}\n" x',
    '{"name":"password","type":"x","value":"hunter2"},["token","abc123def456"]',
    "[('user', 'a'), ('password', 'hunter2'), (1, 2)]",
    '{"columns":["id","token"],"rows":[[1,"abc123def456"],[2,12345678901]]}',
    "user,password\nadmin,hunter2\nroot,\"s3cret-7\"\n\npassword:\nhunter2\n",
    "| user | password |\n|---|---|\n| a | hunter22 |\n| b | x |\n",
    "key: dGVzdA== x=aB3d, y: \\\"dGVz\" RkFLRS1CQVNFNjQtTk9UX1JFQUxfREFUQQ==",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789 xoxb-123456789012-abcdefghijkl AKIAIOSFODNN7EXAMPLE",
    "pass\u200bword: hunter2hunter2 ｔｏｋｅｎ＝abc123def456",
    r'{"p\u0061ssword":"hunter2\u0041hunter2","\uff50wd":"\u00e9hunter2"}',
    "- name: DB_PASSWORD\n  value: hunter2hunter2\n- name: X\n  value: \"1\"\n",
    "password: [MASKED_PASSWORD] token: [REDACTED] secret: [MASKED_X]hunter2hunter2",
    "sk-abcdefghijklmnopqrstuv see eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln.",
    "password: |\n  hunter2\n\n  hunter3\nuser: a", "<password>hunter2hunter2</password><a b='c'>d</a>",
    "'pwd' => 'it''s x', `token`: `abc123def456`, a.b+c@mail.example.org!",
    'ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ== user@host "-H \'x-api-key: abcdef1234567890\'"',
]


@section
def cut(draw):
    """Texts that break off at every character, and some that begin at every character."""
    for text in CUT:
        yield from (text[:end] for end in range(len(text) + 1))
    for text in draw.sample(CUT, 8):
        yield from (text[start:] for start in range(1, len(text)))


@section
def nested(draw):
    """JSON in strings of JSON, with escapes at every level."""
    for at in range(170):
        key, secret = draw.pick(KEYS), draw.pick(SECRETS)
        text = draw.pick([
            json.dumps({key: secret, "b": 1}), json.dumps({"a": draw.fill("«sentence»\n«key»: «secret»")}),
            json.dumps([key, secret]),
            draw.fill("«key»: «value»"), json.dumps({"name": key, "value": secret}),
            json.dumps(manifest(draw, "Secret")),
            "\n".join(yaml_of(manifest(draw, "Secret"), 0, draw.below(16))), draw.fill("«email»\t«token»"),
            f"{key}:\n{secret}\n", f"a,{key}\nb,{secret}",
            json.dumps({key: 12345678}), 'path "C:\\Users\\new\\table" é',
        ])
        if draw.chance(3):
            letter = draw.below(len(text))
            text = text[:letter] + f"\\u{min(ord(text[letter]), 0xD7FF):04x}" + text[letter + 1:]
        for level in range(at % 5 + 7 * (at % 17 == 0)):
            text = draw.pick([
                lambda: json.dumps(text), lambda: json.dumps({"text": text}),
                lambda: json.dumps([1, text, {"a": "b"}], ensure_ascii=False),
                lambda: json.dumps({"content": [{"type": "text", "text": text}]}, indent=1),
                lambda: "said " + json.dumps(text) + " twice",
            ])()
        yield text if draw.below(4) else text[:draw.below(len(text) + 1)]


DISGUISES = [
    lambda c: f"\\u{ord(c):04x}", lambda c: f"\\u{ord(c):04X}", lambda c: f"\\\\u{ord(c):04x}",
    lambda c: f"\\u{ord(c):03x}", lambda c: c + "\u200b",
    lambda c: "\u00ad" + c, lambda c: c + "\u0301", lambda c: "\ufeff" + c, lambda c: c + "\u200d",
    lambda c: c + "\ufe0f", lambda c: c + "\U000e0041",
    lambda c: chr(ord(c) - 33 + 0xFF01),
    lambda c: chr(0x1D400 + ord(c) - 65) if c in UPPER else chr(0x1D41A + ord(c) - 97) if c in LOWER else chr(0x1D7CE + ord(c) % 10),
    lambda c: chr(0x24B6 + ord(c) - 65) if c in UPPER else chr(0x24D0 + ord(c) - 97) if c in LOWER else c,
    lambda c: f"\\u{0xFF01 + ord(c) - 33:04x}",
    lambda c: c + "\\u200b", lambda c: {"s": "ſ", "k": "\u212a", "K": "\u212a", "i": "ı", "a": "а", "o": "ο"}.get(c, c),
    lambda c: c + "\u2028", lambda c: "\u202e" + c, lambda c: f"\\x{ord(c):02x}",
]


@section
def disguised(draw):
    """Keys and tokens in other letters, with invisible ones between them, or as escapes."""
    bases = ["password: hunter2hunter2", '{"password":"hunter2hunter2","b":1}', "api_key=abcdef1234567890", '["token", "abc123def456"]', "user,password\na,hunter2\n",
             "ghp_abcdefghijklmnopqrstuvwxyz0123", "AKIAIOSFODNN7EXAMPLE", "kind: Secret\ndata:\n  a: x\n",
             '{"kind":"Secret","data":{"a":"eA=="}}', "a.b@example.com",
             "postgres://user:hunter2@h/", "-----BEGIN X-----\nabcd\n-----END X-----", "key: dGVzdA==",
             "password:\nhunter2", '{"text":"{\\"token\\": \\"abc123def456\\"}"}']
    for disguise in DISGUISES:
        for base in bases:
            places = [at for at, letter in enumerate(base) if letter in LOWER + UPPER + DIGITS]
            chosen = set(draw.sample(places, draw.pick([1, 2, len(places)])))
            yield "".join(disguise(letter) if at in chosen else letter for at, letter in enumerate(base))


@section
def quotes(draw):
    """Quotes, apostrophes and backslashes where none belong."""
    bases = CUT + ["[\"password\", \"hunter2hunter2\"]", "{'name': 'token', 'value': 'abc123def456'}", "it's the password: 'hunter2hunter2', isn't it", '5" wide: {"password": "hunter2"}']
    for _ in range(330):
        text = draw.pick(bases)
        for _ in range(1 + draw.below(3)):
            at = draw.below(len(text) + 1)
            text = text[:at] + draw.pick(['"', "'", "`", "\\", '\\"', "\\\\", "''", '""', '"\n', "{", "}", "[", "]", "(", ")"]) + text[at:]
        yield text


@section
def neighbours(draw):
    """Secrets beside one another, overlapping, and beside masks that are there already."""
    parts = ["password=hunter2hunter2", "token: abc123def456", "a@example.com", "AKIAIOSFODNN7EXAMPLE", "ghp_abcdefghijklmnopqrstuvwxyz0123", "[MASKED_PASSWORD]", "[REDACTED]",
             "[MASKED_EMAIL]", "[MASKED_", "[MASKED_]", "]", "[", "://u:p4ssw0rd@h.com", "dGVzdA==", ":aB3d",
             "RkFLRS1CQVNFNjQtTk9UX1JFQUxfREFUQQ==", "secret_key: \"abcd1234",
             "Bearer abcdef1234567890", "-----BEGIN X-----\nabcd", "password: \"a@example.com secret\"",
             "password: \"[MASKED_EMAIL] secret\"",
             "[REDACTED: data masking failure — tool result could not be safely processed]",
             "aws_secret_access_key=", "api_key=", "password=", "user:", '"', "'",
             "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0", "[OTHER]", "sk-", "ssh-rsa "]
    for _ in range(330):
        joint = draw.pick(["", "", " ", ",", "\n", ";", "&", "=", "@", ":", "/", "\\n", '","'])
        yield joint.join(draw.picks(parts, 2, 5))


@section
def addresses(draw):
    users = [
        "a", "a.b", ".a", "a.", "-a", "a-", "_", "%", "+", "a+b", "é", "名前", "a\u0301", "‿", "Ⅷ", "①", "٣", "a\u200db",
        "a b", '"a"', "a:b", "a/b", "", "git", "icon", "x" * 130,
    ]
    hosts = ["b", "b.co", "b.c", "example.com", "example.com.", "-b.co", "b-.co", ".b.co", "b..co", "b.co-", "b.c0m", "b.COM", "2x.png", "3x.jpg", "4x.png", "2x", "b.co.uk",
             "@b.co", "b@c.de", "münchen.de", "b.рф", "127.0.0.1", "[::1]", "b.co:22/x", "b.co/x", "b_c.de", "4.17.21",
             "openssh.com", "b.co\\n", ""]
    before = [
        "", "", "<", "mailto:", "ssh://", "ssh://x:", "https://h/", "//", "to ", "'", "\\n", "\\u00e9",
        "https://" + "h" * 127, "ftp://u:p@h ", "[MASKED_EMAIL]", "é", "a@",
    ]
    for user in users:
        for host in draw.sample(hosts, 9):
            yield f"{draw.pick(before)}{user}@{host}{draw.pick(['', '', '.', ',', '>', ' x', ':', '@c.de'])}"


@section
def links(draw):
    schemes = ["https", "postgres", "mysql+x", "", "a b", "redis", "HTTP"]
    users = ["user", "", "u%40x", "é", "u.v", "a b", "u:v", "a@b"]
    passwords = [
        "hunter2", "p@ss", "p:ss", "p@s:s", "p/ss", "p?s#s", "", "${PW}", "[MASKED_PASSWORD]", "[MASKED_X]y", "'p'",
        "p<s", "p\\s", "p\u00a0s", "p\u200bs", "密码", "p`s", 'p"s', "80", "p s",
    ]
    hosts = ["h", "db.example.com:5432", "[::1]", "@h", "", "h@i.example.com", "10.0.0.1"]
    tails = ["", "/x", "/x?password=hunter2", "/@x", " and a@b.co", ",https://u:p@h", "\"", "/a:b@c"]
    for password in passwords:
        for _ in range(7):
            before = draw.pick(["", "see ", '"', "(", "url=", "jdbc:"])
            yield f"{before}{draw.pick(schemes)}://{draw.pick(users)}:{password}@{draw.pick(hosts)}{draw.pick(tails)}"


@section
def runs(draw):
    """Runs of base64 at the limits of length, with every padding and neighbour."""
    alphabets = [
        BASE64, LOWER, UPPER, LOWER + DIGITS, LOWER + UPPER, HEX, DIGITS, LOWER + "/", BASE64[:62], "Aa/", "Aa1+",
    ]
    before = [
        "", " ", ":", "=", ": ", ":\t", '="', ": '", r':\"', r"=\\\"", "x=", "a:=", "_", "-", ".", "/", "é", "\\n",
        "\\", "[MASKED_X]", ": \t ",
    ]
    after = [
        "", " ", "\n", '"', "'", "`", ",", ";", "&", "\\", "}", "]", ")", "<", ":", ".", "-", "_", "é", "=", "\u00a0",
        "\0", "\\n",
    ]
    for length in [1, 2, 3, 4, 5, 7, 8, 12, 16, 18, 19, 20, 21, 22, 23, 24, 25, 27, 28, 40, 44, 47, 48, 49, 72, 88]:
        for padding in range(4):
            for _ in range(4):
                yield draw.pick(before) + draw.letters(draw.pick(alphabets), length) + "=" * padding + draw.pick(after)


@section
def short_runs(draw):
    """What stands before and after a short run."""
    for sign in [":", "=", ": ", "=\t", ":\\", '=\\\\"', ":'", '= "', ":=", "::", "==", "=>", ": \\'", ":\n", "= =", ":\u00a0", "=`"]:
        for value in ["dGVzdA==", "aB3d", "abc=", "abcd", "aB3de", "a=", "aB==", "aB3d" * 5, "aB3d" * 6, "aB3=", "====", "aB/d", "AB3D", "aBcd"]:
            yield draw.pick(["k", "", '"k"', "a b", "é"]) + sign + value + draw.pick(["", " x", '"', "'", ",", ":", "=", "\\n", "\t", ")", "x", "\\"])


@section
def blocks(draw):
    """PEM blocks: whole, cut, nested, and on one line."""
    labels = [
        "RSA PRIVATE KEY", "PRIVATE KEY", "CERTIFICATE", "X", "", "lower", "X" * 64, "X" * 65, "OPENSSH PRIVATE KEY",
        "PGP PRIVATE KEY BLOCK", "X\nY",
    ]
    for at in range(200):
        label, breaks = draw.pick(labels), draw.pick(["\n", "\n", "\r\n", "\\n", "\\\\n", " ", "\n  ", ""])
        body = [encoded(draw, draw.pick([1, 9, 24, 48])) for _ in range(draw.below(4))]
        body.insert(draw.below(len(body) + 1), draw.pick(["", "", "Proc-Type: 4,ENCRYPTED", "Version: x \"y\"", "That was it.", "{", '"', "-", "-----", "a-b", "word word", "Hash: a\\nb", "\0"]))
        begin = draw.pick(["-----BEGIN ", "-----BEGIN ", "-----BEGIN ", "----BEGIN ", "-----begin ", "------BEGIN "])
        end = draw.pick([f"-----END {label}-----", f"-----END {label}-----", "", "-----END", "-----END Y-----", f"-----BEGIN {label}-----", f"-----END {label}----"])
        begin += label + draw.pick(["-----", "-----", "-----", "----", ""])
        text = breaks.join([begin, *body, end]) + draw.pick(["", "\n", " x", '"', "\\n", breaks + "more text"])
        yield draw.pick(["", "", "key: ", '{"a":"', "crt: |\n  ", "'", "<a>"]) + (text if draw.below(4) else text * 2)
    for length in (65_530, 65_537, 65_600):
        yield f"-----BEGIN X-----\n{'A' * length}\n-----END X-----\nmore"


@section
def manifests(draw):
    """Kubernetes Secrets in every order and notation, complete or not."""
    for _ in range(460):
        secret = [
            ("kind", draw.pick(["Secret", "Secret", "Secret", "SecretList", "ConfigMap", "SecretStore", "Sec", "", "secret", None])),
        ]
        data = draw.pick([{"a": "eA=="}, {"a": "x", "b": 1, "c": None, "d": True}, {"a": {"b": "x"}, "c": ["x", {"d": "y"}]}, {}, ["x", "y"], "x", None, {"kind": "Secret", "data": {"a": "x"}},
                          {"a": "one\ntwo: three\n"}, {"a": "it's \"x\""}, {"password": "hunter2hunter2", "a": ""},
                          {"a": "~", "b": "null", "c": "{x}", "d": "# x", "e": "x # y"}])
        secret.append((draw.pick(["data", "data", "stringData", "string_data", "Data", "binaryData"]), data))
        if draw.chance(2):
            secret.append((draw.pick(["apiVersion", "api_version"]), draw.pick(["v1", "v1", "apps/v1", "", None])))
        if draw.chance(3):
            secret.append(("type", draw.pick(["Opaque", "kubernetes.io/tls", "string", None])))
        if draw.chance(3):
            secret.append(("metadata", {"name": "x", "annotations": {"last": json.dumps({"kind": "Secret", "data": {"a": "x"}})}}))
        if draw.chance(6):
            secret.append(secret[0])
        value = dict(draw.shuffled(secret))
        if draw.chance(4):
            listed = draw.shuffled([("items", [value, {"data": {"b": "y"}}]), ("kind", draw.pick(["List", "SecretList", "SecretList", None])), ("apiVersion", "v1")])
            value = dict(listed)
        text = written(draw, value)
        form = draw.below(12)
        if form == 0:
            text = draw.pick(["kind: Secret\n", "data:\n  a: x\n"]) + text
        elif form == 1:
            text = text + draw.pick(["---\n", "...\n", "\n", "# x\n", "\0\n"]) + written(draw, value)
        elif form == 2:
            text = draw.pick(["Here it is, 5\" wide: ", "{ unclosed\n", "'tis ", "- ", "  ", "[1, "]) + text
        elif form == 3:
            text = "\n".join("    " + line for line in text.split("\n")) + "\nThat was it: done\n"
        elif form == 4:
            text = json.dumps({"text": text})
        elif form == 5:
            text = text.replace("\n", "\r\n")
        elif form == 6:
            text = text.replace('"', "'")
        elif form == 7:
            text = text.replace(": ", draw.pick([":", " : ", ":\t", ":  "]))
        yield text if draw.below(3) else text[:draw.below(len(text) + 1)]
    for depth in (511, 512, 513):
        yield "[" * depth + '{"kind":"Secret","data":{"a":"x"}}' + "]" * depth


NAME_WORDS = (
    "name key k field variable var parameter param header property attribute setting label env option title Name KEY names"
).split()
VALUE_WORDS = "value val v Value VAL values text".split()
LIST_WORDS = (
    "required enum fields keys names headers types labels tags properties options columns order scopes include exclude "
    "ignore topics keywords header other"
).split()
ROW_WORDS = "rows data values records items Rows other".split()


@section
def entries(draw):
    """Names and values in objects, pairs, tuples, and rows with columns."""
    scalar = lambda: draw.pick([json.dumps(draw.pick(SECRETS), ensure_ascii=False), "12345678", "null", "true", "1.5e10", '"a b"', '""', "{}", "[1]", '"x', "-1234567", '"' + "p" * 30 + '"'])
    for name in NAME_WORDS:
        for _ in range(8):
            members = [f'"{name}":"{draw.pick(KEYS)}"', f'"{draw.pick(VALUE_WORDS)}":{scalar()}', '"type":"x"', f'"n":{{"a":[{scalar()}]}}'][:2 + draw.below(3)]
            text = "{" + draw.pick([",", ", ", ",\n  "]).join(draw.shuffled(members)) + draw.pick(["}", "}", "", "]", ",}"])
            yield draw.pick(["", "[", "x = ", '{"env":[', "it's "]) + (text.replace('"', "'") if draw.chance(4) else text)
    for words in LIST_WORDS:
        yield f'{{"{words}": ["password", "hunter2hunter2"]}}'
        for rows in draw.sample(ROW_WORDS, 3):
            key, secret = draw.pick(KEYS), scalar()
            yield f'{{"{words}":["id","{key}"],"{rows}":[[1,{secret}],["x",{scalar()}],[{scalar()}]]}}'
    for _ in range(140):
        opening, closing = draw.pick(["[]", "()", "[]", "[)", "(]", "[}"])
        quote = draw.pick(['"', "'", '"', "`"])
        items = [quote + draw.pick(KEYS + SECRETS + WORDS) + quote if draw.below(5) else scalar() for _ in range(draw.pick([1, 2, 2, 2, 3]))]
        text = opening + draw.pick([",", ", ", " , ", ",\n"]).join(items) + closing
        yield draw.pick(["", "[", "f", "x, ", "[('a', 'b'), ", "{\"a\": "]) + text + draw.pick(["", "]", ")", ", 1]", "}"])
    for length in (63, 64, 65):
        yield f'["{"x" * (length - 8)}password", "hunter2"]'
        yield f'[[{"0, " * (length - 1)}"password"], [{"0, " * (length - 1)}"hunter2"]]'
        yield "[" * length + '"password", "hunter2"' + "]" * length
        yield f'{"x" * (length - 8)}password:\nhunter2'


@section
def below(draw):
    """Values on the line below their name."""
    others = ["Required!", "a=b12345", "a:b12345", "#hunter2", "two words2", "abc12", "[MASKED_X]", "\u00a0hunter2x"]
    for _ in range(170):
        name = draw.pick(["", "Your ", "**", "- ", "## ", "a,b,", "é ", '"']) + draw.pick(KEYS)
        name += draw.pick([":", "=", " :", ":**", "`:", ": ", "", "?", ":\t", "':", "：", " is:"])
        value = draw.pick(["", "  ", "`", "**", "- ", "\t", "\u00a0", "> "]) + draw.pick(SECRETS + others)
        value += draw.pick(["", "`", "**", " ", "\r", ".", "\u3000"])
        breaks = draw.pick(["\n", "\n\n", "\r\n", "\n\n\n", "\n \n", "\r\n\r\n"])
        yield name + breaks + value + draw.pick(["", "\n", "\nbye", "\nuser:\nadmin1"])


@section
def shapes(draw):
    """Tokens of known form at their limits, between all kinds of neighbours, and over several lines."""
    around = [
        ("", ""), (" ", " "), ("x", "x"), ("_", "_"), ("0", "0"), ("é", "é"), ("-", "-"), (".", "."), ("/", "/"),
        ('"', '"'), ("\\n", "\\n"), ("\\t", "\\"), ("=", "="), ("\0", "\0"), ("\u200b", "\u200b"), ("@", "@"),
    ]
    for prefix, alphabet, least in SHAPES:
        for more in (-1, 0, 1, 9):
            before, after = draw.pick(around)
            body = draw.letters(alphabet, max(0, least + more))
            body += "." + draw.letters(alphabet, 8) if prefix == "eyJ" else ""
            yield before + prefix + body + draw.pick(["", "", "=", "==", "===", "===="]) + after
            yield draw.pick([prefix.upper(), prefix.lower(), prefix.swapcase()]) + body
            at = draw.below(len(prefix + body) + 1)
            yield f"key {(prefix + body)[:at]}\n{(prefix + body)[at:]} \nmore"
            yield (prefix + body)[:at] + draw.pick(["\r\n", "\\n", " ", "\u200b", "\n\n", '","', "\0"]) + (prefix + body)[at:]


@section
def limits(draw):
    """Long names, long lines, control signs and other extremes."""
    for length in (46, 47, 48, 49, 50):
        yield f"-{'x' * length}password hunter2"
        yield f"-{'x' * length}-token=abc"
    for length in (62, 63, 64, 65, 66):
        yield f"password=hunter2,{'n' * length}=1"
        yield f"password=hunter2;{'n' * length}:1"
        yield f"token: {'a' * length} {'b' * length}"
    for length in (126, 127, 128, 129, 130):
        yield f"https://{'u' * length}.git@example.com"
        yield f"//{':' * length}a@example.com"
    for length in (5_000, 60_000, 250_000):
        yield "x" * length + " password: hunter2hunter2 " + "y" * length
        yield draw.fill("«sentence» ") * (length // 60) + '{"token":"abc123def456"}'
        yield ("password=hunter2hunter2&" * (length // 24))[:length]
    yield from (draw.letters(BASE64, length) for length in (1_000, 20_000))
    yield "\\" * 3_000 + '"password": "hunter2"'
    yield '{"a":' * 200 + '"password: hunter2hunter2"' + "}" * 200
    yield '"' * 500 + "password: 'hunter2hunter2'" + "'" * 500
    yield "a@" * 2_000 + "b.co"
    yield "://u:" * 500 + "p@h"
    yield "[MASKED_" * 500 + "]"
    yield "aaaaaaaaaabbbbbbbbbb"
    yield from (f"a{chr(number)}password: {chr(number)}hunter2hunter2{chr(number)}x" for number in [*range(32), 127, 0x85, 0xA0, 0xAD, 0x2028, 0x2029, 0x3000, 0xFFFD, 0xFFFF, 0x10FFFF])
    yield from ("", " ", "\n", "\0", '"', "\\", "{", "[", "password", "password:", "password: ", "\\u", "\\u0041", "[MASKED_", "@", "://", "-----BEGIN ", "é", "\ufeff", "123456", "null", '"password: hunter2hunter2"')


# Words from which a rule's own small texts are made.
ALPHABETS = [
    ["@", "@", ".", "-", "a", "b", "co", "com", "1", "%", "+", "é", "_", "2x.", "3x.", " ", "\u200d", "\u0301", "//", ":", "/", "\n", "'", "]"],
    ["://", "://", ":", "@", "@", "u", "pw", "/", " ", "é", "\u00a0", "\u200b", '"', "\\", "h.example.com", "[MASKED_PASSWORD]", "80", "'", "<"],
    [":", "=", ": ", "\t", "\\", '"', "'", "aB3d", "abc", "Ab1=", "x" * 20, "aB3d" * 5, ",", "==", "é", "k", "/", "+", "\n", "}"],
    ["aB3d", "abcd", "ABCD", "1234", "/", "+", "=", "==", "===", "x" * 19, "Ab1" * 7, "-", "_", " ", "é", "\n", ":", "a/b"],
    ["eyJ", "eyJ", "a" * 7, "b" * 8, "c" * 11, ".", ".", "_", "-", "ey", "J", " ", "=", "\n", "é"],
    ["-----BEGIN ", "-----BEGIN ", "-----END ", "X", "RSA PRIVATE KEY", "-----", "-----", "\n", "\n", "\\n", "abcd", "efgh==", "-", '"', " ", "word ", "Version: ", "\r", "'", "{", "\0"],
    ["password", "user", "token", "name", ",", ",", ";", "|", "|", "\t", "\n", "\n", "\r\n", "hunter2", "s3cret-7", "--", "---", "+", " ", '"', ".", "5", ":", "é"],
    ["password", "token", "secret", "api_key", "pwd", "_pass", "page", ":", ": ", "=", " ", '"', "'", '\\"', "\n", "hunter2", "abcdef1234567890", "--", "-", ",", "value", "Bearer ", ">", "12"],
    ['"name"', '"key"', '"value"', '"password"', '"token"', '"hunter2"', "'password'", "'hunter2'", "{", "}", "[", "]", "(", ")", ":", ":", ",", ",", " ", "1234567", '"rows"', '"columns"', "\n", "\\", "'"],
    ["kind", "Secret", "SecretList", "data", "stringData", "items", "apiVersion", "v1", "type", "Opaque", ": ", ": ", ":", "\n", "\n  ", "\n    ", "- ", "---\n", "{", "}", "[", "]", ",", '"', "'", "a", "x", "|", "#", "null", "\\n"],
    ["ghp_", "AKIA", "xoxb-", "sk-", "ssh-rsa ", "AIza", "glpat-", "abcdefghij", "ABCDEFGHIJKL", "0123456789", "\n", "_", "-", " ", "\\n", "\\t", "=", "é", ".", "hooks.slack.com/services/", "sk_test_"],
    ["authorization", "Authorization", "bearer", "Basic", "token", "digest", ":", "=", " ", "\t", "abcdefghijklmnop", "q" * 24, "1", "==", "\"", "'", ",", "\n", "_", "~"],
    ["\\", "\\", '"', '"', "n", "u0070", "u200b", "\\\\", "password", "pass", "word", ":", " ", "hunter2", "{", "}", "\n", "é", "\u200b", "ｐ", ","],
    ["[MASKED_", "PASSWORD", "]", "[MASKED_TOKEN]", "[REDACTED]", "[REDACTED: ", "password=", "token: ", "hunter2", " ", '"', "abcdef1234567890", "a@b.co", "[", ",", "\n"],
]


@section
def alphabets(draw):
    """Texts made of the few words that matter to a rule, in any order."""
    for words in ALPHABETS:
        for _ in range(110):
            yield "".join(draw.picks(words, 3, 18))


@section
def chains(draw):
    """Keys whose values begin with other keys, and keys inside keys."""
    for _ in range(240):
        links = [draw.pick(SEPARATORS) for _ in range(2 + draw.below(2))]
        more = lambda: draw.pick(["", "", "", draw.pick(KEYS), "_" + draw.pick(KEYS)])
        text = "".join(opening + draw.pick(KEYS) + more() + between for opening, between in links)
        yield text + draw.pick(VALUES).replace("§s", draw.pick(SECRETS)) + draw.pick(AFTER)


PIECES = [
    "password", "token", "api_key", "secret", "data", "stringData", "kind", "Secret", "SecretList", "items",
    "apiVersion", "v1", "type", "Opaque", ": ", ":", "=", "=>", " ", "  ", "\n", "\n  ", "\n    ",
    "- ", "---\n", "{", "}", "[", "]", ",", '"', "'", '\\"', '\\\\\\"', "\\n", "\\", "\\u0041", "é", "|", "|\n", "#",
    "<", ">", "&", ";", "--", "://", "@", ".com", "user@example.com", "s3cret-s3cret",
    "eA==", "RkFLRS1CQVNFNjQtTk9UX1JFQUxf", "12345678", "null", "Bearer ", "-----BEGIN X-----", "-----END X-----",
    "AKIAIOSFODNN7EXAMPLE", "[MASKED_TOKEN]", "[MASKED_", "value", "/", "\0", '"name":',
    '"value":', "user,password\n", "\u200b", "ｐassword", "(", "\t", "|---|", "\r\n", "\\u200b", "\\\\u0061", "pass",
    "pwd", "_pass", "key", "bearer", "ghp_abcdefghijklmnopqrst", "sk-", "eyJ", "[REDACTED]",
    "${X}", "\\t", "\u00a0", ")", "`", "value: ", '"kind":"Secret"', '"data":{', "\ndata:\n  a: ", "\nkind: Secret\n",
    "ſ", "columns", "rows", "''", "''' ", "=\"", "id-123", "555-1234", "card 12", "ab",
]


@section
def pieces(draw):
    """Pieces that break some rule's idea of where things begin and end."""
    for _ in range(500):
        yield "".join(draw.picks(PIECES, 1, 24))


def mixture(draw, pool):
    """Returns parts of several texts, changed at random."""
    parts = []
    for _ in range(1 + draw.below(4)):
        _, text = draw.pick(pool)
        start = draw.below(len(text) + 1) if draw.chance(3) else 0
        parts.append(text[start:start + draw.pick([40, 200, 600])])
    text = draw.pick(["", " ", "\n", ", ", '"', "\\n", "\0", "\n\n", "\t", "=", ": "]).join(parts)
    for _ in range(draw.below(7)):
        text = changed(draw, text)
    return text


def changed(draw, text):
    """Returns a text with one change."""
    at = draw.below(len(text) + 1)
    end = min(len(text), at + draw.pick([1, 1, 2, 5, 20]))
    form = draw.below(12)
    if form < 3:
        return text[:at] + draw.pick(PIECES) + text[at:]
    if form < 5:
        return text[:at] + text[end:]
    if form < 7:
        return text[:at] + draw.pick(PIECES) + text[end:]
    if form < 8:
        to = draw.below(len(text) + 1)
        return text[:to] + text[at:end] + text[to:]
    if form < 9:
        return text[:at] + text[at:end].swapcase() + text[end:]
    if form < 10:
        return json.dumps(text, ensure_ascii=draw.chance(2)) if len(text) < 1_500 else text
    if form < 11:
        letter = text[at:at + 1]
        return text[:at] + draw.pick(DISGUISES)(letter) + text[at + 1:] if letter.isascii() and letter.isalnum() else text
    return text[:at]


FILES = 160


def pieces_of_files(draw):
    """Yields three pieces each of some of the repository's own files."""
    names = [
        "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml", "Cargo.lock", "toolgate.example.yaml", "wit",
        "docs/src", "guest/src", "host/src", "tests/cases", "examples",
    ]
    files = []
    for name in names:
        place = ROOT / name
        files += sorted(place.rglob("*")) if place.is_dir() else [place]
    kinds = {".md", ".toml", ".lock", ".yaml", ".wit", ".rs", ".py", ".json", ".mjs"}
    for file in draw.sample([file for file in files if file.suffix in kinds and file.is_file()], FILES):
        text = file.read_text(encoding="utf-8", errors="replace")
        for _ in range(3):
            start = draw.below(len(text) + 1)
            yield text[start:start + draw.pick([120, 700, 3_000])]


# How many texts of each section are in the golden file: with something to mask, and without; and how many for each pattern.
MASKED, UNMASKED, EACH_PATTERN = 8, 2, 6
GOLDEN_BYTES = 600


def golden(program):
    """Prints chosen questions with the answers of a program."""
    asked = golden_candidates()
    lines = "".join(line_of(question) + "\n" for question in asked)
    done = subprocess.run([program, "eval"], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    kept, rows = collections.Counter(), []
    for question, answer in zip(asked, done.stdout.decode().split("\n")[:-1], strict=True):
        masked = json.loads(answer)["ok"]
        is_changed, patterns = masked != question.text, question.masks["patterns"]
        if kept[question.section, is_changed] < (MASKED if is_changed else UNMASKED):
            kept[question.section, is_changed] += 1
        elif is_changed and question.masks == masks_of([], patterns[:1]) and kept[patterns[0]] < EACH_PATTERN:
            kept[patterns[0]] += 1
        else:
            continue
        row = json.dumps({"ask": json.loads(line_of(question)), "ok": masked})
        # Tools that look for leaked secrets must not take this file for one.
        rows.append(re.sub("AIza|_live|xox[a-z]|xapp|glpat|npm_|hf_|ghp_|github_pat", lambda found: spell(found[0]), row))
    print("[\n" + ",\n".join(rows) + "\n]")


def golden_candidates():
    """Returns short questions of all sections, and more of them for each single pattern."""
    short = [
        question for question in questions(seed=7, count=40_000, repository=False)
        if question.kind == "mask" and len(question.text.encode()) < GOLDEN_BYTES
    ]
    draw, chosen = Draw(7, "golden"), []
    for make in [*SECTIONS, mixture]:
        name = "mixed" if make is mixture else make.__name__
        chosen += draw.sample([question for question in short if question.section == name], 5 * (MASKED + UNMASKED))
    for pattern in PATTERNS:
        chosen += draw.sample([question for question in short if question.masks == masks_of([], [pattern])], 400)
    return list({line_of(question): question for question in chosen}.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="draw other questions")
    parser.add_argument("--count", type=int, default=30_000, help="about how many questions")
    parser.add_argument("--golden", metavar="BIN", help="the program whose answers are printed")
    args = parser.parse_args()
    if args.golden:
        golden(args.golden)
        return
    for question in questions(args.seed, args.count):
        print(line_of(question))


if __name__ == "__main__":
    main()
