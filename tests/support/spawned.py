"""What a spawned process runs in tests/recording/survival: it must be importable."""

from __future__ import annotations


def kept() -> tuple[int, bool]:
    """Record a tensor of nine float32 here; give the bytes kept, and whether they are exact."""
    import lessons_lib as ll

    tf = ll.runtime.tf
    dims, one = tf.constant([9]), tf.constant(1.0)
    with ll.record() as recording:
        x = tf.raw_ops.Fill(dims=dims, value=one)
    found = recording.kept_bytes, recording.exact
    del x
    return found
