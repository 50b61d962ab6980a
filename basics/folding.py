"""Tables for terminals in which no name is ever cut: what does not fit goes on in the next line."""

from typing import Any

from rich.table import Table


class FoldingTable(Table):
    def add_column(self, *arguments: Any, **options: Any) -> None:
        super().add_column(*arguments, **{"overflow": "fold", **options})
