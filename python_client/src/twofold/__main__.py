"""`python -m twofold`: the command line."""

from twofold.cli import script

if __name__ == "__main__":
    script()
