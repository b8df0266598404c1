"""`python -m twofold`: the command line."""

from twofold._cli import script

if __name__ == "__main__":
    script()
