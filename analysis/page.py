"""What all pages share: how templates are found, their filters, their colours."""

from pathlib import Path

import jinja2

from analysis import look, words


def template(name: str) -> jinja2.Template:
    """A template of this folder; what it asks for must be given."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": words.duration,
        "duration_interval": words.duration_interval,
        "percent": words.percent,
        "percent_interval": words.percent_interval,
    }
    environment.globals["colours"] = look.COLOURS
    return environment.get_template(name)
