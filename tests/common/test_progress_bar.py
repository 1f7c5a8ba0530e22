"""A progress bar can be switched off, so that outputs do not depend on a machine's speed."""

from __future__ import annotations

import pytest

from lessons_lib.common.progress_bar import progress_bar


@pytest.mark.parametrize(("setting", "made"), [("1", False), ("0", True), ("", True)])
def test_tqdms_own_variable_switches_it_off(
    setting: str, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TQDM_DISABLE", setting)
    bar = progress_bar("working", total=3)
    assert (bar is not None) is made
    if bar is not None:
        bar.close()
