"""Dataclasses without their price: the part of `dataclasses` that hipcache uses, with the same meaning.

The library writes and compiles six functions for each class, and imports `inspect` and `ast` for that: 35 ms for the 60
classes of a compile, which itself should cost 60 at most. Here the functions are shared closures. Type checkers see
the library's own names. Not here: ordering, slots, `InitVar`, `fields`, `match` by position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, replace
else:
    _MISSING = object()

    class FrozenInstanceError(AttributeError):
        """A value was about to be changed."""

    class _Field:
        def __init__(self, default, default_factory, init):
            self.default, self.factory, self.init = default, default_factory, init

    def field(*, default=_MISSING, default_factory=_MISSING, init=True):
        return _Field(default, default_factory, init)

    def dataclass(cls=None, *, frozen=False):
        if cls is None:
            return lambda decorated: _decorate(decorated, frozen)
        return _decorate(cls, frozen)

    def replace(value, **changes):
        kept = {name: getattr(value, name) for name, entry in value.__fields__.items() if entry.init}
        return type(value)(**{**kept, **changes})

    def asdict(value):
        if hasattr(type(value), "__fields__"):
            return {name: asdict(getattr(value, name)) for name in value.__fields__}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(asdict, value))
        if isinstance(value, (list, tuple)):
            return type(value)(asdict(part) for part in value)
        if isinstance(value, dict):
            return {asdict(name): asdict(part) for name, part in value.items()}
        return value

    def _decorate(cls, frozen):
        known = dict(getattr(cls, "__fields__", {}))
        for name, annotation in cls.__annotations__.items():
            if str(annotation).startswith("ClassVar"):
                continue
            default = cls.__dict__.get(name, _MISSING)
            entry = default if isinstance(default, _Field) else _Field(default, _MISSING, True)
            known[name] = entry
            if entry.default is not _MISSING:
                setattr(cls, name, entry.default)
            elif isinstance(default, _Field):
                delattr(cls, name)
        cls.__fields__ = known
        _equip(cls, known, frozen)
        return cls

    def _equip(cls, known, frozen):
        names = tuple(known)
        given = tuple(name for name, entry in known.items() if entry.init)
        after = hasattr(cls, "__post_init__")

        def __init__(self, *args, **keywords):
            values = self.__dict__
            if len(args) > len(given):
                raise TypeError(f"{cls.__name__}() takes {len(given)} values, {len(args)} were given")
            values.update(zip(given, args, strict=False))
            if keywords:
                _take_keywords(values, keywords)
            if len(values) < len(names):
                _complete(values)
            if after:
                self.__post_init__()

        def _take_keywords(values, keywords):
            for name in keywords:
                if name not in given or name in values:
                    raise TypeError(f"{cls.__name__}() cannot take a value '{name}'")
            values.update(keywords)

        def _complete(values):
            for name, entry in known.items():
                if name in values:
                    continue
                if entry.factory is not _MISSING:
                    values[name] = entry.factory()
                elif entry.default is not _MISSING:
                    values[name] = entry.default
                elif entry.init:
                    raise TypeError(f"{cls.__name__}() needs a value '{name}'")

        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            mine, others = self.__dict__, other.__dict__
            return all(mine[name] == others[name] for name in names)

        def __repr__(self):
            shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{type(self).__qualname__}({shown})"

        cls.__init__, cls.__eq__ = __init__, __eq__
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = __repr__
        if frozen:
            cls.__hash__ = lambda self: hash(tuple([self.__dict__[name] for name in names]))
            cls.__setattr__, cls.__delattr__ = _refuse, _refuse
        else:
            cls.__hash__ = None

    def _refuse(self, name, *value):
        raise FrozenInstanceError(f"'{name}' of a {type(self).__name__} cannot be changed")


__all__ = ["asdict", "dataclass", "field", "replace"]
