"""A Kafka broker for tests: one KRaft node, its jars fetched by Maven into a cache outside of the repository."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.sites.certificates import make_authority, make_certificate

VERSION = "4.1.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidemill" / f"kafka-{VERSION}"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{VERSION}</version></dependency></dependencies></project>
"""
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},GUARDED://127.0.0.1:{guarded},SSL://127.0.0.1:{encrypted}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT,SSL:SSL
controller.listener.names=CONTROLLER
ssl.keystore.type=PEM
ssl.keystore.location={folder}/keystore.pem
sasl.enabled.mechanisms=PLAIN
listener.name.guarded.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
  user_ann="swordfish";
log.dirs={folder}/logs
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
auto.create.topics.enable=false
log.retention.ms=-1
num.network.threads=1
num.io.threads=2
num.replica.fetchers=1
"""
_JAVA = ("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp")


def find_jars() -> Path:
    """The folder with the jars of the broker; skips, and says why, where they cannot be had."""
    if shutil.which("java") is None:
        pytest.skip("KAFKA TESTS SKIPPED: there is no java")
    if (CACHE / "complete").exists():
        return CACHE
    if shutil.which("mvn") is None:
        pytest.skip(f"KAFKA TESTS SKIPPED: there is no mvn to fetch Kafka {VERSION}")
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
        (Path(folder) / "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}/jars"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
        if done.returncode:
            pytest.skip(f"KAFKA TESTS SKIPPED: Kafka {VERSION} cannot be fetched: {done.stdout[-300:]}")
        (Path(folder) / "jars" / "complete").touch()
        if not CACHE.exists():
            os.rename(Path(folder) / "jars", CACHE)
    return CACHE


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """A broker with one node; `restart` ends it as a crash would."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._jars, self._folder, self.port = jars, folder, _free_port()
        self.address, guarded = f"127.0.0.1:{self.port}", _free_port()
        self.guarded = f"127.0.0.1:{guarded}"  # asks for user ann and password swordfish
        encrypted = _free_port()
        self.encrypted = f"127.0.0.1:{encrypted}"  # speaks TLS
        self.authority = folder / "ca.pem"  # has signed its certificate
        make_authority(folder)
        make_certificate(folder, "127.0.0.1", file="broker", kind="IP")
        parts = ((folder / name).read_text() for name in ("broker.key", "broker.pem"))
        (folder / "keystore.pem").write_text("".join(parts))
        self._settings = folder / "server.properties"
        self._settings.write_text(
            _PROPERTIES.format(
                port=self.port, guarded=guarded, encrypted=encrypted, controller=_free_port(), folder=folder
            )
        )
        self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAQACAAAAAAAAAAQ", "-c", str(self._settings))
        self._start()

    def _java(self, *arguments: str) -> None:
        subprocess.run(["java", *_JAVA, f"{self._jars}/*", *arguments], check=True, capture_output=True, timeout=120)

    def _start(self) -> None:
        command = ["java", *_JAVA, f"{self._jars}/*", "kafka.Kafka", str(self._settings)]
        with open(self._folder / "out", "ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out)
        self._wait()

    def _wait(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        settings: dict[str, Any] = {"bootstrap.servers": self.address, "log_level": 0, "error_cb": lambda _: None}
        admin = AdminClient(settings)
        until = time.monotonic() + 120
        while True:
            try:
                if admin.list_topics(timeout=2).brokers:
                    return
            except KafkaException:
                pass
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self._folder / "out").read_text()[-2000:])

    def restart(self) -> None:
        self._process.kill()
        self._process.wait()
        self._start()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class GivenBroker:
    """A broker that runs already."""

    def __init__(self, address: str) -> None:
        self.address = address

    def restart(self) -> None:
        pytest.skip("the given broker is not restarted")
