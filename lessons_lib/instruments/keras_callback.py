"""`MemoryCallback`: the memory of each batch and epoch while a Keras model is fitted.

A recording runs only while Keras runs a step, inside a wrapper of the model's step function that
puts the function back before it is called; so nothing stays on when ``fit`` raises, whoever raises.
Per batch it gives the peak and what was kept (bytes, over the batch's start); in the logs, and so
in the progress bar and the history, they are in MiB.  What other callbacks, Keras and ``tf.data``
keep between the steps is known from the allocator's own count, in which a buffer may count for up
to twice its size; peaks there, and memory outside of the allocator, are not seen.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from lessons_lib.common.patching import Patch
from lessons_lib.common.results import Result, draw, html_table, notes_table, summary_html
from lessons_lib.common.runtime import require_home_process, tf
from lessons_lib.common.system import allocator_bytes
from lessons_lib.common.units import MIB, about_seconds, counted, format_bytes
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

PEAK: Final = "peak_mib"
KEPT: Final = "kept_mib"
_STEPS: Final = {
    "train": "train_function",
    "validation": "test_function",
    "prediction": "predict_function",
}


@dataclass(frozen=True, slots=True)
class BatchMemory:
    """One batch (or as many as Keras runs at once).

    Attributes
    ----------
    epoch, batch : int
        Numbers from 0, as Keras counts.
    phase : str
        ``"train"``, ``"validation"`` (or ``evaluate``) or ``"prediction"``.
    peak_bytes, kept_bytes : int
        Highest growth, and growth at the end, over the batch's start.  What is kept can be
        negative: results of the batch before are dropped.
    seconds : float
        Time of the step.
    between_bytes : int
        What was kept outside of the steps since the one before (and after the last one of an
        epoch), by other callbacks, Keras or ``tf.data``.
    """

    epoch: int
    batch: int
    phase: str
    peak_bytes: int
    kept_bytes: int
    seconds: float
    between_bytes: int = 0


@dataclass(frozen=True, repr=False)
class FitMemory(Result):
    """The memory of a training run, batch by batch.

    Attributes
    ----------
    batches : tuple of BatchMemory
        In the order in which they ran.
    recording : Recording
        Of the batch with the highest peak.
    notes : tuple of str
        What a reader must know, in sentences.
    """

    batches: tuple[BatchMemory, ...]
    recording: Recording
    notes: tuple[str, ...] = ()

    @property
    def peak_bytes(self) -> int:
        """Highest peak of all batches."""
        return max((batch.peak_bytes for batch in self.batches), default=0)

    @property
    def kept_bytes(self) -> int:
        """What all batches together kept, and what was kept between them."""
        return sum(batch.kept_bytes + batch.between_bytes for batch in self.batches)

    @property
    def between_bytes(self) -> int:
        """What was kept between the steps: by other callbacks, Keras or ``tf.data``."""
        return sum(batch.between_bytes for batch in self.batches)

    @property
    def epochs(self) -> int:
        """How many epochs were begun."""
        return len({batch.epoch for batch in self.batches})

    def epoch(self, number: int, phase: str = "train") -> tuple[BatchMemory, ...]:
        """Give the batches of an epoch.

        Parameters
        ----------
        number : int
            From 0, as Keras counts.
        phase : str
            ``"train"``, ``"validation"`` or ``"prediction"``.
        """
        return tuple(b for b in self.batches if b.epoch == number and b.phase == phase)

    def __repr__(self) -> str:
        return (
            f"<FitMemory: {len(self.batches)} batches in {counted(self.epochs, 'epoch')}, "
            f"peak {format_bytes(self.peak_bytes)}, kept ≈ {format_bytes(self.kept_bytes)}>"
        )


@summary_html.register
def _(result: FitMemory) -> str:
    rows = []
    for number in sorted({batch.epoch for batch in result.batches}):
        for phase in _STEPS:
            if batches := result.epoch(number, phase):
                rows.append(
                    (
                        number + 1,
                        phase,
                        len(batches),
                        format_bytes(max(b.peak_bytes for b in batches)),
                        format_bytes(sum(b.kept_bytes for b in batches)),
                        f"≈ {format_bytes(sum(b.between_bytes for b in batches))}",
                        about_seconds(sum(b.seconds for b in batches)),
                    )
                )
    headers = (
        *("epoch", "phase", "batches", "highest peak"),
        *("kept by the steps", "kept between them", "time of the steps"),
    )
    return html_table(headers, rows, align="rlrrrrr") + notes_table(result.notes)


@dataclass(slots=True, eq=False)
class _Log:
    """What a callback has seen so far."""

    batches: list[BatchMemory] = field(default_factory=list)
    recording: Recording | None = None
    epoch: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    level: int | None = None  # of the allocator, after what the batches so far account for
    before: int = 0  # kept since then, before the step that runs now

    def begin(self) -> None:
        """Note what was kept since the step before, when the next one begins."""
        self.before, self.level = self._grown()

    def settle(self) -> None:
        """Add what was kept since the latest step to it, when an epoch or its validation ends."""
        if self.batches and self.level is not None:
            grown, self.level = self._grown()
            latest = self.batches[-1]
            self.batches[-1] = replace(latest, between_bytes=latest.between_bytes + grown)

    def _grown(self) -> tuple[int, int | None]:
        now = allocator_bytes()
        return (0, now) if now is None or self.level is None else (now - self.level, now)

    def add(self, phase: str, batch: int, recording: Recording) -> None:
        self.batches.append(
            BatchMemory(
                self.epoch,
                batch,
                phase,
                recording.peak_bytes,
                recording.kept_bytes,
                recording.seconds,
                self.before,
            )
        )
        if self.level is not None:
            self.level += recording.kept_bytes
        if self.recording is None or recording.peak_bytes > self.recording.peak_bytes:
            self.recording = recording
        self.notes.update(dict.fromkeys(recording.notes))


class MemoryCallback:
    """Watch the memory of each batch of a Keras model's ``fit``, ``evaluate`` or ``predict``.

    Every batch's logs get ``peak_mib`` and ``kept_mib``; an epoch's get its highest peak and the
    sum of what was kept in its batches and between them, and with validation data ``val_peak_mib``
    and ``val_kept_mib``.

    Attributes
    ----------
    result : FitMemory
        What was measured so far, of the latest ``fit``.

    Raises
    ------
    RuntimeError
        When ``fit`` begins, if Keras does not run on TensorFlow.
    lessons_lib.ProfileError
        At the first batch, if TensorFlow's profiler is used by something else.

    Examples
    --------
    >>> memory = MemoryCallback()
    >>> model.fit(x, y, callbacks=[memory])
    >>> memory.plot()
    """

    _keras_class: ClassVar[Any]

    # Keras wants its callbacks to be instances of its own class, and importing Keras takes long:
    # so an instance is made of a class that derives from both, when the first one is made.
    def __new__(cls, *args: Any, **kwargs: Any) -> MemoryCallback:
        """Make an instance that is a Keras callback, too."""
        return object.__new__(_keras_class(cls))

    def __init__(self) -> None:
        super().__init__()
        self._log = _Log()

    def __repr__(self) -> str:
        return f"<MemoryCallback: {self.result!r}>"

    @property
    def result(self) -> FitMemory:
        """What was measured so far."""
        return FitMemory(
            tuple(self._log.batches), self._log.recording or Recording(), tuple(self._log.notes)
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw peak and kept bytes (y is in bytes), batch by batch, as ``result.plot`` does."""
        return draw(self.result, ax, **options)

    def _repr_html_(self) -> str:
        return summary_html(self.result)

    def set_model(self, model: Any) -> None:
        """Begin a ``fit``, ``evaluate`` or ``predict``; the program's own work is left out."""
        super().set_model(model)  # type: ignore[misc]
        self._log.level = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Begin anew.

        Raises
        ------
        RuntimeError
            If Keras does not run on TensorFlow, or in a process that was forked.
        """
        require_home_process()
        model = self._fitted()
        backend = tf.keras.config.backend() if hasattr(tf.keras, "config") else "tensorflow"
        if backend != "tensorflow":
            raise RuntimeError(
                f"Keras runs on {backend} here, and MemoryCallback measures TensorFlow: "
                "set KERAS_BACKEND=tensorflow before Keras is imported"
            )
        self._log = _Log()
        self._drop_left_over()
        gc.collect()  # garbage of earlier work, freed between steps, would hide what is kept there
        if getattr(model, "jit_compile", False) is True:
            self._log.notes["XLA compiled the step: it is one operation, on no line."] = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note which epoch it is."""
        self._log.epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Record the step that is about to run."""
        self._watch("train", batch)

    def on_test_begin(self, logs: Any = None) -> None:
        """Add what was kept since the latest step of a training, if there is one."""
        self._drop_left_over()
        self._log.settle()

    on_predict_begin = on_test_begin

    def on_train_end(self, logs: Any = None) -> None:
        """Add what was kept since the latest step."""
        self._log.settle()

    on_test_end = on_predict_end = on_train_end

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Record the step that is about to run."""
        self._watch("validation", batch)

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Record the step that is about to run."""
        self._watch("prediction", batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Add the figures to the batch's logs."""
        self._tell(logs, self._log.batches[-1:] if self._ran("train") else [])

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Add the figures to the batch's logs."""
        self._tell(logs, self._log.batches[-1:] if self._ran("validation") else [])

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """Add the figures to the batch's logs."""
        self._tell(logs, self._log.batches[-1:] if self._ran("prediction") else [])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Add the figures to the epoch's logs."""
        self._log.settle()
        here = [batch for batch in self._log.batches if batch.epoch == epoch]
        self._tell(logs, [batch for batch in here if batch.phase == "train"])
        self._tell(logs, [batch for batch in here if batch.phase == "validation"], "val_")

    def _fitted(self) -> Any:
        # Keras keeps the model itself in one place or another, by version.
        return getattr(self, "model", None)

    def _ran(self, phase: str) -> bool:
        return bool(self._log.batches) and self._log.batches[-1].phase == phase

    @staticmethod
    def _tell(logs: Any, batches: list[BatchMemory], prefix: str = "") -> None:
        if isinstance(logs, dict) and batches:
            logs[prefix + PEAK] = max(batch.peak_bytes for batch in batches) / MIB
            kept = sum(batch.kept_bytes + batch.between_bytes for batch in batches)
            logs[prefix + KEPT] = kept / MIB

    def _watch(self, phase: str, batch: int) -> None:
        model, name = self._fitted(), _STEPS[phase]
        step = getattr(model, name, None)
        if isinstance(step, _RecordedOnce) and step.is_shared_by(self._log, phase, batch):
            return
        self._drop_left_over()
        if getattr(model, name, None) is not None:
            _RecordedOnce(model, name, self._log, phase, batch)

    def _drop_left_over(self) -> None:
        """Withdraw what waits for a batch that never ran."""
        for name in _STEPS.values():
            while isinstance(step := getattr(self._fitted(), name, None), _RecordedOnce):
                step.withdraw()


