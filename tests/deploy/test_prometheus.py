"""What is deployed beside chainwatch asks for metrics that exist, and a real Prometheus reads them back."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from chainwatch.web import metrics
from chainwatch.web.view import look
from tests.web.conftest import NOW, MemoryReads, chain, pulse

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "chainwatch.rules.yml"
needs_prometheus = pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not installed")


def asked(expression: str) -> set[str]:
    return set(re.findall(r"\bchainwatch_[a-z_]+", expression))


def test_every_alert_rule_asks_for_metrics_that_exist_and_names_a_runbook() -> None:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    for rule in rules:
        assert asked(rule["expr"]) <= metrics.names(), rule["alert"]
        assert re.fullmatch(r"chainwatch runbook [a-z_]+", rule["annotations"]["runbook"])
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_every_query_of_the_dashboard_asks_for_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "chainwatch.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [v["definition"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    assert len(queries) > 20
    for query in queries:
        assert asked(query), query
        assert asked(query) <= metrics.names(), query


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)


@needs_prometheus
def test_the_rules_do_what_their_tests_say() -> None:
    done = promtool("test", "rules", str(RULES.with_name("chainwatch.rules.test.yml")))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("> 900", "> 90000"),
        (">= 4", ">= 40"),
        ("== 0\n", "== 7\n"),
        ("> 3600", "> 36"),
        ("> 4 *", "> 40 *"),
        ("1200)", "1)"),
    ],
)
def test_the_rule_tests_notice_a_changed_threshold(tmp_path: Path, old: str, new: str) -> None:
    text = RULES.read_text()
    assert old in text
    (tmp_path / RULES.name).write_text(text.replace(old, new))
    shutil.copy(RULES.with_name("chainwatch.rules.test.yml"), tmp_path)
    assert promtool("test", "rules", str(tmp_path / "chainwatch.rules.test.yml")).returncode != 0


@needs_prometheus
def test_the_scrape_configuration_is_one(tmp_path: Path) -> None:
    text = (DEPLOY / "prometheus" / "scrape.yml").read_text()
    (tmp_path / "token").write_text("x")
    shutil.copy(RULES, tmp_path)
    (tmp_path / "prometheus.yml").write_text(text.replace("/etc/prometheus/chainwatch.token", str(tmp_path / "token")))
    done = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_every_query_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "chainwatch.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"q{n}", "expr": query.replace("$instance", ".*").replace("$chain", ".*")}
        for n, query in enumerate(queries)
    ]
    (tmp_path / "q.yml").write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": rules}]}))
    done = promtool("check", "rules", str(tmp_path / "q.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """The distribution's Prometheus, on a free port, scraping what the test serves."""

    def __init__(self, where: Path, target: int) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (where / "token").write_text("sesame")
        config = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": "chainwatch",
                    "authorization": {"credentials_file": str(where / "token")},
                    "static_configs": [{"targets": [f"127.0.0.1:{target}"]}],
                }
            ],
        }
        (where / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.log = (where / "log").open("wb")
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={where / 'prometheus.yml'}",
                f"--storage.tsdb.path={where / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=self.log,
            stderr=self.log,
        )

    def query(self, expression: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(url, timeout=5) as reply:
            result: list[dict[str, Any]] = json.load(reply)["data"]["result"]
        return result

    def until(self, expression: str) -> list[dict[str, Any]]:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                if found := self.query(expression):
                    return found
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.1)
        raise AssertionError(f"{expression} gave nothing in 30 s")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


@pytest.fixture
def scraped(tmp_path: Path, store: MemoryReads) -> Iterator[tuple[Prometheus, MemoryReads, list[str]]]:
    accepts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            accepts.append(self.headers.get("Accept", ""))
            good = self.headers.get("Authorization") == "Bearer sesame"
            openmetrics = "application/openmetrics-text" in accepts[-1]
            content = metrics.render(look(store, NOW, pulse()), open_metrics=openmetrics)
            self.send_response(200 if good else 401)
            self.send_header("Content-Type", metrics.OPENMETRICS if openmetrics else metrics.TEXT)
            self.end_headers()
            self.wfile.write(content if good else b"")

        def log_message(self, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    prometheus = Prometheus(tmp_path, httpd.server_address[1])
    yield prometheus, store, accepts
    prometheus.stop()
    httpd.shutdown()
    httpd.server_close()
    thread.join(5)


@needs_prometheus
@pytest.mark.slow
def test_a_real_prometheus_scrapes_and_answers(scraped: tuple[Prometheus, MemoryReads, list[str]]) -> None:
    prometheus, store, accepts = scraped
    assert prometheus.until('up{job="chainwatch"} == 1')
    assert any("openmetrics" in accept for accept in accepts)
    [step] = prometheus.until('chainwatch_chain_step{chain="run-a"}')
    assert step["value"][1] == "4000"
    found = prometheus.until('{__name__=~"chainwatch_.+"}')
    assert {one["metric"]["__name__"] for one in found} == metrics.names()
    store.rows[0] = chain("run-a", step=4100)
    assert prometheus.until('chainwatch_chain_step{chain="run-a"} == 4100')
    assert prometheus.until('ALERTS{alertname="ChainNeedsPerson", chain="run-b", alertstate="pending"}')
