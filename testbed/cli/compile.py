"""The last step of the set-up: the simulator is compiled there, so no first run has to wait."""

from basics import command


def main() -> None:
    from testbed.fluid.compiled import compile_once  # a cache that is not ours is refused here

    compile_once(lambda text: print(f"setup: {text}", flush=True))


if __name__ == "__main__":
    command.run(main)
