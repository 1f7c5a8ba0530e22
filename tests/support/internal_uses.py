"""How each private part of TensorFlow and Keras is used, what it must do, and the list of all."""

from __future__ import annotations

import collections
import inspect
import traceback
from collections.abc import Callable
from typing import Any

from lessons_lib.common import internals
from lessons_lib.common.internals.training import (
    build_as_fit_does,
    random_state,
    variable_behind,
)
from lessons_lib.common.runtime import tf
from tests.support import python_uses


class _Doubler(tf.Module):
    @tf.function
    def double(self, x: Any) -> Any:
        return x * 2


def _squared() -> Any:
    @tf.function
    def square(x: Any) -> Any:
        return x * x

    return square


def _calling() -> Any:
    """Make a graph that calls a function, and has a branch with a gradient."""
    square = _squared()

    @tf.function
    def around(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cond(x > 0, lambda: square(x), lambda: x)
        return tape.gradient(y, x)

    return around.get_concrete_function(tf.constant(1.0))


def _graphs(graph: Any) -> list[Any]:
    functions = internals.functions_of(graph).values()
    return [inner for f in functions if (inner := internals.traced_graph(f)) is not None]


def _tensor_number() -> None:
    first, second = tf.constant(1.0), tf.constant(2.0)
    assert 0 <= internals.tensor_number(first) != internals.tensor_number(second)
    assert internals.tensor_number("no tensor") == -1
    newest = internals.newest_tensor_number()
    assert internals.tensor_number(second) < newest < internals.tensor_number(tf.constant(3.0))


def _tensor_shape() -> None:
    tensor = tf.ones([2, 3])
    assert internals.tensor_shape(tensor) == (2, 3)
    assert not vars(tensor)  # nothing is remembered


def _resources() -> None:
    class Tracker:
        made: list[Any] = []  # noqa: RUF012 - TensorFlow calls the method alone

        def add_resource(self, resource: Any) -> None:
            self.made.append(resource)

    with internals.resource_tracker_scope(Tracker()):
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2])), -1
        )
    assert [id(made) for made in Tracker.made] == [id(table)]
    assert internals.resource_handle(table) is table.resource_handle
    handle = tf.raw_ops.HashTableV2(key_dtype=tf.int32, value_dtype=tf.int32, shared_name="mine")
    assert internals.table_name(handle) == "mine"
    assert internals.table_name(tf.Variable(1.0).handle) == ""
    anonymous = tf.raw_ops.AnonymousHashTable(key_dtype=tf.int32, value_dtype=tf.int32)
    assert internals.table_name(anonymous) == ""
    assert internals.table_name(None) == ""


def _original_op() -> None:
    with tf.Graph().as_default():
        first = tf.constant(1.0)
        y = tf.tanh(first)
        second = tf.gradients(y, first)[0]
    assert internals.original_op(second.op) is y.op
    assert internals.original_op(y.op) is None


def _count_operations() -> None:
    with tf.Graph().as_default() as graph:
        assert internals.count_operations(graph) == 0
        tf.constant(1.0)
        tf.constant(2.0)
    assert internals.count_operations(graph) == len(graph.get_operations()) == 2


def _outside_frames() -> None:
    with tf.Graph().as_default():
        frames = internals.outside_frames(tf.tanh(1.0).op.traceback)
    assert frames is not None
    assert frames[-1][0] == __file__
    assert not any("array_ops" in file or "gen_math_ops" in file for file, _ in frames)


def _autograph_lines() -> None:
    seen: list[traceback.StackSummary] = []

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator, unused-ignore]
    def look() -> None:
        seen.append(traceback.extract_stack())

    @tf.function
    def traced() -> Any:
        look()
        return tf.constant(1.0)

    traced()
    frame = next(frame for frame in seen[0] if "__autograph_generated_file" in frame.filename)
    first = inspect.getsourcelines(traced.python_function)[1]
    number = frame.lineno or 0
    assert internals.autograph_lines(frame.filename)[number] == (__file__, first + 2)
    assert internals.autograph_lines("no such file") == {}


