"""Another site, reached by Arrow Flight. What arrives is checked: a stream that breaks off may end without an error."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from pyarrow import flight

from tidemill.errors import EngineProblem
from tidemill.runtime.sites.flight_server import NAME, TOKEN, Identity
from tidemill.runtime.sites.messages import LARGEST_BYTES, damaged_message
from tidemill.runtime.sites.protocol import VERSION, Delivery, Description, Note, Statistics, Want, Wish, decode_problem

_CALL_S = 10.0  # a request that is not held back is answered in this time, or has failed


class FlightPeer:
    """One connection to a site. Calls come from one thread; `interrupt` and `close` may come from another."""

    def __init__(
        self, site: str, host: str, port: int, identity: Identity | None, name: str, token: str | None
    ) -> None:
        self.site = site
        place = flight.Location.for_grpc_tls(host, port) if identity else flight.Location.for_grpc_tcp(host, port)
        # The certificate of the other side must be that of the site, wherever it is.
        tls: dict[str, Any] = {}
        if identity is not None:
            tls = {
                "tls_root_certs": identity.authority,
                "cert_chain": identity.certificate,
                "private_key": identity.key,
                "override_hostname": site,
            }
        limit = [("grpc.max_receive_message_length", LARGEST_BYTES + (1 << 20))]
        self._client = flight.FlightClient(place, generic_options=limit, **tls)
        self._headers = [(NAME.encode(), name.encode())]
        self._headers += [(TOKEN.encode(), f"Bearer {token}".encode())] if token else []
        self._lock, self._reader = threading.Lock(), None

    def describe(self, name: str) -> Description:
        found = self._act("describe", {"name": name})
        try:
            return Description.from_json(found["description"])
        except (KeyError, TypeError, ValueError):
            raise damaged_message(f"site {self.site}", "it is not the description of a stream") from None

    def measure(self, name: str, columns: tuple[str, ...]) -> Statistics:
        found = self._act("measure", {"name": name, "columns": list(columns)})
        try:
            return Statistics.from_json(found["statistics"])
        except (KeyError, TypeError, ValueError):
            raise damaged_message(f"site {self.site}", "it is not what is known of a stream") from None

    def greet(self, database: str, wishes: dict[str, Wish]) -> dict[str, dict[str, Any]]:
        asked = {edge: asdict(wish) for edge, wish in wishes.items()}
        return dict(self._act("greet", {"database": database, "wishes": asked}).get("refused", {}))

    def fetch(self, wants: dict[str, Want], patience: float) -> Delivery:
        request = {"version": VERSION, "patience": patience, "wants": {e: asdict(w) for e, w in wants.items()}}
        bodies: list[bytes] = []
        with self._lock:
            try:
                ticket = flight.Ticket(json.dumps(request).encode())
                self._reader = reader = self._client.do_get(ticket, self._options(patience))
                began = 0.0
                for chunk in reader:
                    began = began or time.monotonic()
                    bodies += chunk.data.column(0).to_pylist()
                seconds = time.monotonic() - began
            except (flight.FlightError, OSError, ValueError) as error:
                raise self._unreachable(error) from None
            finally:
                self._reader = None
        return replace(self._unpack(bodies), seconds=seconds)

    def interrupt(self) -> None:
        """End a request that is held back; it fails."""
        reader = self._reader
        if reader is not None:
            with suppress(Exception):
                reader.cancel()

    def close(self) -> None:
        """End a call that is under way, and the connection."""
        self.interrupt()
        with self._lock, suppress(Exception):
            self._client.close()

    def _unpack(self, bodies: list[bytes]) -> Delivery:
        """The delivery that a stream holds, if all of it has arrived."""
        try:
            envelope = json.loads(bodies[0])
            if "problem" in envelope:
                raise decode_problem(self.site, envelope["problem"])
            notes = tuple(map(Note.from_json, envelope["notes"]))
            count, refused = int(envelope["messages"]), dict(envelope["refused"])
            held = float(envelope.get("held", 0.0))
        except (IndexError, KeyError, TypeError, ValueError):
            raise damaged_message(f"site {self.site}", "the answer has broken off") from None
        if len(bodies) != count + 1:
            raise damaged_message(f"site {self.site}", f"{len(bodies) - 1} of {count} messages have arrived")
        return Delivery(tuple(bodies[1:]), notes, refused, held=held)

    def _act(self, what: str, request: dict[str, Any]) -> dict[str, Any]:
        action = flight.Action(what, json.dumps({"version": VERSION, **request}).encode())
        with self._lock:
            try:
                results = list(self._client.do_action(action, self._options(0.0)))
            except (flight.FlightError, OSError, ValueError) as error:
                raise self._unreachable(error) from None
        try:
            reply = json.loads(results[0].body.to_pybytes())
        except (IndexError, ValueError):
            raise damaged_message(f"site {self.site}", "the answer has broken off") from None
        if "problem" in reply:
            raise decode_problem(self.site, reply["problem"])
        return dict(reply)

    def _options(self, patience: float) -> Any:
        return flight.FlightCallOptions(timeout=patience + _CALL_S, headers=self._headers)

    def _unreachable(self, error: Exception) -> EngineProblem:
        text = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        if isinstance(error, (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)):
            return EngineProblem(
                "TM702",
                f'site "{self.site}" refuses this one',
                detail=text.partition(". gRPC")[0],
                hint="are the certificate, the token and CREATE SITE there as they should be?",
            )
        return EngineProblem(
            "TM702", f'site "{self.site}" cannot be reached', detail=text, hint="it is tried again; is it running?"
        )
