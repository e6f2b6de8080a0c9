"""What a real PostgreSQL answered in recorded dialogues is what we answer, but for differences that are explained."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gateway.record_transcripts import difference, penstock_server
from gateway.transcript import DIFFERENCES, Dialogue, read

RECORDED = read()


def explained() -> dict[str, tuple[str, list[str]]]:
    """By dialogue: why it differs, and how."""
    found: dict[str, tuple[str, list[str]]] = {}
    name = ""
    for line in DIFFERENCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            name = line[3:]
            assert name not in found, f"{name} is explained twice"
            found[name] = ("", [])
        elif name and line.startswith(("+", "-")):
            found[name][1].append(line)
        elif name and line.strip():
            found[name] = (found[name][0] + line, found[name][1])
    return found


def test_there_are_enough_and_each_has_answers() -> None:
    assert len(RECORDED) >= 60
    assert len({d.name for d in RECORDED}) == len(RECORDED)
    assert all(d.answers for d in RECORDED)


def test_explanations_are_of_dialogues_and_say_something() -> None:
    names = {d.name for d in RECORDED}
    for name, (why, lines) in explained().items():
        assert name in names
        assert len(why) > 20, f"{name} differs without a reason"
        assert lines, f"{name} has a reason and no difference"


@pytest.fixture(scope="module")
def answers() -> Iterator[Callable[[Dialogue], list[str]]]:
    with penstock_server() as answers:
        yield answers


@pytest.mark.parametrize("dialogue", RECORDED, ids=lambda d: d.name.replace(" ", "-"))
def test_dialogue(dialogue: Dialogue, answers: Callable[[Dialogue], list[str]]) -> None:
    found = difference(dialogue.lines, answers(dialogue))
    _, expected = explained().get(dialogue.name, ("", []))
    assert found == expected, "\n".join(["the difference is", *found, "explained is", *expected])
