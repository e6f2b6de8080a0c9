"""The placeholders of a statement: `$1`, `$name` and `?`. They stay in the text; this lists them."""

from __future__ import annotations

from penstock.base.errors import SqlSyntaxError
from penstock.sql.cursor import shown
from penstock.sql.statements import Parameter
from penstock.sql.tokens import Token

# The Postgres protocol counts parameters in 16 bits.
PARAMETERS_MAX = 65_535


def read_parameters(tokens: list[Token]) -> tuple[Parameter, ...]:
    """The placeholders of one statement in the order of the text; one style in each statement."""
    found: list[Parameter] = []
    anonymous = 0
    styles: set[str] = set()
    for token in tokens:
        if token.kind != "parameter":
            continue
        key: int | str = token.text[1:]
        if token.text == "?":
            anonymous += 1
            key = anonymous
            styles.add("?")
        elif token.text[1] in "0123456789":
            key = _parameter_number(token)
            styles.add("$1")
        else:
            styles.add("$name")
        if len(styles) > 1:
            mixed = " and ".join(sorted(styles))
            raise SqlSyntaxError(
                f"parameters of two styles in one statement: {mixed}",
                hint="Write all of them as $1, $2 or all of them as ?.",
                position=token.offset,
            )
        found.append(Parameter(key, token.text, token.offset))
    return tuple(found)


def _parameter_number(token: Token) -> int:
    digits = token.text[1:]
    number = int(digits) if len(digits) <= 5 else 0
    if not 1 <= number <= PARAMETERS_MAX:
        message = f"there is no parameter {shown(token)}: they go from $1 to ${PARAMETERS_MAX}"
        raise SqlSyntaxError(message, position=token.offset)
    return number
