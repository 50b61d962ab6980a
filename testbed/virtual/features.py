"""What the guest's kernel can do, read from what it is built from."""

from functools import cache
from pathlib import Path

from testbed.virtual.edits import OWN_CONTROLS

FRAGMENT = Path(__file__).with_name("kernel.config")
_BUILT_IN = {"pfifo"}  # no option of their own
_PREFIXES = ("CONFIG_NET_SCH_", "CONFIG_NET_CLS_")


@cache
def _options() -> frozenset[str]:
    lines = FRAGMENT.read_text().splitlines()
    return frozenset(line.removesuffix("=y") for line in lines if line.endswith("=y"))


def features() -> frozenset[str]:
    """Qdiscs and classifiers by the names that policies use; whether routers know multipath; and
    whether hosts' kernels can mark."""
    found = {
        option.removeprefix(prefix).lower()
        for option in _options()
        for prefix in _PREFIXES
        if option.startswith(prefix)
    }
    if "CONFIG_IP_ROUTE_MULTIPATH" in _options():
        found.add("multipath")
    if {"CONFIG_NF_TABLES_IPV4", "CONFIG_NFT_QUOTA"} <= _options():
        found.add("nft")
    return frozenset(found | _BUILT_IN)


def tcp_names() -> frozenset[str]:
    names = {
        option.removeprefix("CONFIG_TCP_CONG_").lower()
        for option in _options()
        if option.startswith("CONFIG_TCP_CONG_")
    }
    return frozenset(names - {"advanced"} | {"reno"} | OWN_CONTROLS)
