"""Which version of the record schema is written, and which are read; without the tables' columns.

Apart from basics/records.py because that one needs pyarrow, and a guest that only names the
version would load its libraries at every start.
"""

SCHEMA_VERSION = 3
READABLE_VERSIONS = (1, 2, 3)
