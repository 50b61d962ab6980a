"""The realtime engine: this machine's own kernel, dilated where the machine is too slow."""
