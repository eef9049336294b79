"""Checks shapes and dtypes while tests run: jaxtyping's annotations by beartype.

In production an annotation such as ``Float[Tensor, "tokens dim"]`` is text that nobody reads: jaxtyping is imported
for type checkers alone (`xling.array_types`). `install` makes every module of xling that is imported from then on
give its functions a decorator that reads them. What is checked: arguments and results of every function or method,
and the fields of every dataclass or named tuple, whose annotation names a type of jaxtyping. A dimension has one size
within a call. A check takes about 50 us, so that of many calls in one test only the first `FIRST` and every `EVERY`
th are checked.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import marshal
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ForwardRef, cast

import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype

NAMES = {
    name: getattr(jaxtyping, name)
    for name in (
        "Bool", "Float", "Float32", "Float64", "Int", "Int8", "Int32", "Int64", "Integer", "Num", "Real", "Shaped",
        "UInt", "UInt8", "UInt16", "UInt32", "UInt64",
    )
}  # fmt: skip
_OWN = Path(__file__).read_bytes()
_NAMED = re.compile(rf"\b({'|'.join(NAMES)})\[")
# An int is a float to a type checker too.
_BEARTYPE = beartype(conf=BeartypeConf(is_pep484_tower=True))


FIRST, EVERY = 8, 16
_test = 0


def install(*packages: str) -> None:
    """Check every module of these packages that is imported from now on."""
    assert not any(name.startswith("xling.") for name in sys.modules), "xling is imported already"
    sys.meta_path.insert(0, _Finder(packages))


def next_test() -> None:
    """Check every function's first calls anew."""
    global _test
    _test += 1


def checked(function: Callable[..., Any], scope: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The function with its arguments and result checked; annotations are read in ``scope`` at the first call."""
    built: Callable[..., Any] | None = None
    test = num_calls = 0

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal built, test, num_calls
        if test != _test:
            test, num_calls = _test, 0
        num_calls += 1
        if num_calls > FIRST and num_calls % EVERY:
            return function(*args, **kwargs)
        if built is None:
            built = _built(function, scope or function.__globals__)
        return built(*args, **kwargs)

    return call


def checked_fields(cls: type) -> type:
    """The dataclass or named tuple with the fields of every new object checked."""
    scope: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        scope |= vars(sys.modules[base.__module__])
    if issubclass(cls, tuple):
        cls.__new__ = checked(cls.__new__, scope)  # type: ignore[method-assign]
    elif dataclasses.is_dataclass(cls):
        cls.__init__ = checked(cls.__init__, scope)  # type: ignore[misc]
    return cls


def _built(function: Callable[..., Any], scope: Mapping[str, Any]) -> Callable[..., Any]:
    """A copy of a function that checks what has a type of jaxtyping, and nothing else."""
    assert isinstance(function, types.FunctionType)
    found = {}
    for name, hint in function.__annotations__.items():
        text = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
        if isinstance(text, str) and _NAMED.search(text):
            found[name] = eval(text, {"np": np} | dict(scope) | NAMES)
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__, copy.__qualname__, copy.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    copy.__annotations__ = found
    return cast("Callable[..., Any]", jaxtyping.jaxtyped(typechecker=_BEARTYPE)(copy))


class _Decorated(ast.NodeTransformer):
    """Puts the decorators on functions and classes of modules, not on functions within functions."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        arguments = node.args
        given = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        hints = [argument.annotation for argument in given if argument] + [node.returns]
        if any(hint is not None and _NAMED.search(ast.unparse(hint)) for hint in hints):
            node.decorator_list.append(_attribute("checked", node))
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        fields = [each.annotation for each in node.body if isinstance(each, ast.AnnAssign)]
        if any(_NAMED.search(ast.unparse(hint)) for hint in fields):
            node.decorator_list.insert(0, _attribute("checked_fields", node))
        return node


def _attribute(name: str, node: ast.stmt) -> ast.expr:
    """A name of this module as an expression, in the first line of ``node``, where tracebacks look for it."""
    found = ast.parse(f"__import__({__name__!r}, fromlist=['']).{name}", mode="eval").body
    for part in ast.walk(found):
        ast.copy_location(part, node)
    return found


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles modules that name jaxtyping with the decorators, and keeps the code beside Python's own."""

    def get_code(self, fullname: str) -> types.CodeType | None:
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if b"from jaxtyping import" not in source and b"from xling.array_types import" not in source:
            return super().get_code(fullname)
        kept = Path(importlib.util.cache_from_source(path, optimization="shapes"))
        key = hashlib.sha256(_OWN + source).digest()
        if kept.is_file() and (found := kept.read_bytes()).startswith(key):
            return cast("types.CodeType", marshal.loads(found[len(key) :]))
        code = compile(_Decorated().visit(ast.parse(source, path)), path, "exec", dont_inherit=True)
        if not sys.dont_write_bytecode:
            self.set_data(str(kept), key + marshal.dumps(code))
        return code


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, packages: Sequence[str]) -> None:
        self._prefixes = tuple(f"{name}." for name in packages)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = (
            importlib.machinery.PathFinder.find_spec(name, path, target)
            if name.startswith(self._prefixes)
            else None
        )
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
