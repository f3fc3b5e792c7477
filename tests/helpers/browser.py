"""What tests do with a page in a browser."""


def until(view, expression):
    """Wait for something to be true; the page's own policy forbids what playwright has for this."""
    for _ in range(100):
        if view.evaluate(expression):
            return
        view.wait_for_timeout(50)
    raise AssertionError(expression)


def looked_at(browser, path, said, *, ready, **options):
    """Open a page and wait until it is ready; what the console, the network and dialogs say is added to `said`."""
    view = browser.new_context(**options).new_page()
    own = (path.as_uri(), "data:,")  # itself, and that it has no icon
    view.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    view.on("pageerror", lambda error: said.append(f"error: {error}"))
    view.on("request", lambda request: said.append(request.url) if request.url not in own else None)
    view.on("dialog", lambda dialog: (said.append("a dialog"), dialog.dismiss()))
    view.goto(path.as_uri())
    until(view, ready)
    return view
