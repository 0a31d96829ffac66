"""What the tests are about: the component and the program that `test.py` was given."""

import functools
import os

from toolgate import Logic

LOGIC, TOOLGATE = os.environ["TOOLGATE_TEST_LOGIC"], os.environ["TOOLGATE_TEST_PROGRAM"]


@functools.cache
def logic():
    """Returns the component, which is loaded once."""
    return Logic(LOGIC)
