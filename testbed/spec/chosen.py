"""One of several, as experiment files choose it: its name, a label, options of its own."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field

from basics import options
from basics.options import Options
from testbed.spec.mistakes import At
from testbed.spec.values import Spec, safe_name


def _label(value: object) -> str:
    """A name of a folder; policies that are compared with transfer policies are joined by a +."""
    safe_name(value.replace("+", "-") if isinstance(value, str) else value)
    return str(value)


class Chosen(Spec):
    """Keys besides the fields are the chosen policy's own options."""

    what: ClassVar[str] = "a policy"
    named_by: ClassVar[str] = "policy"  # the key, and the field, that says which one

    label: Annotated[str, BeforeValidator(_label)]
    options: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def declared(cls, name: str) -> Options | None:
        """The options of a policy, if it is known."""
        raise NotImplementedError

    @classmethod
    def _declared(cls, data: dict[Any, Any]) -> Options | None:
        name = data.get(cls.named_by)
        return cls.declared(name) if isinstance(name, str) else None

    @classmethod
    def named(cls, name: str) -> Self:
        """A policy by its name alone."""
        return cls.model_validate(name)

    @classmethod
    def normal(cls, data: Any) -> Any:
        if isinstance(data, str):
            data = {cls.named_by: data}
        if isinstance(data, dict) and cls.named_by in data:
            return {"label": cls.label_of(data), **data}
        return data

    @classmethod
    def label_of(cls, data: dict[Any, Any]) -> Any:
        """The label where the file gives none."""
        return data[cls.named_by]

    @classmethod
    def keys(cls, data: dict[Any, Any]) -> dict[str, bool]:
        keys = {cls.named_by: True} | super().keys(data)
        del keys["options"]
        declared = cls._declared(data)
        if declared is None:  # what else it may be told, only the policy knows
            return {**dict.fromkeys(data, False), **keys}
        return keys | {name: option.default is None for name, option in declared.items()}

    @classmethod
    def misfits(cls, data: dict[Any, Any]) -> Iterator[At]:
        for name, why in options.misfits(cls._declared(data) or {}, data):
            yield At([name], why)

    @classmethod
    def gathered(cls, data: dict[Any, Any]) -> dict[Any, Any]:
        declared = cls._declared(data) or {}
        known = super().keys(data)
        rest = {key: value for key, value in data.items() if key in known and key != "options"}
        return {**rest, "options": options.readable(declared, data)}

    def plain(self) -> dict[str, Any]:
        name = getattr(self, self.named_by)
        declared = self.declared(name)
        assert declared is not None, "it was looked up when it was read"
        told = options.written(declared, self.options)
        return {self.named_by: name, "label": self.label, **told}
