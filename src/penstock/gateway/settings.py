"""A client's settings: SET, SHOW and RESET of those that Postgres clients use.

Settings that would change answers (TimeZone, DateStyle, the encoding) take only the value that holds anyway, and
say so; those that only tune Postgres are kept and shown; of settings in one's own namespace (a.b) all are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import penstock
from penstock.base.errors import InvalidOption
from penstock.engine.session import Session
from penstock.engine.session_transactions import ISOLATION_LEVELS
from penstock.gateway import freshness
from penstock.gateway.durations import duration_ms, duration_text
from penstock.gateway.errors import UndefinedSetting
from penstock.gateway.freshness import Freshness
from penstock.sql.tokens import fold

VERSION = f"18.0 (penstock {penstock.__version__})"


@dataclass(frozen=True)
class Setting:
    """`allowed`: the values that it may have, folded; None for any. `reported` to the client whenever it is set."""

    name: str
    value: str
    allowed: tuple[str, ...] | None = None
    reported: bool = False
    fixed: bool = False
    duration: bool = False


# What client_min_messages may be: messages of this kind and of those after it are sent.
LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")

SETTINGS = (
    Setting("server_version", VERSION, reported=True, fixed=True),
    Setting("server_version_num", "180000", fixed=True),
    Setting("server_encoding", "UTF8", reported=True, fixed=True),
    Setting("client_encoding", "UTF8", ("utf8", "utf-8", "unicode"), reported=True),
    Setting("DateStyle", "ISO, MDY", ("iso", "iso, mdy", "iso,mdy", "iso, dmy", "iso, ymd"), reported=True),
    Setting("IntervalStyle", "postgres", ("postgres",), reported=True),
    Setting("TimeZone", "UTC", ("utc", "etc/utc", "gmt", "default"), reported=True),
    Setting("integer_datetimes", "on", reported=True, fixed=True),
    Setting("standard_conforming_strings", "on", ("on", "true", "1", "yes"), reported=True),
    Setting("application_name", "", reported=True),
    Setting("is_superuser", "on", reported=True, fixed=True),
    Setting("session_authorization", "penstock", reported=True, fixed=True),
    Setting("in_hot_standby", "off", reported=True, fixed=True),
    Setting("default_transaction_read_only", "off", ("off", "false", "0", "no"), reported=True),
    Setting("default_transaction_isolation", "read committed", ISOLATION_LEVELS),
    Setting("transaction_isolation", "read committed", ISOLATION_LEVELS),
    Setting("transaction_read_only", "off", ("off", "false", "0", "no")),
    Setting("transaction_deferrable", "off", ("off", "false", "0", "no")),
    Setting(
        "search_path",
        '"$user", public',
        ("public", "main", '"$user", public', "public, pg_catalog", ""),
    ),
    Setting("max_identifier_length", "63", fixed=True),
    Setting("password_encryption", "scram-sha-256", ("scram-sha-256",)),
    Setting("bytea_output", "hex", ("hex",)),
    Setting("lc_collate", "C", fixed=True),
    Setting("lc_ctype", "C.UTF-8", fixed=True),
    Setting("client_min_messages", "notice", LEVELS),
    Setting("extra_float_digits", "1"),
    Setting("synchronous_commit", "on", ("on", "true", "1", "yes")),
    Setting("statement_timeout", "0", duration=True),
    Setting("lock_timeout", "0", ("0", "0s", "0ms")),
    Setting("idle_in_transaction_session_timeout", "0", ("0", "0s", "0ms")),
    Setting("row_security", "on"),
    Setting("check_function_bodies", "on"),
    Setting("jit", "off"),
    Setting("enable_seqscan", "on"),
    Setting("work_mem", "4MB"),
)
_BY_NAME = {fold(s.name): s for s in SETTINGS}


class ClientSettings:
    """The settings of one session."""

    def __init__(self, session: Session, user: str) -> None:
        self._session = session
        self._first = {fold(s.name): s.value for s in SETTINGS}
        self._first["session_authorization"] = user
        self._first["is_superuser"] = "on" if session.is_superuser else "off"
        self._values = dict(self._first)
        self.freshness = Freshness(session)
        self._fresh_first: dict[str, str] = {}  # of those that came with the connection
        self._before: dict[str, str | None] = {}  # the transaction: what it has set, for ROLLBACK
        self._after: dict[str, str | None] = {}  # the transaction: what it has set for itself alone
        self.statement_timeout_ms = 0

    def tells(self, severity: str) -> bool:
        """Whether the client wants messages of this kind."""
        return LEVELS.index(severity) >= LEVELS.index(fold(self._values["client_min_messages"]))

    def reported(self) -> Iterator[tuple[str, str]]:
        """What a client is told when it connects."""
        for setting in SETTINGS:
            if setting.reported:
                yield setting.name, self._values[fold(setting.name)]

    def at_start(self, name: str, value: str) -> str | None:
        """A setting that came with the connection: RESET goes back to it. A warning, if it stays as it is.

        JDBC sends the time zone of its machine with every connection. To refuse it would be to refuse JDBC: it is
        told the value that holds instead, as all clients are.
        """
        if fold(name) in freshness.NAMES:
            self.freshness.set(fold(name), value)
            self._fresh_first[fold(name)] = value
            return None
        try:
            self.set(name, value)
        except InvalidOption as error:
            setting = _BY_NAME[fold(name)]
            if not setting.reported or setting.fixed:
                raise
            return error.message
        self._first[fold(name)] = self._values[fold(name)]
        return None

    def set(self, name: str, value: str | None) -> tuple[str, str] | None:
        """Set a setting (None: to its first value); what is to be reported to the client."""
        key = fold(name)
        if key in freshness.NAMES:
            self.freshness.set(key, self._fresh_first.get(key) if value is None else value)
            return None
        setting = _BY_NAME.get(key)
        if setting is None:
            if key.startswith("penstock."):
                raise UndefinedSetting(
                    f'unrecognized configuration parameter "{name}"',
                    hint=f"There are {', '.join(freshness.NAMES)}.",
                )
            if "." not in name:
                raise UndefinedSetting(f'unrecognized configuration parameter "{name}"')
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
            return None
        if value is not None:
            self._check(setting, value)
        elif setting.fixed:
            raise InvalidOption(f'the setting "{setting.name}" cannot be changed')
        kept = self._first[key] if value is None else value
        if setting.duration:
            kept = duration_text(duration_ms(setting.name, kept))
        if key == "statement_timeout":
            self.statement_timeout_ms = duration_ms(setting.name, kept)
        if setting.reported and setting.allowed is not None:
            kept = setting.value  # whichever way it was written
        if key in ("default_transaction_isolation", "transaction_isolation"):
            self._session.set_isolation(fold(kept))
            self._values["default_transaction_isolation"] = self._values["transaction_isolation"] = fold(kept)
        self._values[key] = kept
        return (setting.name, kept) if setting.reported else None

    def _check(self, setting: Setting, value: str) -> None:
        if setting.fixed:
            raise InvalidOption(f'the setting "{setting.name}" cannot be changed')
        if setting.allowed is not None and fold(value.strip(" '")) not in setting.allowed:
            raise InvalidOption(
                f'the setting "{setting.name}" cannot be "{value}" here',
                hint=f"It is {setting.value!r}, and other values of it are not supported.",
            )

    # -- transactions ----------------------------------------------------------------------

    def remember(self, name: str, local: bool) -> None:
        """A setting is about to be set in a transaction."""
        key = fold(name)
        if key == freshness.TOKEN:
            return  # nobody can set it
        now = self._now(key)
        self._before.setdefault(key, now)
        if local:
            self._after.setdefault(key, now)
        else:
            self._after.pop(key, None)  # it is for the session now

    def _now(self, key: str) -> str | None:
        return self.freshness.show(key) if key in freshness.NAMES else self._values.get(key)

    def end_transaction(self, committed: bool) -> list[tuple[str, str]]:
        """Back to what was before the transaction, or before what was local to it; what is to be reported."""
        wanted = self._after if committed else self._before
        self._before, self._after = {}, {}
        reports = []
        for key, value in wanted.items():
            if self._now(key) != value:
                report = self.set(_BY_NAME[key].name if key in _BY_NAME else key, value)
                if report is not None:
                    reports.append(report)
        return reports

    def show(self, name: str) -> str:
        key = fold(name)
        if key in freshness.NAMES:
            return self.freshness.show(key)
        if key not in self._values:
            raise UndefinedSetting(f'unrecognized configuration parameter "{name}"')
        return self._session.isolation_now if key == "transaction_isolation" else self._values[key]

    def all(self) -> list[tuple[str, str]]:
        names = {key: setting.name for key, setting in _BY_NAME.items()}
        shown = {**self._values, **{name: self.freshness.show(name) for name in freshness.NAMES}}
        return sorted((names.get(key, key), value) for key, value in shown.items())

    def reset_all(self) -> Iterator[tuple[str, str]]:
        """Everything as it was at first; what is to be reported."""
        self.freshness = Freshness(self._session)
        for name, value in self._fresh_first.items():
            self.freshness.set(name, value)
        for key in list(self._values):
            if key not in _BY_NAME:
                del self._values[key]
            elif not _BY_NAME[key].fixed and self._values[key] != self._first[key]:
                report = self.set(_BY_NAME[key].name, None)
                if report is not None:
                    yield report
