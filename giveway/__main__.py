"""`python -m giveway` is `giveway`."""

from giveway.launch import main

if __name__ == "__main__":
    main()
