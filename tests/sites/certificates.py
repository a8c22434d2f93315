"""A certificate authority and certificates of sites, made with the openssl command."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_authority(folder: Path, name: str = "ca") -> None:
    """`name`.pem and `name`.key: an authority of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    _openssl(
        folder,
        *f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}".split(),
        *f"-keyout {name}.key -out {name}.pem".split(),
    )


def make_certificate(
    folder: Path, site: str, authority: str = "ca", file: str | None = None, kind: str = "DNS"
) -> None:
    """`file`.pem and `file`.key: the certificate of a site, whose name is its only alternative name: DNS or IP."""
    file = file or site
    key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    _openssl(folder, *f"req {key} -subj /CN={site} -keyout {file}.key -out {file}.csr".split())
    (folder / f"{file}.ext").write_text(f"subjectAltName={kind}:{site}\n")
    _openssl(
        folder,
        *f"x509 -req -in {file}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days 2".split(),
        *f"-extfile {file}.ext -out {file}.pem".split(),
    )


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
