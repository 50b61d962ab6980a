"""The three bands of traffic, and the mark on a packet that puts it into one."""

# The ToS byte of each band. These bytes land in the same order in the kernel's own priomap, so
# prio and pfifo_fast at a host agree with the filters of link policies. None is that of packets
# that nobody has marked: who marks middle is not taken for somebody who knows of no bands.
BAND_TOS: dict[str, int] = {"high": 0x10, "middle": 0x04, "low": 0x08}
UNMARKED_TOS = 0x00


def tos_of(band: str) -> int:
    """The ToS byte that puts a packet into `band`; a policy with one queue marks as high."""
    return BAND_TOS.get(band, BAND_TOS["high"])
