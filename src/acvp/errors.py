"""The one exception for mistakes a user can mend: the command line prints it as one line and exits with code 2."""


class UserError(Exception):
    """Something the user can mend; the message names the value and the cure."""
