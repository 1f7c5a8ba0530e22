"""A process of TensorFlow alone: numbers come back, and failures in a sentence."""

from __future__ import annotations

import pytest

from lessons_lib.teaching import plain_process


@pytest.mark.child
def test_numbers_come_back_and_the_allocator_is_not_asked_for() -> None:
    found = plain_process(
        """
        import os
        print(float(tf.reduce_sum(tf.ones([3]))), resident() > 1)
        print(int("TF_CPU_ALLOCATOR_USE_BFC" in os.environ))
        """.replace("resident() > 1", "int(resident() > 1)")
    )
    assert found == [3.0, 1.0, 0.0]


@pytest.mark.further
@pytest.mark.child
@pytest.mark.parametrize("program", ["raise SystemExit('a reason')", "print('a reason')"])
def test_what_is_no_number_is_told(program: str) -> None:
    with pytest.raises(RuntimeError, match=r"should print numbers, and said: .*a reason"):
        plain_process(program)