def _inner_graphs() -> None:
    names = {type(graph).__name__ for graph in _graphs(_calling().graph)}
    assert "FuncGraph" in " ".join(names)


def _forward_graph() -> None:
    graphs = _graphs(_calling().graph)
    known = {id(graph) for graph in graphs}
    forward = [internals.forward_graph(graph) for graph in graphs]
    assert any(id(graph) in known for graph in forward if graph is not None)


def _outer_graph() -> None:
    concrete = _calling()
    outer = {id(internals.outer_graph(graph)) for graph in _graphs(concrete.graph)}
    assert id(concrete.graph) in outer


def _traces() -> None:
    square = _squared()
    assert internals.traces_in(internals.trace_cache(square)) == []
    first = square.get_concrete_function(tf.constant(1.0))
    second = square.get_concrete_function(tf.constant([1.0]))
    found = [concrete for _, concrete in internals.traces_in(internals.trace_cache(square))]
    assert [c.graph for c in found] == [first.graph, second.graph]
    listed = internals.concrete_functions(square)
    assert {id(c.graph) for c in listed} == {id(first.graph), id(second.graph)}


def _bound_functions() -> None:
    doublers = [_Doubler(), _Doubler()]
    for doubler in doublers:
        doubler.double(tf.constant(1.0))
    assert len(internals.bound_functions(type(doublers[0]).__dict__["double"])) == 2


def _weak_key() -> None:
    class Owner:
        pass

    owner = Owner()
    concrete = tf.function(lambda _: tf.constant(1.0)).get_concrete_function(owner)
    (parameter,) = concrete.function_type.parameters.values()
    assert isinstance(parameter.type_constraint, internals.default_types.Weakref)
    assert internals.weak_key(parameter.type_constraint)() is owner


def _mapped_function() -> None:
    def user(x: Any) -> Any:
        return x

    wrapper = internals.find(f"{internals.TF_DATA_FUNCTIONS}:StructuredFunctionWrapper")
    made = wrapper(user, "map", dataset=tf.data.Dataset.range(1))
    assert internals.mapped_function(made) is user


def _pipeline() -> None:
    source = tf.data.Dataset.range(1)
    data = source.map(lambda x: x + 1)
    iterator = iter(data)
    assert isinstance(iterator, internals.OwnedIterator)
    assert callable(internals.OwnedIterator._create_iterator)
    assert internals.dataset_of(iterator) is data
    assert internals.inputs_of_dataset(data) == [source]
    (graph,) = internals.graphs_of_dataset(data)
    assert "AddV2" in {op.type for op in graph.get_operations()}
    assert internals.graphs_of_dataset(source) == []


def _elements() -> None:
    iterator = iter(tf.data.Dataset.range(1))
    spec = tf.TensorSpec([], tf.int64)
    assert internals.elements_of(tf.type_spec_from_value(iterator)) == spec
    assert internals.elements_of(spec) is None


def _set_up() -> None:
    internals.set_runtime_up()
    assert type(tf.constant(1.0)) is internals.EagerTensor
    assert internals.runtime_is_set_up()
    info = internals.pywrap_tfe.TFE_GetMemoryInfo(internals.context_handle(), "CPU:0")
    assert set(info) >= {"current", "peak"}


def _registered() -> None:
    concrete = _squared().get_concrete_function(tf.constant(1.0))
    name = str(concrete.function_def.signature.name)
    assert internals.is_registered(name)
    assert not internals.is_registered("__inference_no_such_function_0")


def _caches() -> None:
    cleaners = dict(internals.cache_cleaners())
    assert set(cleaners) == {"scalar", "kernel"}
    for clean in cleaners.values():
        clean()
    assert float(tf.constant(1.0) + 1.0) == 2.0


def _call() -> None:
    assert callable(internals.Function._call)


