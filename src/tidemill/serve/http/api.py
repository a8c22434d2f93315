"""The JSON API. What changes something is a POST; who asks is in a cookie or in a password, see sessions.py."""

from __future__ import annotations

import asyncio
import functools
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tidemill.engine.users.session import Session, has_users
from tidemill.errors import SyntaxProblem, TidemillError
from tidemill.interrupts import Cancellation
from tidemill.serve.http import events
from tidemill.serve.http.answers import Json, problem_dict, rows_of, status_of
from tidemill.serve.http.graph import Graph, plan_graph
from tidemill.serve.http.guard import MOST_BYTES
from tidemill.serve.http.scripts import MOST_ROWS, check_script, run_query, run_script
from tidemill.serve.http.sessions import COOKIE_SECONDS, NotLoggedIn, Sessions
from tidemill.serve.http.visible import check_sees_all, visible_status
from tidemill.serve.postgres.services import Services, log
from tidemill.version import __version__

_GONE_S = 0.2  # how often a query looks whether its client is still there
_FAILED_LOGIN_S = 0.5
_LEAST_S = 0.25  # between two events of /api/live

Handler = Callable[["Api", Request, Session], Awaitable[Response]]


class Api:
    """The handlers of one server."""

    def __init__(self, services: Services, sessions: Sessions, cookie: str, tell_address: Callable[[], None]) -> None:
        self.services, self.sessions, self.cookie, self._tell_address = services, sessions, cookie, tell_address
        self.db = services.db
        self.stopping = asyncio.Event()
        self.streams = 0
        self._graph: tuple[tuple[int, int], Graph] | None = None

    def routes(self) -> list[Route]:
        """All paths under /api."""
        get: dict[str, Handler] = {
            "session": Api.who,
            "status": Api.status,
            "views": Api.views,
            "plan": Api.plan,
            "explain": Api.explain,
            "dead-letters": Api.dead_letters,
            "plan-history": Api.plan_history,
            "batches": Api.batches,
            "users": Api.users,
            "subscribe": Api.subscribe,
            "live": Api.live,
        }
        post: dict[str, Handler] = {"query": Api.query, "execute": Api.execute, "check": Api.check}
        made = [Route(f"/api/{name}", self._with_session(handler), methods=["GET"]) for name, handler in get.items()]
        made += [Route(f"/api/{name}", self._with_session(handler), methods=["POST"]) for name, handler in post.items()]
        made.append(Route("/api/login", self.log_in, methods=["POST"]))
        made.append(Route("/api/logout", self.log_out, methods=["POST"]))
        return made

    def session(self, request: Request) -> Session:
        """What the sender of a request may do."""
        return self.sessions.session(request.cookies.get(self.cookie), request.headers.get("authorization"))

    def _with_session(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            try:
                session = await self.services.run(self.session, request)
                return await handler(self, request, session)
            except NotLoggedIn:
                return self.not_logged_in()
            except TidemillError as problem:
                return Json({"error": problem_dict(problem)}, status_of(problem))

        return handle

    def not_logged_in(self) -> Response:
        """The answer to a request without credentials."""
        users = has_users(self.db)
        hint = "log in with a password" if users else "open the address that the server printed when it started"
        return Json({"error": {"code": None, "message": "not logged in", "hint": hint}, "users": users}, 401)

    # ---- logging in ----------------------------------------------------------------------------

    async def log_in(self, request: Request) -> Response:
        """A token, or a user and a password, for a cookie."""
        try:
            given = await _body(request)
        except TidemillError as problem:
            return Json({"error": problem_dict(problem)}, 400)
        if isinstance(given.get("token"), str):
            value = self.sessions.use_token(given["token"])
            if value is not None:
                self._tell_address()
        else:
            user, password = str(given.get("user", "")), str(given.get("password", ""))
            value = await self.services.run(self.sessions.log_in, user, password)
        if value is None:
            await asyncio.sleep(_FAILED_LOGIN_S)  # guessing takes long
            log.warning("a login over HTTP failed")
            return self.not_logged_in()
        answer = Json({"ok": True})
        answer.set_cookie(
            self.cookie,
            value,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self.services.tls is not None,
            path="/",
        )
        return answer

    async def log_out(self, request: Request) -> Response:
        """Take the cookie back."""
        answer = Json({"ok": True})
        answer.delete_cookie(self.cookie, path="/", httponly=True, samesite="strict")
        return answer

    async def who(self, request: Request, session: Session) -> Response:
        """Who is logged in, and to what."""
        seen = session.access.reads_everything
        return Json({"user": session.user, "database": self.services.name, "version": __version__, "sees_all": seen})

    # ---- statements ----------------------------------------------------------------------------

    async def query(self, request: Request, session: Session) -> Response:
        """An ad hoc SELECT; it ends when the client goes away."""
        given = await _body(request)
        most, seconds = _number(given, "limit", MOST_ROWS), _seconds(given)
        return Json(await self._cancellable(request, run_query, session, _sql(given), most, seconds))

    async def execute(self, request: Request, session: Session) -> Response:
        """Any statements; results up to the first error, and that error."""
        given = await _body(request)
        most = _number(given, "limit", MOST_ROWS)
        results, problem = await self._cancellable(request, run_script, session, _sql(given), most)
        if problem is not None:
            return Json({"results": results, "error": problem_dict(problem)}, status_of(problem))
        return Json({"results": results})

    async def check(self, request: Request, session: Session) -> Response:
        """The problems of a text; nothing is executed."""
        text = _sql(await _body(request))
        return Json({"problems": await self.services.run(check_script, self.db, session, text)})

    async def _cancellable(self, request: Request, function: Callable[..., Any], *arguments: Any) -> Any:
        cancellation = Cancellation()
        call = functools.partial(function, *arguments, cancellation)
        work = asyncio.ensure_future(self.services.run_query(cancellation, call))
        while True:
            done, _ = await asyncio.wait({work}, timeout=_GONE_S)
            if done:
                return work.result()
            if self.stopping.is_set() or await request.is_disconnected():
                cancellation.set()

    # ---- what there is -------------------------------------------------------------------------

    async def status(self, request: Request, session: Session) -> Response:
        """Sources, views, lag, state."""
        return Json(await self.services.run(visible_status, self.db, session))

    async def views(self, request: Request, session: Session) -> Response:
        """Everything with columns that the user may read."""
        found = await self.services.run(session.relations)
        return Json({"relations": [vars(relation) for relation in found]})

    async def plan(self, request: Request, session: Session) -> Response:
        """The plan in force as a graph."""
        check_sees_all(session, "the plan")
        graph = await self.services.run(self._plan)
        return Json(graph.to_dict(self.db.runner.history.operator_rates()))

    async def explain(self, request: Request, session: Session) -> Response:
        """EXPLAIN of a view, of what a node of the graph feeds, or of everything."""
        check_sees_all(session, "the plan")
        name, node = request.query_params.get("view"), request.query_params.get("node")
        views: list[str] = []
        if node is not None:
            graph = await self.services.run(self._plan)
            views = graph.below(node) if node in graph.nodes else []
            counted = {m: graph.counted[m] for m in graph.nodes[node].members if m in graph.counted} if views else {}
        else:
            counted = {}
        shown = name if name is not None else views[0] if len(views) == 1 else None
        quoted = None if shown is None else 'EXPLAIN VIEW "' + shown.replace('"', '""') + '"'
        text = str(await self.services.run(self.db.explain, quoted))
        return Json({"text": text, "views": views, "counted": counted})

    def _plan(self) -> Graph:
        key = (self.db.catalog.saved, self.db.catalog.version)
        if self._graph is None or self._graph[0] != key:
            self._graph = key, plan_graph(self.db)
        return self._graph[1]

    async def dead_letters(self, request: Request, session: Session) -> Response:
        """The newest dead letters first."""
        return await self._show(session, "SHOW DEAD LETTERS", request)

    async def plan_history(self, request: Request, session: Session) -> Response:
        """The newest changes of plan first."""
        return await self._show(session, "SHOW PLANS", request)

    async def users(self, request: Request, session: Session) -> Response:
        """All users and their rights."""
        return await self._show(session, "SHOW USERS", request)

    async def _show(self, session: Session, statement: str, request: Request) -> Response:
        table = await self.services.run(session.execute, statement)
        most = _number(dict(request.query_params), "limit", MOST_ROWS)
        rows = list(rows_of(table))
        return Json({"rows": rows[::-1][:most] if statement != "SHOW USERS" else rows, "total": len(rows)})

    async def batches(self, request: Request, session: Session) -> Response:
        """The newest micro-batches of this process first."""
        check_sees_all(session, "micro-batches")
        most = _number(dict(request.query_params), "limit", MOST_ROWS)
        return Json({"rows": self.db.runner.history.newest(most)})

    # ---- live ----------------------------------------------------------------------------------

    async def subscribe(self, request: Request, session: Session) -> Response:
        """The changes of a view as events; `Last-Event-ID` or `as_of` resumes."""
        view = request.query_params.get("view")
        if view is None:
            raise SyntaxProblem("TM101", "a subscription needs a view", hint="/api/subscribe?view=NAME")
        after = request.headers.get("last-event-id") or request.query_params.get("as_of")
        session.parse(events.subscribe_text(view, after))
        return self._stream(events.follow_view(self.services, session, view, after, self.stopping))

    async def live(self, request: Request, session: Session) -> Response:
        """The status after each batch, and what the nodes of the plan do."""

        def describe() -> dict[str, Any]:
            status = visible_status(self.db, session)
            if not session.access.reads_everything:
                return {"status": status}
            rates = self.db.runner.history.operator_rates()
            newest = self.db.runner.history.newest(1)
            return {"status": status, "rates": rates, "newest": newest[0] if newest else None}

        return self._stream(events.follow_batches(self.services, describe, self.stopping, _LEAST_S))

    def _stream(self, found: Any) -> Response:
        async def count_stream() -> Any:
            self.streams += 1
            try:
                yield b"retry: 500\n\n"
                async for part in found:
                    yield part
            finally:
                self.streams -= 1
                await found.aclose()

        return events.EventStream(count_stream(), self.services.limits.stuck_seconds)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request."""
    found = b""
    try:
        async for piece in request.stream():
            found += piece
            if len(found) > MOST_BYTES:
                raise SyntaxProblem("TM102", f"a request has at most {MOST_BYTES:,} bytes", hint="send less at a time")
    except ClientDisconnect:
        raise SyntaxProblem("TM101", "the request has no end", hint="send all of it") from None
    try:
        given = json.loads(found)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise SyntaxProblem("TM101", "the request is no JSON object", hint='{"sql": "SELECT …"}')
    return given


def _sql(given: dict[str, Any]) -> str:
    if not isinstance(given.get("sql"), str):
        raise SyntaxProblem("TM101", "the request has no statement", hint='{"sql": "SELECT …"}')
    return str(given["sql"])


def _seconds(given: dict[str, Any]) -> float | None:
    timeout = given.get("timeout")
    try:
        return float(timeout) if isinstance(timeout, (int, float)) else None
    except OverflowError:
        return math.inf


def _number(given: dict[str, Any], name: str, default: int) -> int:
    try:
        return max(0, int(given.get(name, default)))
    except (TypeError, ValueError, OverflowError):
        raise SyntaxProblem("TM101", f'"{name}" must be a whole number', hint=f"{name}: {default}") from None
