"""The page in a real Chromium: readable, reachable by keyboard, on a phone, in the dark, and without scripts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chainwatch.model.pulse import Board
from chainwatch.web.forward import forward
from chainwatch.web.routes import Site
from chainwatch.web.server import serve_unix
from tests.alerts.conftest import FakeClock
from tests.web.conftest import NOW, pulse
from tests.web.samples import fill

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]
SHOTS = os.environ.get("CHAINWATCH_SCREENSHOTS")
"""Directory to keep screenshots in, for looking at them."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The forwarded page: its origin, and the session's cookie."""
    where = tmp_path_factory.mktemp("web")
    store = fill(where / "state")
    board = Board()
    board.publish(pulse())
    site = Site(store, board, FakeClock(NOW), actions=True)
    with serve_unix(where / "web.sock", site.respond):
        served, url = forward(where / "web.sock")
        with served:
            yield url, f"http://127.0.0.1:{served.port}"
    store.close()


@pytest.fixture(scope="module")
def cookies(browser: Any, address: tuple[str, str]) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address[0])
    assert "token" not in page.url
    found = context.cookies()
    context.close()
    return found


@pytest.fixture
def visit(browser: Any, address: tuple[str, str], cookies: Any) -> Iterator[Any]:
    """Opens a path in a fresh context, and sees to it that nothing complained or was fetched from elsewhere."""
    contexts: list[Any] = []
    trouble: list[str] = []

    def open_page(path: str, **options: Any) -> Any:
        context = browser.new_context(**options)
        context.add_cookies(cookies)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: trouble.append(f"dialog: {dialog.message}"))
        page.on("request", lambda r: None if r.url.startswith(address[1]) else trouble.append(f"fetched: {r.url}"))
        page.goto(address[1] + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [line for line in trouble if "favicon" not in line] == []


def keep(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_pages_can_be_read_in_light_and_dark(visit: Any, scheme: str) -> None:
    page = visit("/", color_scheme=scheme, viewport={"width": 1280, "height": 800})
    keep(page, f"overview-{scheme}")
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 10
    assert [one for one in ratios if one[1] < 4.5] == []
    page = visit("/chain/run-a", color_scheme=scheme, viewport={"width": 1280, "height": 800})
    keep(page, f"chain-{scheme}")
    assert [one for one in page.evaluate(CONTRAST) if one[1] < 4.5] == []


def test_a_phone_needs_no_sideways_scrolling(visit: Any) -> None:
    for path, name in (("/", "overview"), ("/chain/run-a", "chain"), ("/chain/run-b", "evil")):
        page = visit(path, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
        keep(page, f"{name}-phone")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_everything_is_there_without_javascript(visit: Any) -> None:
    page = visit("/", java_script_enabled=False)
    assert page.locator("tbody tr").count() == 5
    page.locator("a", has_text="run-a").first.click()
    assert page.locator("svg.timeline rect").count() > 8
    page.locator("summary", has_text="damaged").click()
    assert page.locator("code", has_text="PytorchStreamReader").is_visible()


def test_a_button_is_pressed_without_javascript_and_by_keyboard(visit: Any) -> None:
    page = visit("/chain/run-b", java_script_enabled=False)
    page.get_by_role("button", name="Retry now").press("Enter")
    page.wait_for_url("**/chain/run-b")
    page.get_by_label("How long to pause").select_option("8h")
    page.get_by_role("button", name="Pause").click()
    assert "pause (on the status page)" in page.locator(".facts").inner_text()
    page.locator("summary", has_text="Stop…").press("Enter")
    page.get_by_role("button", name="Stop the chain").press("Enter")
    assert "stop (on the status page)" in page.locator(".facts").inner_text()
    page.get_by_role("button", name="Resume").click()
    assert "status page" not in page.locator(".facts").inner_text()


def test_a_form_on_another_site_cannot_press_a_button(browser: Any, address: tuple[str, str], cookies: Any) -> None:
    context = browser.new_context()
    context.add_cookies(cookies)
    page = context.new_page()
    page.route("http://evil.example/**", lambda route: route.fulfill(content_type="text/html", body="<p>hello"))
    page.goto("http://evil.example/")
    page.set_content(f"<form method=post action={address[1]}/chain/run-a/stop><button>win a prize</button></form>")
    page.get_by_role("button").click()
    page.wait_for_url("**/chain/run-a/stop")
    assert "closed" in page.content() or "token" in page.content()
    page.goto(address[1] + "/chain/run-a")
    assert "stop" not in page.locator(".facts").inner_text()
    context.close()


def test_the_keyboard_reaches_content_chains_and_evidence(visit: Any) -> None:
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "run-a":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/chain/run-a")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1


def test_hostile_text_stays_text_in_a_real_browser(visit: Any) -> None:
    page = visit("/chain/run-b")
    assert page.locator("script, img").count() == 0
    page.locator("table summary").first.click()
    assert "<script>alert(1)</script>" in page.locator("table details").first.inner_text()


def test_the_stylesheet_is_let_through_by_the_policy(visit: Any) -> None:
    page = visit("/")
    assert page.evaluate("getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"


CONTRAST = """() => {
  const lum = ([r, g, b]) => { const f = c => { c /= 255;
    return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const rgb = s => (s.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  return [...document.querySelectorAll('main *, header *')]
    .filter(e => !e.closest('svg') && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    .map(e => { const a = lum(rgb(getComputedStyle(e).color)), b = lum(ground(e));
      return [e.textContent.slice(0, 40), (Math.max(a, b) + .05) / (Math.min(a, b) + .05)]; });
}"""
