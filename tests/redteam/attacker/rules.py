"""Attacks on rules: a request that says of itself what a rule wants to hear."""

from doors import Mcp, Request, attempt, call, command, told, reached


def text(facts):
    """The word that the rule names, in every place that a client fills."""
    word, argv, said = facts["word"], facts["argv"], []
    waiting = []
    for place in ("version", "session", "host", "reason", "id", "requester", "client", "program", "door"):
        more = {place: word}
        waiting.append(attempt(lambda: Request(facts, command(argv, **more))))
    waiting.append(attempt(lambda: Request(facts, command(argv, version=word, session=word, host=word, reason=word))))
    reached(facts, "asked")
    told(facts, "enough")
    for one in waiting:
        if isinstance(one, Request):
            one.stream.settimeout(0.05)
            said.append(attempt(one.answer))
            one.withdraw()
        else:
            said.append(one)
    return said


def plain(facts):
    """A request that a rule of the house is about."""
    return attempt(lambda: Request(facts, command(facts["argv"])).answer())


def nothing(facts):
    """No attack."""
    return "nothing"
