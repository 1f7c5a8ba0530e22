"""``%mem`` and ``%%mem``: measure a statement or a cell where it stands.

The cell runs once and unchanged.  Its text is not indented, quoted or run through ``exec``: only
the magic's own line is replaced, before parsing, and the syntax tree is then put into a ``with``
block.  So line numbers, multi-line strings, ``await``, variables and the display of the last
expression are as they always are.  After the cell comes one line with its figures, and the
picture or table that was asked for.  The recording is then in the variable ``_mem``.
"""

from __future__ import annotations

import ast
import itertools
import sys
import tokenize
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import (
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
)
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from lessons_lib.common.units import about_seconds, counted, format_bytes
from lessons_lib.recording.recorder import record
from lessons_lib.recording.recording import Recording

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_HOOK: Final = "__lessons_lib_mem__"
_BLOCK: Final = "__lessons_lib_block_{}__"
# Blocks may be nested (%mem inside %%mem), so each has a name of its own.
_numbers: Final = itertools.count()
# Statements that cannot stand behind a colon on one line.
_COMPOUND: Final = frozenset(
    ["async", "class", "def", "for", "if", "match", "try", "while", "with", "@"]
)
_FLAGS: Final = ("--plot", "--lines", "--ops")
_HELP: Final = frozenset(("-h", "--help"))


def summary_line(recording: Recording) -> str:
    """Put a recording's figures into one line."""
    note = "" if recording.exact else " (not exact: see _mem.notes)"
    return (
        f"peak {format_bytes(recording.peak_bytes)}, kept {format_bytes(recording.kept_bytes)}, "
        f"{counted(recording.buffers.total, 'buffer')}, {about_seconds(recording.seconds)}{note}"
    )


def split_flags(text: str) -> tuple[list[str], str]:
    """Part the flags at the beginning of a line from the statement behind them."""
    flags: list[str] = []
    rest = text.strip()
    while rest.startswith("-"):
        word, _, behind = rest.partition(" ")
        if not (word.startswith("--") or word == "-h"):
            break  # a statement such as "-x"
        flags.append(word)
        rest = behind.lstrip()
    return flags, rest


