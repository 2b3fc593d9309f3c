# SPDX-License-Identifier: GPL-2.0-only
"""JSON Schema, as far as ours uses it: not every root has a package for it."""

import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
         "number": (int, float), "integer": int}
KNOWN = {"$schema", "title", "description", "type", "required", "additionalProperties",
         "properties", "patternProperties", "items", "minItems", "maxItems", "minimum", "const",
         "enum"}


def _is(value, name):
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def errors(value, schema, where="$"):
    """Return the errors: lines that begin with their place."""
    assert set(schema) <= KNOWN, schema
    names = schema.get("type", [])
    if names and not any(_is(value, name) for name in ([names] if isinstance(names, str)
                                                       else names)):
        yield f"{where}: {value!r} is not {names}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "minimum" in schema and _is(value, "number") and value < schema["minimum"]:
        yield f"{where}: {value} is less than {schema['minimum']}"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{where}: {len(value)} items"
        for number, item in enumerate(value):
            yield from errors(item, schema.get("items", {}), f"{where}[{number}]")
    if isinstance(value, dict):
        yield from _of_object(value, schema, where)


def _of_object(value, schema, where):
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}: no {name}"
    other = schema.get("additionalProperties", True)
    for name, inner in value.items():
        found = schema.get("properties", {}).get(name)
        for pattern, pattern_schema in schema.get("patternProperties", {}).items():
            if re.search(pattern, name):
                found = pattern_schema
        if found is None and other is False:
            yield f"{where}: unknown {name}"
            continue
        found = found if found is not None else other if isinstance(other, dict) else {}
        yield from errors(inner, found, f"{where}.{name}")
