"""The interactive shell: what ends a statement, and what a mistake costs."""

from collections.abc import Iterator

from crawl_platform.cli.shell import CONTINUED, PROMPT, Shell
from crawl_platform.cli.sql import complete
from crawl_platform.errors import QueryError


class Typist:
    """Types lines; `^C` is Ctrl-C; remembers prompts, what was run and what was written."""

    def __init__(self, *lines: str) -> None:
        self._lines: Iterator[str] = iter(lines)
        self.prompts: list[str] = []
        self.ran: list[str] = []
        self.written: list[str] = []
        Shell(self.read, self.written.append, self.run, {".schema": self.schema}).loop()

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    def run(self, sql: str) -> None:
        if "slow" in sql:
            raise KeyboardInterrupt
        if "wrong" in sql:
            raise QueryError("wrong SQL")
        self.ran.append(sql)

    def schema(self, name: str) -> None:
        self.ran.append(f"schema of {name}")


def test_a_statement_ends_with_a_semicolon() -> None:
    typist = Typist("SELECT", "", "1 ; ", "SELECT 2;")

    assert typist.ran == ["SELECT\n\n1 ; ", "SELECT 2;"]
    assert typist.prompts == [PROMPT, CONTINUED, CONTINUED, PROMPT, PROMPT]


def test_empty_lines_between_statements_do_nothing() -> None:
    assert Typist("", "   ", "SELECT 1;").ran == ["SELECT 1;"]


def test_a_mistake_is_told_and_the_shell_goes_on() -> None:
    typist = Typist("wrong;", "SELECT 1;")

    assert typist.written == ["Error: wrong SQL"]
    assert typist.ran == ["SELECT 1;"]


def test_control_c_drops_what_was_typed() -> None:
    assert Typist("SELECT 1,", "^C", "SELECT 2;").ran == ["SELECT 2;"]


def test_control_c_stops_a_query_not_the_shell() -> None:
    typist = Typist("slow;", "SELECT 1;")

    assert typist.written == ["interrupted"]
    assert typist.ran == ["SELECT 1;"]


def test_names_are_completed() -> None:
    assert [complete("links", state) for state in range(2)] == ["links", "links_now"]
    assert [complete("links_n", state) for state in range(2)] == ["links_now", None]
    assert complete("body_enc", 0) == "body_encoding"


def test_commands_start_with_a_dot() -> None:
    typist = Typist(".schema fetches;", ".help", ".nope", ".exit", "SELECT 1;")

    assert typist.ran == ["schema of fetches"]
    assert ".refresh" in typist.written[0]
    assert typist.written[1] == "Error: there is no command .nope: .help lists them"
