"""`acvp play` from a configuration to a running page."""

from __future__ import annotations

from collections.abc import Callable

from acvp.agents.agent import load_any_policy
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.play.config import PlayConfig
from acvp.play.context import gather
from acvp.play.session import Session


def play(config: PlayConfig, say: Callable[[str], None]) -> None:
    """Serve the page until interrupted; whatever cannot work is refused before."""
    from acvp.play.limits import OUT_OF_FILES, is_out_of_files

    try:
        _serve(config, say)
    except OSError as error:
        if is_out_of_files(error):
            raise UserError(OUT_OF_FILES) from error
        raise


def _serve(config: PlayConfig, say: Callable[[str], None]) -> None:
    from acvp.play.server import free_socket, make_app, make_server, open_page

    make_session = session_maker(config)
    make_session().close()  # so that a mistake shows here and not in the page
    listener = free_socket(config.port)
    port = listener.getsockname()[1]
    if port != config.port:
        say(f"port {config.port} is taken")
    address = f"http://127.0.0.1:{port}/"
    say(f"playing at {address} (ctrl-C ends it)")
    server = make_server(make_app(make_session, port=port, sessions=config.sessions))
    if config.browser and not open_page(address):
        say("no browser found here: open the address yourself")
    server.run(sockets=[listener])


def session_maker(config: PlayConfig) -> Callable[[], Session]:
    """Return what makes a new session; predictors are shared between them."""
    cast = gather(config.run, config.pretrained, temperature=config.temperature, seed=config.seed)
    policy = load_any_policy(config.policy)
    store = None if config.data is None else EpisodeStore(config.data)

    def make() -> Session:
        return Session(
            cast, store=store, policy=policy, fps=config.fps, seed=config.seed, rewind_bytes=config.rewind_mb * 10**6
        )

    return make