def _type_cache() -> None:
    square = _squared()
    square(tf.constant(1.0))
    (table,) = square._function_cache._dispatch_dict.values()
    most = internals.type_cache_limit(table._dispatch_cache)
    assert most is not None
    assert most >= 100
    assert internals.type_cache_limit(collections.OrderedDict()) is None
    assert internals.type_cache_limit({}) is None


def _definition() -> None:
    concrete = _squared().get_concrete_function(tf.constant(1.0))
    name = concrete.name.decode()
    assert "Mul" in {node.op for node in internals.function_definition(name).node_def}
    assert internals.function_definition("no_such_function") is None


def _traced_error() -> None:
    @tf.function
    def broken(x: Any) -> Any:
        return x.no_such_part

    try:
        broken(tf.constant(1.0))
    except AttributeError as error:
        text, frames = internals.traced_error(error) or ("", [])
        assert "no_such_part" in text
        assert __file__ in {frame.filename for frame in frames}
    assert internals.traced_error(ValueError()) is None


def _builds() -> None:
    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    build_as_fit_does(model, (tf.ones((3, 2)), tf.ones((3, 1))))
    assert model.optimizer.built


def _seeds() -> None:
    tf.random.set_seed(5)
    state = random_state()
    draws = [float(tf.random.uniform(())) for _ in range(2)]
    state.restore()
    assert float(tf.random.uniform(())) == draws[0]
    tf.random.set_seed(None)


def _behind() -> None:
    weight = tf.Variable(1.0)
    assert variable_behind(weight.handle) is weight
    assert variable_behind(tf.constant(1.0)) is None


#: How each part of an object is used; parts of modules are looked up.
USES: dict[str, Callable[[], None]] = {
    "EagerTensor._parent_trackable": _behind,
    "EagerTensor._id": _tensor_number,
    "tensorflow.python.framework.ops:uid": _tensor_number,
    "EagerTensor._shape_tuple": _tensor_shape,
    "EagerTensor._summarize_value": _resources,
    "CapturableResource._resource_handle_value": _resources,
    "tensorflow.python.trackable.resource:resource_tracker_scope": _resources,
    "Operation._original_op": _original_op,
    "Graph.version": _count_operations,
    "StackTrace.get_user_frames": _outside_frames,
    "PyToTF._cache": _autograph_lines,
    "Graph._functions": _inner_graphs,
    "AtomicFunction._cached_graph": _inner_graphs,
    "_CondGradFuncGraph._forward_graph": _forward_graph,
    "FuncGraph._weak_outer_graph": _outer_graph,
    "Function._call": _call,
    "Function._function_cache": _traces,
    "FunctionCache._primary": _traces,
    "Function._descriptor_cache": _bound_functions,
    "Weakref._ref": _weak_key,
    "StructuredFunctionWrapper._func": _mapped_function,
    "OwnedIterator._create_iterator": _pipeline,
    "OwnedIterator._dataset": _pipeline,
    "DatasetV2._inputs": _pipeline,
    "DatasetV2._functions": _pipeline,
    "IteratorSpec._element_spec": _elements,
    "Context._handle": _set_up,
    "Context.has_function": _registered,
    "Context._initialized": _set_up,
    "Context.ensure_initialized": _set_up,
    "Context.clear_kernel_cache": _caches,
    "CachingCompiler._filename_map": python_uses.cells,
    "Snapshot.traces._traces": python_uses.blocks,
    "id": python_uses.addresses,
    "_PyTraceMalloc_GetTraceback": python_uses.traceback,
    "Context.get_function_def": _definition,
    "ag_error_metadata": _traced_error,
    "_multiarray_umath._ARRAY_API": python_uses.numpy_api,
    internals.LRU_LINK: python_uses.links,
    "Trainer._symbolic_build": _builds,
    "Context._rng": _seeds,
    "re._cache": python_uses.patterns,
    "TypeDispatchTable._dispatch_cache": _type_cache,
    "tensorflow.core.function.polymorphism.type_dispatch:_MAX_DISPATCH_CACHE": _type_cache,
}
