"""The interactive shell of `crawl sql`: statements end with `;`, commands start with a dot."""

from collections.abc import Callable

from crawl_platform.errors import QueryError

PROMPT, CONTINUED = "crawl> ", "  ...> "

HELP = """\
SQL ends with ; and may span lines. Times are UTC.
.tables          what can be queried, and what a row is
.schema TABLE    columns of a table, view or mart
.refresh         move to the newest commit and the newest marts
.exit            leave (or Ctrl-D)"""


class Shell:
    """Reads lines and dispatches them; knows nothing of terminals or databases.

    `read` returns a line for a prompt, raises EOFError at the end and KeyboardInterrupt on Ctrl-C.
    """

    def __init__(
        self,
        read: Callable[[str], str],
        write: Callable[[str], None],
        run: Callable[[str], None],
        commands: dict[str, Callable[[str], None]],
    ) -> None:
        self._read = read
        self._write = write
        self._run = run
        self._commands = commands

    def loop(self) -> None:
        """Until `.exit` or the end of input. Wrong SQL is told and the shell goes on."""
        pending = ""
        while True:
            try:
                line = self._read(CONTINUED if pending else PROMPT)
            except EOFError:
                return
            except KeyboardInterrupt:
                self._write("")
                pending = ""
                continue
            word = line.strip().rstrip(";").lower()
            if not pending and word in (".exit", ".quit", "exit", "quit"):
                return
            if word in ("help", "?"):
                line, pending = ".help", ""
            pending = self._take(pending, line)

    def _take(self, pending: str, line: str) -> str:
        """Handle one line; returns what still waits for its semicolon."""
        if not pending and line.strip().startswith("."):
            self._attempt(self._command, line.strip())
            return ""
        text = f"{pending}\n{line}" if pending else line
        if not text.strip():
            return ""
        if not text.rstrip().endswith(";"):
            return text
        self._attempt(self._run, text)
        return ""

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        if name == ".help":
            self._write(HELP)
            return
        command = self._commands.get(name)
        if command is None:
            raise QueryError(f"there is no command {name}: .help lists them")
        command(argument.strip().rstrip(";"))

    def _attempt(self, action: Callable[[str], None], text: str) -> None:
        try:
            action(text)
        except QueryError as error:
            self._write(f"Error: {error}")
        except KeyboardInterrupt:
            self._write("interrupted")