class _RecordedOnce:
    """Wraps a model's step function for one call, which is recorded once the original is back."""

    def __init__(self, model: Any, name: str, log: _Log, phase: str, batch: int) -> None:
        self._logs = [log]
        self._phase = phase
        self._batch = batch
        self._patch: Patch | None = Patch(model, name, self._around)
        self._patch.install()

    def _around(self, step: Callable[..., Any]) -> _RecordedOnce:
        self._step = step
        return self

    def is_shared_by(self, log: _Log, phase: str, batch: int) -> bool:
        """Tell another callback as well, if this is the batch that it waits for."""
        shared = (phase, batch) == (self._phase, self._batch) and log not in self._logs
        if shared:
            self._logs.append(log)
        return shared

    def withdraw(self) -> bool:
        """Put the original back; False where that was done before."""
        patch, self._patch = self._patch, None
        if patch is None:
            return False
        patch.remove()
        return True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.withdraw():  # somebody has wrapped this wrapper, and kept it
            return self._step(*args, **kwargs)
        label = f"{self._phase} batch {self._batch} of epoch {self._logs[0].epoch + 1}"
        for log in self._logs:
            log.begin()
        with record(label) as recording:
            result = self._step(*args, **kwargs)
        for log in self._logs:
            log.add(self._phase, self._batch, recording)
        return result


def _keras_class(cls: type[MemoryCallback]) -> type[MemoryCallback]:
    base = tf.keras.callbacks.Callback
    if issubclass(cls, base):
        return cls
    if "_keras_class" not in vars(cls):
        names = {"__module__": cls.__module__, "__doc__": cls.__doc__}
        cls._keras_class = type(cls.__name__, (cls, base), names)
    derived: type[MemoryCallback] = vars(cls)["_keras_class"]
    return derived
