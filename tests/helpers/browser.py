"""Opening pages in a browser, for tests."""


def wait_until(view, expression):
    """Wait until a JavaScript expression is true; the pages' security policy forbids playwright's own function."""
    for _ in range(100):
        if view.evaluate(expression):
            return
        view.wait_for_timeout(50)
    raise AssertionError(expression)


def open_page(browser, path, messages, *, ready, **options):
    """Open a page and wait until it is ready; console messages, errors, requests and dialogs go into `messages`."""
    view = browser.new_context(**options).new_page()
    expected = (path.as_uri(), "data:,")  # the page itself, and its empty icon
    view.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    view.on("pageerror", lambda error: messages.append(f"error: {error}"))
    view.on("request", lambda request: messages.append(request.url) if request.url not in expected else None)
    view.on("dialog", lambda dialog: (messages.append("a dialog"), dialog.dismiss()))
    view.goto(path.as_uri())
    wait_until(view, ready)
    return view
