"""SQL text to tokens and back: nothing is lost, so every slice of a statement is a slice of its text.

The lexical rules are those of DuckDB (which are PostgreSQL's): nested comments, E'' strings, dollar
quotes, quoted identifiers, parameters. What the tokens mean is decided in the parse files.
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import NamedTuple

from penstock.base.errors import SqlSyntaxError
from penstock.base.limits import REMEMBERED_TEXT_MAX, TOKENIZED_TEXTS_MAX


class Token(NamedTuple):
    """One lexeme: its kind, its text as written, its offset in the whole text, its keyword form.

    `kind` is one of "space", "comment", "word", "quoted", "string", "number", "parameter", "symbol".
    `keyword` is the upper-case form of an unquoted ASCII word, the text itself of a symbol, and
    "" for everything else: a quoted identifier, a string or a parameter is never a keyword.
    """

    kind: str
    text: str
    offset: int
    keyword: str

    @property
    def end(self) -> int:
        return self.offset + len(self.text)


# The characters that DuckDB treats as white space; str.isspace() has others.
_SPACE = " \\t\\n\\r\\f\\v\\u00a0\\u2000-\\u200b\\u202f\\u205f\\u3000\\ufeff"
_WORD_START = f"(?:[A-Za-z_]|[^\\x00-\\x7f{_SPACE}])"
_WORD_PART = f"(?:[A-Za-z0-9_$]|[^\\x00-\\x7f{_SPACE}])"
_TAG = f"(?:{_WORD_START}(?:(?!\\$){_WORD_PART})*+)?"

# The order matters: E'..' before words, dollar quotes before parameters, comments before symbols.
# Possessive quantifiers (++, *+) keep an unterminated string from being read as a shorter one.
_TOKEN = re.compile(
    rf"""
      (?P<space>[{_SPACE}]+)
    | (?P<line_comment>--[^\r\n]*)
    | (?P<open_comment>/\*)
    | (?P<string>'(?:[^']++|'')*+' | [eE]'(?:[^'\\]++|''|\\.)*+')
    | (?P<open_string>[eE]?')
    | (?P<quoted>"(?:[^"]++|"")*+" | `(?:[^`]++|``)*+`)
    | (?P<open_quoted>["`])
    | (?P<open_dollar>\${_TAG}\$)
    | (?P<parameter>\$[0-9]+ | \${_WORD_START}(?:(?!\$){_WORD_PART})*+ | \?[0-9]*)
    | (?P<word>{_WORD_START}{_WORD_PART}*+)
    | (?P<number>(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<symbol>::|:=|=>|->>|->|<=|>=|<>|!=|==|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def tokenize(text: str) -> list[Token]:
    """Every token of the text, spaces and comments included.

    >>> [token.text for token in tokenize("SELECT $$a;b$$ -- c")]
    ['SELECT', ' ', '$$a;b$$', ' ', '-- c']
    """
    return list(_known_tokens(text)) if len(text) <= REMEMBERED_TEXT_MAX else _tokens(text)


@lru_cache(TOKENIZED_TEXTS_MAX)
def _known_tokens(text: str) -> list[Token]:
    """On its way through the server a statement is asked four times what it consists of."""
    return _tokens(text)


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        assert match is not None  # the last branch takes any character
        assert match.lastgroup is not None
        kind, lexeme, end = match.lastgroup, match.group(), match.end()
        keyword = ""
        if kind == "word":
            # Only ASCII: the upper case of a long s is "S", but no long s makes a SELECT.
            keyword = lexeme.upper() if lexeme.isascii() else ""
        elif kind == "symbol":
            keyword = lexeme
        elif kind == "line_comment":
            kind = "comment"
        elif kind.startswith("open_"):
            kind, end = _long_token(text, kind, offset, end)
            lexeme = text[offset:end]
        tokens.append(Token(kind, lexeme, offset, keyword))
        offset = end
    return tokens


def _long_token(text: str, kind: str, start: int, end: int) -> tuple[str, int]:
    """The kind and the end of a token that no regular expression matches, or the error that it has no end."""
    if kind == "open_comment":
        depth = 1
        while depth:
            edge = _COMMENT_EDGE.search(text, end)
            if edge is None:
                raise SqlSyntaxError("a comment that begins with /* is never closed", position=start)
            depth += 1 if edge.group() == "/*" else -1
            end = edge.end()
        return "comment", end
    if kind == "open_dollar":
        tag = text[start:end]
        close = text.find(tag, end)
        if close < 0:
            raise SqlSyntaxError(f"a string that begins with {tag} is never closed", position=start)
        return "string", close + len(tag)
    what = "string" if kind == "open_string" else "quoted identifier"
    raise SqlSyntaxError(f"a {what} is never closed", hint="Close it with the same mark.", position=start)


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@lru_cache(maxsize=4096)  # the same few names at every tick
def fold(name: str) -> str:
    """The form in which names compare: ASCII letters in lower case, as DuckDB's catalog does.

    >>> fold("Orders") == fold("ORDERS"), fold("É") == fold("é")
    (True, False)
    """
    return name.translate(_LOWER)


@lru_cache(maxsize=1024)
def fold_all(names: tuple[str, ...]) -> frozenset[str]:
    """The folded forms of several names."""
    return frozenset([fold(name) for name in names])


def quote(name: str) -> str:
    """An identifier as DuckDB reads it, whatever is in it.

    >>> print(quote('a "b"'))
    "a ""b\"""
    """
    return '"' + name.replace('"', '""') + '"'


def unquote(token: Token) -> str:
    """The name that a word or a quoted identifier stands for.

    >>> unquote(tokenize('"a ""b\"""')[0])
    'a "b"'
    """
    if token.kind != "quoted":
        return token.text
    mark = token.text[0]
    return token.text[1:-1].replace(mark * 2, mark)


_ESCAPE = re.compile(r"''|\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def string_value(token: Token) -> str:
    r"""The value of a string token in any of its three forms.

    >>> [string_value(tokenize(text)[0]) for text in ("'it''s'", r"E'it\'s'", "$q$it's$q$")]
    ["it's", "it's", "it's"]
    """
    text = token.text
    if text[0] == "$":
        return text[text.index("$", 1) + 1 : text.rindex("$", 0, -1)]
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    return _ESCAPE.sub(_unescape, text[2:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code is None:
        return "'"
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)  # PostgreSQL's: an octal escape is one byte
    return _ESCAPED.get(code, code)
