"""`python -m dialeval`: the command line."""

from dialeval.cli import main

if __name__ == "__main__":
    main()
