"""Tokens: nothing of a text is lost, and strings, comments and identifiers end where DuckDB ends them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import SqlSyntaxError
from penstock.sql.tokens import fold, quote, string_value, tokenize, unquote

# Text made of what is special to the tokenizer meets its branches far more often than random text.
PIECES = (
    "'", "''", '"', '""', "`", "$$", "$a$", "$1", "$a", "$", "?", "?2", "--", "\n", "\r", "/*", "*/", "E'",
    "\\", "\\'", ";", "(", ")", "[", "]", "{", "}", ",", ".", "::", "->>", "a", "é", "_", "1", "1.5e3", " ",
    "\u00a0", "\x00", "\U0001f600", "\u017f", "x'ab'", "U&'", ":", "=", "<", ">", "!", "|", "@", "#", "~", "%",
)  # fmt: skip
texts = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokenize(text) if t.kind != "space"]


@given(texts)
def test_tokens_join_back_to_the_text_or_raise_a_syntax_error(text: str) -> None:
    try:
        tokens = tokenize(text)
    except SqlSyntaxError as raised:
        error = raised
    else:
        assert "".join(t.text for t in tokens) == text
        assert all(text[t.offset : t.end] == t.text for t in tokens)
        return
    assert error.position is not None
    assert 0 <= error.position < len(text)


@given(st.text(min_size=1))
def test_a_quoted_name_reads_back(name: str) -> None:
    (token,) = tokenize(quote(name))
    assert token.kind == "quoted"
    assert token.keyword == ""
    assert unquote(token) == name


@given(st.text())
def test_a_string_reads_back_in_all_three_forms(value: str) -> None:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    forms = ["'" + value.replace("'", "''") + "'", f"E'{escaped}'"]
    if "$q$" not in value + "$q":
        forms.append(f"$q${value}$q$")
    for form in forms:
        (token,) = tokenize(form)
        assert token.kind == "string"
        assert string_value(token) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a''b'", [("string", "'a''b'")]),
        ("'a\\'", [("string", "'a\\'")]),  # a backslash is nothing special without E
        (r"E'a\'b'", [("string", r"E'a\'b'")]),
        (r"e'a\\'", [("string", r"e'a\\'")]),
        ("xe'a'", [("word", "xe"), ("string", "'a'")]),
        ("$$a;'b$$", [("string", "$$a;'b$$")]),
        ("$t$ $$ $u$ $t$", [("string", "$t$ $$ $u$ $t$")]),
        ("$é$x$é$", [("string", "$é$x$é$")]),
        ("a$$b", [("word", "a$$b")]),
        ("a$1", [("word", "a$1")]),
        ("$1", [("parameter", "$1")]),
        ("$1a", [("parameter", "$1"), ("word", "a")]),
        ("$name", [("parameter", "$name")]),
        ("?", [("parameter", "?")]),
        ("?2", [("parameter", "?2")]),
        ('"a""b"', [("quoted", '"a""b"')]),
        ("`a``b`", [("quoted", "`a``b`")]),
        ("/* a /* b */ ; */ 1", [("comment", "/* a /* b */ ; */"), ("number", "1")]),
        ("/*/ */ 1", [("comment", "/*/ */"), ("number", "1")]),
        ("1 --x;\r2", [("number", "1"), ("comment", "--x;"), ("number", "2")]),
        ("a--b", [("word", "a"), ("comment", "--b")]),
        ("a*/*c*/b", [("word", "a"), ("symbol", "*"), ("comment", "/*c*/"), ("word", "b")]),
        ("1from", [("number", "1"), ("word", "from")]),
        ("1_000.5e-3", [("number", "1_000.5e-3")]),
        ("1e", [("number", "1"), ("word", "e")]),
        ("t.5", [("word", "t"), ("number", ".5")]),
        ("a::int", [("word", "a"), ("symbol", "::"), ("word", "int")]),
        ("a\u00a0b\u3000c", [("word", "a"), ("word", "b"), ("word", "c")]),
    ],
)
def test_lexemes(text: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SELECT 'a", 7),
        ("'a''", 0),
        (r"E'a\'", 0),
        ('1 "a', 2),
        ("`a", 0),
        ("$$a$", 0),
        ("$a$x$A$", 0),
        ("1 /* /* */", 2),
    ],
)
def test_what_is_never_closed_is_an_error_at_its_beginning(text: str, position: int) -> None:
    with pytest.raises(SqlSyntaxError, match="never closed") as caught:
        tokenize(text)
    assert caught.value.position == position


def test_keywords_are_unquoted_ascii_words() -> None:
    assert [t.keyword for t in tokenize("sElEcT")] == ["SELECT"]
    assert [t.keyword for t in tokenize('"select"')] == [""]
    assert [t.keyword for t in tokenize("'select'")] == [""]
    assert "\u017felect".upper() == "SELECT"  # the trap
    assert [t.keyword for t in tokenize("\u017felect")] == [""]


def test_names_fold_in_ascii_only_as_in_duckdb() -> None:
    assert fold("OrDers_1") == "orders_1"
    assert fold("É") != fold("é")
    assert fold("İ") == "İ"


def test_escapes_of_e_strings() -> None:
    (token,) = tokenize(r"E'\x41\101\n\q\''''")
    assert string_value(token) == "AA\nq''"


def test_a_long_unterminated_string_is_refused_quickly() -> None:
    with pytest.raises(SqlSyntaxError):
        tokenize("'" * 100_001)
    with pytest.raises(SqlSyntaxError):
        tokenize("/*" * 50_000)
