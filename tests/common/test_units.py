"""Bytes as people write them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lessons_lib.common.units import (
    GIB,
    KIB,
    MIB,
    Unit,
    about_seconds,
    brief_bytes,
    byte_range,
    format_bytes,
    parse_bytes,
    use_unit,
)

SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (-1, "-1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (-1536, "-1.5 KiB"),
        (4 * MIB, "4 MiB"),
        (4 * MIB + MIB // 2, "4.5 MiB"),
        (MIB - 1, "1023.999 KiB"),
        (3 * GIB, "3 GiB"),
        (2**50, "1048576 GiB"),
        (1000, "1000 B"),
        (100 * KIB, "100 KiB"),
        (0.0001, "0 B"),
        (-0.0001, "0 B"),
    ],
)
def test_formatting(n: float, text: str) -> None:
    assert format_bytes(n) == text


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("30 MiB", 30 * MIB),
        ("30MiB", 30 * MIB),
        (" 30 mib ", 30 * MIB),
        ("1.5GB", 1_500_000_000),
        ("0 B", 0),
        ("0.57 MB", 570_000),
        ("0.29 kB", 290),
        ("1_000 B", 1000),
        ("0.9 B", 0),
        (1024, 1024),
        (0, 0),
        (np.int64(7), 7),
    ],
)
def test_parsing(text: int | str, n: int) -> None:
    found = parse_bytes(text)
    assert found == n
    assert type(found) is int


@pytest.mark.parametrize(
    "bad",
    [
        "", " ", "MiB", "30", "30 XB", "-1 MiB", "1e3 B", "1,5 MiB", "1.5.2 B", ".5 B", "5. B",
        "NaN B", "inf GiB", "30 MiB MiB", "9" * 5000 + " B", -1, -(10**30),
    ],
)  # fmt: skip
def test_what_is_not_a_size(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"size|negative") as caught:
        parse_bytes(bad)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "bad", [None, 1.5, True, False, b"1 B", [1], {}, 1j, float("nan"), np.ones(3), np.ones(1, int)]
)
def test_what_is_not_even_text(bad: Any) -> None:
    with pytest.raises(TypeError, match="whole number of bytes or text"):
        parse_bytes(bad)


@given(
    whole=st.integers(0, 10**12),
    digits=st.text("0123456789", max_size=9),
    unit=st.sampled_from(sorted(SIZES)),
)
@example(whole=0, digits="57", unit="MB")
def test_decimals_are_read_exactly(whole: int, digits: str, unit: str) -> None:
    number = f"{whole}.{digits}" if digits else str(whole)
    assert parse_bytes(f"{number} {unit}") == int(Fraction(number) * SIZES[unit])


@given(st.integers(-(2**60), 2**60))
def test_what_is_written_is_near_what_was_meant(n: int) -> None:
    text = format_bytes(n)
    assert text.startswith("-") == (n < 0)
    size, unit = text.lstrip("-").split(" ")
    assert abs(Fraction(size) * SIZES[unit] - abs(n)) <= Fraction(SIZES[unit], 2000)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (MIB, MIB, "1 MiB"),
        (26 * MIB, 30 * MIB, "≈ 26 to 30 MiB"),
        (26, 30 * MIB, "≈ 26 B to 30 MiB"),
        (30 * MIB, 30 * MIB + 8, "≈ 30 MiB"),
    ],
)
def test_range_of_runs_is_bare_only_where_they_are_equal(low: int, high: int, text: str) -> None:
    assert byte_range(low, high) == text


def test_seconds_are_marked_as_noisy() -> None:
    assert [about_seconds(s) for s in (1.5, 0.0123)] == ["≈ 1.5 s", "≈ 12.3 ms"]


def test_brief_bytes_count_in_the_lessons_unit() -> None:
    assert brief_bytes(768 * KIB) == "768.0 KiB"
    use_unit(Unit("S", 512 * KIB))
    try:
        assert brief_bytes(768 * KIB) == "1.5 S"
    finally:
        use_unit(None)
    assert brief_bytes(3) == "3 B"
