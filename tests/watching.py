"""What tests do with a page in a browser."""


def until(view, expression):
    """Wait for something to be true; the page's own policy forbids what playwright has for this."""
    for _ in range(100):
        if view.evaluate(expression):
            return
        view.wait_for_timeout(50)
    raise AssertionError(expression)
