"""Dates, times and intervals as Postgres writes them (DateStyle ISO, intervals in its own style).

Days and microseconds are counted from 1970, as DuckDB does. Python's datetime ends with the year 9999 and knows
neither infinity nor years before Christ, so this does without it.
"""

from __future__ import annotations

DAY_US = 86_400_000_000
EPOCH_DAYS = 10_957  # from 1970 to 2000, where Postgres begins to count
EPOCH_US = EPOCH_DAYS * DAY_US
DATE_INFINITY = 2**31 - 1
TIME_INFINITY = 2**63 - 1


def date_text(days: int) -> str:
    """
    >>> date_text(0), date_text(-719_163), date_text(DATE_INFINITY), date_text(2_932_897)
    ('1970-01-01', '0001-12-31 BC', 'infinity', '10000-01-01')
    """
    if abs(days) >= DATE_INFINITY:
        return "infinity" if days > 0 else "-infinity"
    day, suffix = _civil(days)
    return day + suffix


def _civil(days: int) -> tuple[str, str]:
    """Year, month and day of the Gregorian calendar, and " BC" where it is; after Howard Hinnant."""
    shifted = days + 719_468  # from 1 March of the year 0
    era, of_era = divmod(shifted, 146_097)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year + era * 400 + (month <= 2)
    suffix = "" if year > 0 else " BC"
    return f"{year if year > 0 else 1 - year:04}-{month:02}-{day:02}", suffix


def time_text(micros: int) -> str:
    """
    >>> time_text(3_600_500_000), time_text(DAY_US)
    ('01:00:00.5', '24:00:00')
    """
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def timestamp_text(micros: int, zone: str = "") -> str:
    """
    >>> timestamp_text(1), timestamp_text(0, "+00")
    ('1970-01-01 00:00:00.000001', '1970-01-01 00:00:00+00')
    """
    if abs(micros) >= TIME_INFINITY:
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, DAY_US)
    day, suffix = _civil(days)
    return f"{day} {time_text(rest)}{zone}{suffix}"


def interval_text(months: int, days: int, micros: int) -> str:
    """
    >>> interval_text(14, -3, 3_600_000_000), interval_text(0, 0, 0), interval_text(0, 0, -1_500_000)
    ('1 year 2 mons -3 days +01:00:00', '00:00:00', '-00:00:01.5')
    """
    years, rest = divmod(abs(months), 12)
    sign = -1 if months < 0 else 1
    parts: list[str] = []
    before = False  # whether the part before was negative: then a plus is written
    for amount, word in ((sign * years, "year"), (sign * rest, "mon"), (days, "day")):
        if amount:
            plus = "+" if before and amount > 0 else ""
            parts.append(f"{plus}{amount} {word}{'' if amount == 1 else 's'}")
            before = amount < 0
    if micros or not parts:
        mark = "-" if micros < 0 else "+" if before else ""
        parts.append(mark + time_text(abs(micros)))
    return " ".join(parts)
