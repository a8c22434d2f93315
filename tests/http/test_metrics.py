"""/metrics, health, logs: complete, well formed by promtool, and scraped by a real Prometheus."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import urllib.parse
import urllib.request

import pytest

from tests.http.serving import HttpThread
from tests.installed import need
from tests.live import LiveDatabase
from tests.network import free_port
from tests.places import ROOT
from tests.postgres.serving import RawClient, wait_until
from tidemill.errors import EngineProblem
from tidemill.serve import serving
from tidemill.serve.logs import JsonLines, begin_log
from tidemill.serve.postgres.services import log

NAMES = """source_rows_total source_late_rows_total source_bad_records_total source_lag_seconds view_rows
view_frontier_age_seconds batch batch_seconds_bucket state_bytes sink_batch sink_undelivered_batches connections
dead_letters running plan_version operator_time_share source_rows_per_second view_stopped info""".split()


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A database with times of the wall clock, a view and a sink."""
    folder = tmp_path_factory.mktemp("busy")
    with LiveDatabase(str(folder / "lot")) as db:
        db.execute(
            f"""
            REGISTER SOURCE Clicks (page VARCHAR, n INTEGER)
            FROM GENERATE (rate = 200, start = 'now', page = 'choice(home,shop)', n = 'uniform(1,9)');
            CREATE TAGGED STREAM ClickStr OVER Clicks;
            CREATE VIEW PerPage AS SELECT page, count(*) AS clicks FROM ClickStr SYNC EVERY 1 SECOND GROUP BY page;
            CREATE SINK Out FROM PerPage TO FILES '{folder}/out' WITH (format = 'json');
            """
        )
        db.start()
        started = HttpThread(db)
        wait_until(lambda: db.status()["batch"] >= 1)
        yield started
        started.stop()


def values(text):
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\S+?(?:\{[^}]*\})?) (\S+)$", text, re.MULTILINE)}


def test_every_metric_is_there_and_true(busy):
    postgres = RawClient(busy.postgres_port).start()
    text = busy.client(logged_in=False).get("/metrics")[1]
    missing = [name for name in NAMES if f"\ntidemill_{name}" not in text]
    assert not missing
    found, status = values(text), busy.db.status()
    assert 0 < found['tidemill_source_rows_total{source="Clicks"}'] <= status["sources"][0]["rows"]
    assert found['tidemill_connections{protocol="postgres"}'] == 1
    assert 0 <= found['tidemill_view_frontier_age_seconds{view="PerPage"}'] < 60
    assert found["tidemill_running"] == 1
    batches = found['tidemill_batch_seconds_count{part="total"}']
    assert batches == found['tidemill_batch_seconds_bucket{le="+Inf",part="outlet"}'] >= 1
    assert found['tidemill_sink_batch{sink="Out"}'] <= status["batch"]
    postgres.close()


def test_promtool_has_no_complaint(busy):
    text = busy.client(logged_in=False).get("/metrics")[1]
    done = subprocess.run(
        [need("promtool", "prometheus"), "check", "metrics"], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.fixture(scope="module")
def prometheus(busy, tmp_path_factory):
    """A real Prometheus that scrapes the server; a function that asks it."""
    program, folder, port = need("prometheus", "prometheus"), tmp_path_factory.mktemp("prometheus"), free_port()
    target = f"127.0.0.1:{busy.port}"
    scrape = {"job_name": "tidemill", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    arguments = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    running = subprocess.Popen(
        [program, *arguments, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL
    )

    def ask(query):
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except OSError:
            return []

    try:
        wait_until(lambda: len(ask("count_over_time(tidemill_batch[1m]) >= 3")) == 1, 60)
        yield ask
    finally:
        running.terminate()
        running.wait(30)


def test_a_real_prometheus_scrapes_it(prometheus):
    assert prometheus('up{job="tidemill"}')[0]["value"][1] == "1"
    assert float(prometheus("sum(tidemill_source_rows_total)")[0]["value"][1]) > 0


def test_every_query_of_the_dashboard_returns_data(prometheus):
    board = json.loads((ROOT / "examples" / "grafana.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert len(queries) >= 10
    empty = [q for q in queries if not prometheus(q.replace("$__rate_interval", "30s"))]
    assert not empty


def test_health_and_readiness(tmp_path):
    with LiveDatabase(str(tmp_path / "lot")) as db:
        server = HttpThread(db)
        try:
            client = server.client(logged_in=False)
            assert client.get("/healthz") == (200, "ok\n")
            assert client.get("/readyz")[0] == 503
            db.start()
            assert client.get("/readyz") == (200, "ready\n")
            db.stop()
            assert client.get("/readyz")[0] == 503
        finally:
            server.stop()


def test_logs_are_lines_of_json():
    made = JsonLines().format(logging.LogRecord("x", logging.WARNING, "", 0, "a %s\nb", ("ä",), None))
    assert "\n" not in made and json.loads(made)["message"] == "a ä\nb"
    before = log.handlers[:]
    begin_log("json")
    assert isinstance(log.handlers[0].formatter, JsonLines)
    log.handlers[:] = before


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(serving, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(EngineProblem, match="uvicorn") as found:
        serving.check_console()
    assert found.value.code == "TM540" and "tidemill[console]" in found.value.hint