class Block:
    """The ``with`` block around a measured cell."""

    def __init__(self, shell: InteractiveShell, flags: list[str], name: str) -> None:
        self._shell = shell
        self._flags = flags
        self._watch = record()
        self._value: list[Any] = []
        self._name = name

    def __enter__(self) -> Block:
        self._recording = self._watch.__enter__()
        return self

    def keep(self, value: Any) -> None:
        """Hold the cell's last value until the recording has ended; then it is displayed."""
        self._value.append(value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watch.__exit__(kind, error, trace)
        recording = self._recording
        self._shell.user_ns.pop(self._name, None)
        self._shell.push({"_mem": recording}, interactive=False)
        if self._value:
            sys.displayhook(self._value.pop())
        print(summary_line(recording))
        if error is None:
            self._show(recording)

    def _show(self, recording: Recording) -> None:
        from IPython.display import display

        for flag in self._flags:
            match flag:
                case "--plot":
                    display(recording.plot())
                case "--lines":
                    display(recording.by_line())
                case "--ops":
                    display(recording.by_op())


class _Wrap(ast.NodeTransformer):
    """Puts a measured cell into its ``with`` block."""

    def __init__(self) -> None:
        self._last: ast.stmt | None = None

    def visit_Module(self, node: ast.Module) -> ast.Module:
        body = node.body
        start = next((i for i, statement in enumerate(body) if _is_hook(statement)), None)
        if start is not None:
            rest = body[start + 1 :]
            # These must stand at the top of a file.
            future = [s for s in rest if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
            rest = [s for s in rest if s not in future]
            hook = body[start]
            assert isinstance(hook, ast.Expr)
            block = ast.With(
                items=[ast.withitem(context_expr=hook.value, optional_vars=None)],
                body=rest or [ast.Pass()],
            )
            node.body = [*body[:start], *future, ast.copy_location(block, hook)]
        # Only what ends a cell is displayed, as ever.
        self._last = node.body[-1] if node.body else None
        self.generic_visit(node)
        return ast.fix_missing_locations(node)

    def visit_With(self, node: ast.With) -> ast.With:
        self.generic_visit(node)
        if not _is_call(node.items[0].context_expr):
            return node
        name = _BLOCK.format(next(_numbers))
        call = node.items[0].context_expr
        assert isinstance(call, ast.Call)
        call.args.append(ast.Constant(name))
        node.items[0].optional_vars = ast.Name(name, ast.Store())
        last = node.body[-1]
        if node is self._last and isinstance(last, ast.Expr):
            keep = ast.Attribute(ast.Name(name, ast.Load()), "keep", ast.Load())
            node.body[-1] = ast.copy_location(ast.Expr(ast.Call(keep, [last.value], [])), last)
        return node


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _HOOK


def _is_hook(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and _is_call(node.value)


def transform(lines: list[str]) -> list[str]:
    """Replace the magic's own line, and nothing else; an input transformer of IPython's."""
    if lines and lines[0].startswith("%%mem") and not lines[0][5:6].strip():
        rest = lines[1:]
        first = next((line for line in rest if line.strip()), "")
        flags, statement = split_flags(lines[0][5:])
        if first.startswith("%%") or statement or not first:
            return lines  # another cell magic, or a mistake: left to the magic itself
        return [f"{_HOOK}({flags!r})\n", *rest]
    return lines


class MemLine(TokenTransformBase):  # type: ignore[misc, unused-ignore]
    """Turns ``%mem STATEMENT`` into a ``with`` statement on the same line."""

    @classmethod
    def find(cls, tokens_by_line: list[list[Any]]) -> MemLine | None:
        """Find the next ``%mem`` that begins a line; strings are not looked into."""
        for line in tokens_by_line:
            words = [t for t in line if t.type not in (tokenize.INDENT, tokenize.DEDENT)]
            if len(words) < 2 or words[0].string != "%" or words[1].string != "mem":
                continue
            if words[0].end == words[1].start:
                return cls(words[0].start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Rewrite the line that was found."""
        start, column = self.start_line, self.start_col
        end = find_end_of_continued_line(lines, start)
        text = assemble_continued_line(lines, (start, column), end)
        flags, statement = split_flags(text.removeprefix("%mem"))
        indent = lines[start][:column]
        plain = statement and statement.split()[0].rstrip(":") not in _COMPOUND
        if plain and not statement.startswith(("%", "!")):
            new = f"{indent}with {_HOOK}({flags!r}): {statement}\n"
        else:  # the magic itself runs it, or says what is wrong
            rest = text.removeprefix("%mem").strip()
            new = f"{indent}get_ipython().run_line_magic('mem', {rest!r})\n"
        return [*lines[:start], new, *lines[end + 1 :]]


@magics_class
class MemMagics(Magics):
    """The magics of ``%load_ext lessons_lib``."""

    @magic_arguments()
    @argument("--plot", action="store_true", help="draw the timeline of every buffer")
    @argument("--lines", action="store_true", help="show bytes by source line")
    @argument("--ops", action="store_true", help="show bytes by operation")
    @argument("statement", nargs="*", help="what to measure (%%mem measures the whole cell)")
    @line_cell_magic
    def mem(self, line: str, cell: str | None = None) -> None:
        """Measure the TensorFlow memory of a statement or a cell: peak, kept, buffers, time."""
        flags, statement = split_flags(line)
        if not _HELP.isdisjoint(flags):
            print(self.mem.parser.format_help().replace("::\n\n  %", "%"))
            return
        self._check(flags)
        if cell is not None and statement:
            raise UsageError(
                f"%%mem measures the cell below it, so nothing may follow its flags, but "
                f"{statement!r} does: put it on the next line"
            )
        text = statement if cell is None else cell
        if not text.strip():
            raise UsageError(
                "there is nothing to measure: write %mem STATEMENT, or %%mem and a cell"
            )
        self._run(flags, text)

    def _check(self, flags: list[str]) -> None:
        for flag in flags:
            if flag in _HELP:
                raise UsageError(f"{flag} stands alone: write %mem {flag}")
            if flag not in _FLAGS:
                raise UsageError(f"%mem has no flag {flag}: use --plot, --lines or --ops")
        parse_argstring(self.mem, " ".join(flags))

    def _run(self, flags: list[str], text: str) -> None:
        # The way for what the input transformer leaves alone: run in the user's namespace, with
        # the shell's own treatment of magics and of names of cells.
        shell = self.shell
        assert shell is not None
        source = shell.transform_cell(text)
        name = shell.compile.cache(source, shell.execution_count, raw_code=text)
        tree = ast.parse(source, name)
        hook = ast.parse(f"{_HOOK}({flags!r})").body
        tree.body = [*hook, *tree.body]
        tree = _Wrap().visit(tree)
        exec(compile(tree, name, "exec"), shell.user_ns)


_LOADED: Final = "_lessons_lib_magics"


def load(shell: InteractiveShell) -> None:
    """Register the magics with a shell; loading twice changes nothing."""
    if getattr(shell, _LOADED, None) is not None:
        return
    magics = MemMagics(shell)

    def hook(flags: list[str], name: str) -> Block:
        magics._check(flags)
        return Block(shell, flags, name)

    wrap = _Wrap()
    shell.register_magics(magics)
    shell.push({_HOOK: hook}, interactive=False)
    shell.input_transformers_cleanup.append(transform)
    shell.input_transformer_manager.token_transformers.insert(0, MemLine)
    shell.ast_transformers.append(wrap)
    setattr(shell, _LOADED, wrap)


def unload(shell: InteractiveShell) -> None:
    """Take the magics away again."""
    wrap = getattr(shell, _LOADED, None)
    if wrap is None:
        return
    shell.input_transformers_cleanup.remove(transform)
    shell.input_transformer_manager.token_transformers.remove(MemLine)
    shell.ast_transformers.remove(wrap)
    shell.user_ns.pop(_HOOK, None)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("mem", None)
    setattr(shell, _LOADED, None)
