"""`crawl explain URL`: the facts of `fleet.explain` in words."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json, show
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.explain import Sources, explain_url


@click.command()
@click.argument("url")
@json_option
@home_option
def explain(url: str, as_json: bool, home: Path) -> None:
    """Tell all that is known of URL: its host, robots, place in the queue, fetches, and why."""
    crawl = Crawl.at(home)
    facts = _facts(Sources(crawl.settings, crawl.lake, crawl.running_fleet, SystemClock().now()), url)
    if as_json:
        print_json(facts)
        return
    for line in in_words(facts):
        click.echo(line)


def _facts(sources: Sources, url: str) -> dict[str, Any]:
    try:
        return explain_url(sources, url)
    except ExchangeError as error:
        click.echo(f"directives and the window can't be asked for, this is without them: {error}", err=True)
        return explain_url(replace(sources, client=None), url)


def in_words(facts: dict[str, Any]) -> list[str]:
    """The facts as sentences; the last one says what it waits for."""
    host, robots, state = facts["host"], facts["robots"], facts["state"]
    lines = [facts["url"]]
    if facts["rules_fired"]:
        lines.append(f"  canonical form: changed by {', '.join(facts['rules_fired'])}")
    detail = f" ({host['reason']})" if host.get("reason") else ""
    lines.append(
        f"  host:   {host['name']} is {host['state']}{detail}, shard {host['shard']}, {host['cell'] or 'no cell'}"
    )
    if "known_urls" in host:
        lines.append(
            f"          {show(host['known_urls'])} URLs known, {show(host['fetched'])} fetched, "
            f"at least {show(host['delay'])} s between requests"
            + (
                f": {show(host['slowed_down'])} times its usual, it is unwell"
                if host.get("slowed_down")
                else ""
            )
        )
    if "next_allowed_at" in host:
        wait = host["next_allowed_in"]
        when = f"from {show(host['next_allowed_at'])} on, in {_span(wait)}" if wait > 0 else "now"
        lines.append(f"          its clock and its address's allow the next request {when}")
    if host.get("wishes"):
        lines.append(f"          its robots.txt says about uses: {host['wishes']}")
    if host.get("turned_away"):
        traps = ", ".join(
            f"{count_text(n, 'link')} ({name})" for name, n in sorted(host["turned_away"].items())
        )
        lines.append(f"          turned away as traps: {traps}")
    if facts["decision"] is not None:
        decision = facts["decision"]
        lines.append(f"          {show(decision['decided_at'])} {decision['verdict']}: {decision['reason']}")
    if facts["trap"]:
        lines.append(f"  trap:   {facts['trap']}")
    if facts["scope"]:
        lines.append(f"  scope:  outside: {facts['scope']}")
    lines.append(f"  robots: {robots['verdict']}" + (f", {robots['detail']}" if "detail" in robots else ""))
    lines += [
        f"          {show(f['started_at'])} robots.txt: {f['outcome']} ({show(f['status'])})"
        for f in facts["robots_fetches"]
    ]
    if state is not None:
        reason = f" ({state['reason']})" if state["reason"] else ""
        worth = f" ({state['worth']})" if state["worth"] else ""
        lines.append(
            f"  state:  {state['state']}{reason}, depth {state['depth']}, value {show(state['value'])}{worth}, "
            f"found {show(state['discovered_at'])}"
        )
    if state is not None and state.get("kind") not in (None, "page"):
        lines.append(f"  kind:   {state['kind']}")
    if facts["listed"] is not None:
        lines.append(f"  listed: {_listed_in_words(facts['listed'])}")
    if facts["group"] is not None:
        lines.append(f"  group:  {_group_in_words(facts['group'])}")
    if facts["signals"] is not None:
        lines.append(f"  worth:  {_signals_in_words(facts['signals'])}")
    if facts["belief"] is not None:
        lines.append(f"  belief: {_belief_in_words(facts['belief'])}")
    if state is not None and state["deadline_at"]:
        lines.append(f"  promise: {_promise_in_words(host, state)}")
    if state is not None and state["watched_every"]:
        lines.append(f"  watch:  visited every {_span(state['watched_every'])} for the links that it brings")
    lines += [
        f"  fetch:  {show(f['started_at'])} {f['lane']}: {f['outcome']} ({show(f['status'])}), "
        f"{f['duration_ms'] or 0:.0f} ms"
        for f in facts["last_fetches"]
    ]
    if facts["linked_by"]:
        lines.append(f"  linked by: {', '.join(facts['linked_by'])}")
    return [*lines, f"  next:   {_next(facts)}"]


def _promise_in_words(host: dict[str, Any], state: dict[str, Any]) -> str:
    if state["last_success_at"]:
        said = f"fetched again within {_span(host['promised_within'])} of its last success"
    else:
        said = f"fetched within {_span(host['promised_first_within'])} of its discovery"
    return f"{said}: in the deadline lane from {show(state['deadline_at'])} on"


def _listed_in_words(listed: dict[str, Any]) -> str:
    said = f"lastmod {show(listed['lastmod'])}" if listed["lastmod"] else "no lastmod"
    if listed["claims_change"]:
        said += ", later than the last visit"
        said += ", so it is due now" if listed["brought_forward"] else ""
    if listed["claims_kept"] is None:
        trust = "what its host says of changes has not been checked yet"
    else:
        trust = (
            f"about {listed['claims_kept']:.0%} of what its host said of changes was true, "
            f"by {count_text(round(listed['claims_checked']), 'visit')}"
        )
    return f"{listed['sitemap']}: {said} ({trust})"


def _signals_in_words(signals: dict[str, Any]) -> str:
    named = ("business", "ir", "corpus", "technical", "exploration", "importance")
    said = ", ".join(f"{name} {signals[name]:.2f}" for name in named if signals[name] is not None)
    told = "" if signals["told"] is None else f", told to its cell as {show(signals['told'])}"
    return f"{show(signals['value'])} beside {show(signals['base'])} by depth{told}: {signals['reason']} ({said})"


def _group_in_words(group: dict[str, Any]) -> str:
    text = f"{group['template']}, {count_text(group['pages'], 'page')}"
    if group["rate"] is None:
        return f"{text}, change rate not known yet"
    low, high = show(group["rate_low"]), show(group["rate_high"])
    return f"{text}, each changes {show(group['rate'])} times a day (80 % sure of {low} to {high})"


def _belief_in_words(belief: dict[str, Any]) -> str:
    text = (
        f"it changes {show(belief['rate'])} times a day, and has changed since the last visit with "
        f"{belief['chance_of_change']:.0%}; a visit now is worth {show(belief['index'])} days of freshness"
    )
    if belief["threshold"] is None:
        return text
    return f"{text}, and its host visits pages from {show(belief['threshold'])} on"


def _next(facts: dict[str, Any]) -> str:
    host, state, window = facts["host"], facts["state"], facts["window"]
    if host["state"] == "unknown":
        return "nothing: no page that was fetched links to its host"
    if host["state"] == "horizon":
        held = facts["decision"]
        why = f"; {held['verdict']} at the last decision: {held['reason']}" if held else ""
        return f"nothing: its host is on the horizon and is only fetched once promoted{why}"
    if host["state"] == "excluded":
        rule = host.get("rule") or ""
        return f"nothing: {f'URLs below {rule} are' if '://' in rule else 'its host is'} excluded"
    if facts["robots"]["verdict"] == "denied":
        robots = facts["robots"]
        why = "can't be had, so nothing may be fetched" if robots["unreachable_since"] else "forbids it"
        return f"nothing: robots.txt {why}; it is read again after {show(robots['expires_at'])}"
    if facts["scope"] and (state is None or state["lane"] != "fastlane"):
        return (
            f"nothing: it is outside the scope of its host ({facts['scope']}); once crawl.toml says otherwise, "
            "`crawl reload`"
        )
    if state is None:
        reason = (
            f"it looks like a trap ({facts['trap']})"
            if facts["trap"]
            else "no page that was fetched links to it"
        )
        return f"nothing: the URL is not known; {reason}"
    if state["lane"] is None:
        return f"nothing: {state['state']} ({state['reason']})"
    when = _when(state["due_at"])
    if host.get("backed_off_until"):
        when += f", and the host is left alone until {show(host['backed_off_until'])}"
    allotted = window["fetches_for_host"] if window else None
    share = (
        f"; its host has {allotted} fetches in window {window['window_id']}" if allotted is not None else ""
    )
    if window and window["fetches_for_group"] is not None:
        share += f", its group {window['fetches_for_group']}"
    return f"waits in the {state['lane']} lane, {when}{share}"


def _when(due: datetime) -> str:
    ahead = due.timestamp() - SystemClock().now()
    return f"due in {_span(ahead)}" if ahead > 1 else "due now, as soon as it is its host's turn"


def _span(seconds: float) -> str:
    """A length of time in its largest fitting unit."""
    for unit, length in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
