"""COPY in text and csv: what is written is read again, here and by PostgreSQL; options; escapes; headers."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as s

from penstock import Flow
from penstock.base.errors import PenstockError
from penstock.gateway.commands import read_command
from penstock.gateway.copy_command import Copy, CopyOptions
from penstock.gateway.copying import LineReader, lines
from penstock.gateway.errors import BadCopyData
from postgres import Postgres

Row = list[str | None]

MARKS = ["\\", '"', "'", ",", "|", "\t", "e", "N", ".", ";"]
TEXTS = s.text(s.sampled_from([*MARKS, "\n", "\r", "é", "a", " ", "\b"]), max_size=7)
NULLS = s.text(s.sampled_from(["\\", "N", ".", "a", '"', "é"]), max_size=3)
ROWS = s.integers(1, 3).flatmap(
    lambda width: s.lists(s.lists(s.none() | TEXTS, min_size=width, max_size=width), min_size=1, max_size=4)
)
FORMS = s.fixed_dictionaries(
    {"format": s.sampled_from(["csv", "text"])},
    optional={name: s.sampled_from(MARKS) for name in ("delimiter", "quote", "escape")} | {"null": NULLS},
)


def command(options: str, direction: str = "FROM STDIN") -> Copy:
    sql = f"COPY t {direction} {options}"
    found = read_command(sql)
    assert isinstance(found, Copy)
    return found


def written(form: dict[str, str]) -> str:
    """Options as a statement has them."""
    return (
        "(" + ", ".join(f"{name} '{text.replace(chr(39), chr(39) * 2)}'" for name, text in form.items()) + ")"
    )


def options_of(form: dict[str, str]) -> CopyOptions:
    """Options that make sense together; in text there is no quote."""
    if form["format"] == "text":
        form.pop("quote", None)
        form.pop("escape", None)
    try:
        options = command(written(form)).options
    except PenstockError:
        assume(False)
        raise
    # In text PostgreSQL takes NULL strings that it cannot read again: the end of the data, an escape of what follows.
    unreadable = "\\." in options.null or options.null.replace("\\\\", "").endswith("\\")
    assume(options.format == "csv" or not unreadable)
    return options


def data_of(rows: list[Row], options: CopyOptions) -> bytes:
    columns = [[None if v is None else v.encode() for v in column] for column in zip(*rows, strict=True)]
    return b"".join(lines(columns, len(rows), options))


def read(data: bytes, options: CopyOptions, width: int, size: int = 1 << 30) -> list[Row]:
    reader = LineReader(options, width)
    found: list[Row] = []
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    return found + list(reader.finish())


def null_as_text(rows: list[Row], options: CopyOptions) -> list[Row]:
    """In the format text, what is written as the NULL string is NULL, as in PostgreSQL."""
    if options.format == "csv":
        return rows
    null = options.null.encode() + b"\n"
    return [[None if data_of([[v]], options) == null else v for v in row] for row in rows]


@settings(max_examples=300, deadline=None)
@given(ROWS, FORMS, s.integers(1, 6))
def test_what_is_written_is_read(rows: list[Row], form: dict[str, str], size: int) -> None:
    options = options_of(form)
    data = data_of(rows, options)
    expected = null_as_text(rows, options)
    assert read(data, options, len(rows[0])) == expected
    assert read(data, options, len(rows[0]), size) == expected
    if data != b"\n" and not data.endswith(
        b"\n\n"
    ):  # the last newline may be left out, unless its line is empty
        assert read(data[:-1], options, len(rows[0])) == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, FORMS)
def test_postgres_writes_and_reads_the_same(
    postgres: Postgres, rows: list[Row], form: dict[str, str]
) -> None:
    options = options_of(form)
    names = [f"c{i}" for i in range(len(rows[0]))]
    postgres.reset()
    for table in ("a", "b"):
        postgres.execute(f"CREATE TABLE {table} (n SERIAL, {', '.join(f'{name} TEXT' for name in names)})")
    cursor = postgres.connection.cursor()
    listed = ", ".join(names)
    for row in rows:
        cursor.execute(f"INSERT INTO a ({listed}) VALUES ({', '.join(['%s'] * len(row))})", row)  # type: ignore[call-overload]
    with cursor.copy(f"COPY (SELECT {listed} FROM a ORDER BY n) TO STDOUT {written(form)}") as copy:  # type: ignore[arg-type]
        data = b"".join(bytes(piece) for piece in copy)
    assert data_of(rows, options) == data
    with cursor.copy(f"COPY b ({listed}) FROM STDIN {written(form)}") as copy:  # type: ignore[arg-type]
        copy.write(data)
    found = cursor.execute(f"SELECT {listed} FROM b ORDER BY n").fetchall()  # type: ignore[call-overload]
    assert read(data, options, len(names)) == [list(row) for row in found]


READ_AS_POSTGRES = [
    # escapes are bytes; a backslash before a newline is one of the value
    *[("", data) for data in (
        rb"\303\251", rb"\xc3\xa9", rb"\303\xa9", rb"\xc3", rb"\377", b"a\\\nb", b"a\\\r\nb", b"a\\\n", b"a\\\\\nb", b"a\\\\\\\nb",
        rb"\x", rb"\xg", rb"\8", rb"\477", rb"a\.", rb"\.b", rb"\Na", rb"\134N", b"\\\xc3\xa9", b"a\\\r", b"a\nb\\\n\\.", b"\xff",
    )],
    *[("(format csv)", data) for data in (
        b'"a\r\nb"\r', b"\\.\nb", b'"\\."', b'a"b', b'a"b"c"d"', b'"a', b"\n", b'""', b'"a\n\\.\nb"', b'"a""b"\n"c"',
    )],
    *[("(format csv, escape '\\')", data) for data in (
        b'"a\\"b"\n"c\\"d"', b'"a\\\nb"', b'"a\\', b'"a\\"', b"a\\b", b'a\\"b', b'"a\\\\"', b'"a\\b"', b'a\\"b"', b'"a\\\\\\"\n\\"b"\nc',
        b'"a""b"', b'"a"\\"b"\n',
    )],
]  # fmt: skip


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_are_read_as_postgres_reads_them(
    postgres: Postgres, connection: psycopg.Connection, end: bytes
) -> None:
    postgres.execute("CREATE TABLE one (a TEXT)")
    connection.execute("CREATE TABLE one (a TEXT)")
    for options, data in READ_AS_POSTGRES:
        if data.endswith(b"\\.") and not end and not options:
            continue
        answers = [_loaded(c, options, data + end) for c in (postgres.connection, connection)]
        assert answers[0] == answers[1], (options, data)


def _loaded(connection: psycopg.Connection, options: str, data: bytes) -> Any:
    """The rows that data gives, or the SQLSTATE with which it is refused."""
    connection.execute("DELETE FROM one")
    try:
        with connection.cursor().copy(f"COPY one FROM STDIN {options}") as copy:  # type: ignore[arg-type]
            copy.write(data)
    except psycopg.Error as error:
        return error.sqlstate
    return sorted(connection.execute("SELECT a FROM one").fetchall(), key=str)


@pytest.mark.parametrize("escape", ['"', "\\"])
def test_a_field_of_many_lines(escape: str) -> None:
    options = CopyOptions("csv", ",", "", escape=escape)
    text = 'a "line"\n' * 200_000
    data = data_of([[text, "b"], ["c", None]], options)
    assert read(data, options, 2) == [[text, "b"], ["c", None]]
    assert read(data, options, 2, 1000) == [[text, "b"], ["c", None]]


def test_a_line_of_many_fields_and_pieces() -> None:
    for options in (CopyOptions("csv", ",", "x"), CopyOptions("text", ",")):
        data = data_of([["\\"] * 200_000 + ['"']], options)
        assert read(data, options, 200_001, 100) == [["\\"] * 200_000 + ['"']]


@pytest.mark.parametrize("form", ["text", "csv"])
def test_header_that_has_to_match(connection: psycopg.Connection, form: str) -> None:
    connection.execute('CREATE TABLE t (a TEXT, "b,\t" TEXT)')
    connection.execute("INSERT INTO t VALUES ('1', '2')")
    cursor = connection.cursor()
    with cursor.copy(f"COPY t TO STDOUT (FORMAT {form}, HEADER)") as copy:  # type: ignore[arg-type]
        data = b"".join(bytes(piece) for piece in copy)
    connection.execute("DELETE FROM t")
    with cursor.copy(f"COPY t FROM STDIN (FORMAT {form}, HEADER match)") as copy:  # type: ignore[arg-type]
        copy.write(data)
    assert connection.execute("SELECT * FROM t").fetchall() == [("1", "2")]
    for columns, text, message in (
        ("", b"a;x\n1;2\n", 'field 2: got "x", expected "b,\t"'),
        ("(a)", b"A1\n1\n", 'field 1: got "A1", expected "a"'),
        ("(a)", b"NONE\n1\n", 'field 1: got null value ("NONE"), expected "a"'),
        ("", b"a\n1;2\n", "got 1, expected 2"),
        ("", b"", "got 1, expected 2"),
    ):
        with pytest.raises(psycopg.errors.BadCopyFileFormat) as caught:
            statement = (
                f"COPY t {columns} FROM STDIN (FORMAT {form}, HEADER 'Match', DELIMITER ';', NULL 'NONE')"
            )
            with cursor.copy(statement) as copy:  # type: ignore[arg-type]
                copy.write(text)
        assert message in str(caught.value)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_names_of_a_header_compare_as_names_do_elsewhere() -> None:
    reader = LineReader(command("(HEADER match)").options, 2, ["Id", "b"])
    assert list(reader.feed(b"id\tB\n1\t2\n")) == [["1", "2"]]


def test_a_header_for_a_role_that_may_only_insert(flow: Flow, url: str) -> None:
    flow.sql("CREATE TABLE t (a TEXT); CREATE ROLE ann LOGIN; GRANT INSERT ON t TO ann")
    with psycopg.connect(url.replace("penstock@", "ann@"), autocommit=True) as ann:
        with ann.cursor().copy("COPY t FROM STDIN (HEADER match)") as copy:
            copy.write(b"a\n1\n")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute("SELECT * FROM t")
    assert flow.sql("SELECT * FROM t").to_pylist() == [{"a": "1"}]


@pytest.mark.parametrize("value", ["", "true", "TRUE", "on", "1", "'true'", "'On'"])
def test_booleans_that_are_true(value: str) -> None:
    assert command(f"(FORMAT csv, HEADER {value})").options.header
    with pytest.raises(PenstockError) as caught:
        command(f"(FREEZE {value})")
    assert caught.value.sqlstate == "0A000"


@pytest.mark.parametrize("value", ["false", "off", "0", "'false'", "OFF"])
def test_booleans_that_are_false(value: str) -> None:
    assert not command(f"(HEADER {value}, FREEZE {value})").options.header


@pytest.mark.parametrize("value", ["nonsense", "2", "'t'", "yes", "1.0", "-1", "''", "(a)"])
def test_booleans_that_are_none(value: str) -> None:
    for name in ("header", "freeze"):
        with pytest.raises(PenstockError, match=f"{name} requires a Boolean value") as caught:
            command(f"(FORMAT csv, {name} {value})")
        assert caught.value.sqlstate == "42601"
        assert "true, false, on, off, 1 or 0" in str(caught.value.hint)


REFUSED = [
    ("(FORMAT csv, FORCE_QUOTE *)", "0A000"),
    ("(FORMAT csv, FORCE_QUOTE (a, b))", "0A000"),
    ("(FORMAT csv, FORCE_NULL (a))", "0A000"),
    ("(FORMAT csv, FORCE_NOT_NULL (a))", "0A000"),
    ("CSV FORCE QUOTE *", "0A000"),
    ("CSV FORCE NULL a", "0A000"),
    ("CSV FORCE NOT NULL a", "0A000"),
    ("(ENCODING 'latin1')", "0A000"),
    ("ENCODING 'latin1'", "0A000"),
    ("(DEFAULT 'x')", "0A000"),
    ("(ON_ERROR ignore)", "0A000"),
    ("(ON_ERROR ignore, REJECT_LIMIT 3)", "0A000"),
    ("(LOG_VERBOSITY verbose)", "0A000"),
    ("FREEZE", "0A000"),
    ("(FORMAT csv) WHERE a = 1", "0A000"),
    ("(QUOTE 'x')", "0A000"),
    ("(ESCAPE 'x')", "0A000"),
    ("(DELIMITER 'ab')", "0A000"),
    ("(DELIMITER 'é')", "0A000"),
    ("(nonsense)", "42601"),
    ("CSV nonsense", "42601"),
    ("CSV HEADER match", "42601"),
    ("CSV CSV", "42601"),
    ("(NULL)", "42601"),
    ("(DELIMITER 'a')", "22023"),
    ("(DELIMITER '\\')", "22023"),
    ("(DELIMITER E'\\n')", "22023"),
    ("(NULL E'a\\r')", "22023"),
    ("(DELIMITER ',', NULL 'a,b')", "22023"),
    ("(FORMAT csv, QUOTE ',')", "22023"),
    ("(FORMAT csv, NULL 'a\"')", "22023"),
    ("(FORMAT csv, ESCAPE E'\\n')", "22023"),
]


@pytest.mark.parametrize(("options", "sqlstate"), REFUSED)
def test_options_that_are_refused(options: str, sqlstate: str) -> None:
    with pytest.raises(PenstockError) as caught:
        command(options)
    assert caught.value.sqlstate == sqlstate


def test_options_that_are_taken() -> None:
    for options in ("(ENCODING 'UTF8')", "(ENCODING utf8)", "ENCODING 'utf-8'", "(DELIMITER E'\\t')"):
        assert command(options).options == CopyOptions()
    quoted = CopyOptions("csv", ",", "", quote="'", escape="'")
    assert command("(FORMAT csv, QUOTE '''')").options == quoted
    assert command("CSV ESCAPE '\\' QUOTE ''''").options == CopyOptions(
        "csv", ",", "", quote="'", escape="\\"
    )
    with pytest.raises(PenstockError, match="match") as caught:
        command("(HEADER match)", "TO STDOUT")
    assert caught.value.sqlstate == "0A000"


def test_lines_that_end_with_carriage_returns() -> None:
    for form in ("text", "csv"):
        options = command(f"(FORMAT {form}, NULL '')").options
        assert read(b"a\r\n\r\nb\r\n", options, 1) == [["a"], [None], ["b"]]


def test_a_backslash_that_ends_the_data() -> None:
    with pytest.raises(BadCopyData, match="line 2: a backslash has nothing after it"):
        read(b"a\nb\\", CopyOptions(), 1)
