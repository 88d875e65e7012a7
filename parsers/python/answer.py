"""What a way of reading answers: the value that it has for the asked name."""
import json

NAMES = ('email', 'user_email', 'user[email]', 'model')


def answer(value):
    if value is None:
        return 'none'
    if isinstance(value, bytes):
        value = value.decode('latin1')
    if isinstance(value, str):
        return 'text ' + json.dumps(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return 'number ' + repr(value)
    return 'other ' + json.dumps(value, default=lambda thing: type(thing).__name__)


def at(document, path):
    """What stands at a path of a document. No document but an object has any."""
    if path != 'user.email':
        return document.get(path)
    user = document.get('user')
    return user.get('email') if isinstance(user, dict) else None


def refusal(error):
    return 'refused: %s %s' % (type(error).__name__, error)
