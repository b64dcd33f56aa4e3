"""One harness under atheris: python -m fuzz.guided NAME [libFuzzer options] CORPUS..."""

import sys

import atheris


def main() -> None:
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["ccesa"]):
        from fuzz.harnesses import harness

        one = harness(name)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
