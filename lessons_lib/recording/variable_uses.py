"""What variables are for, judged by all functions and steps that use them."""

from __future__ import annotations

from lessons_lib.recording import eager_notes
from lessons_lib.recording.buffers import Purpose
from lessons_lib.recording.call_log import CallLog
from lessons_lib.recording.categories import Category
from lessons_lib.recording.variables import Variable


def categories_by_use(log: CallLog) -> dict[int, Category]:
    """Tell what variables are for, by their numbers: from the steps that train them.

    What one step only updates, such as a target network, is a weight where another step reads it.
    """
    known = (*log.roles.values(), *(roles for _, roles in log.sessions))
    found: dict[int, Category] = {}
    for roles in known:
        if roles is None or not roles.trains:
            continue
        for variable, category in zip(roles.flow.variables, roles.categories, strict=True):
            if found.get(variable.number) is not Category.WEIGHTS:
                found[variable.number] = category
    for moment in log.notes.moments.values():
        if moment.kind == eager_notes.GRADIENTS:
            found |= {v.number: v.category for _, v in moment.addresses if v.category}
    return found


def variable_purpose(variable: Variable, by_use: Category | None = None) -> Purpose:
    """Tell what a variable's buffer is for, which a graph that uses it may show."""
    category = variable.category or by_use or Category.OTHER
    return Purpose(category, None, variable.layer, variable.name, variable.number)
