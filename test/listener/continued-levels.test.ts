import assert from "node:assert/strict";
import { test } from "node:test";
import { readLogLine } from "../../src/compute/log-line.ts";
import { type ContinuedLevels, continueLevels } from "../../src/listener/shipping/continued-levels.ts";

const linesOf = (text: string, stream: "stdout" | "stderr" = "stderr") =>
  text.split("\n").map((line, at) => ({ ...readLogLine(line), key: `${at}`, timestamp: new Date(0), stream }));

/** Returns the lines that a search for errors finds. */
const errorsOf = (text: string) =>
  continueLevels({}, linesOf(text))
    .filter(({ level }) => level === "ERROR")
    .map(({ message }) => message);

const traceback = `ERROR:    Exception in ASGI application
Traceback (most recent call last):
  File "/srv/main.py", line 9, in boom
    inner()
  File "/srv/main.py", line 8, in inner
    raise KeyError("a")
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/main.py", line 12, in boom
    raise pydantic_core.ValidationException
httpx.ConnectTimeout: timed out`;

test("gives every line of a traceback of Python the level of its error", () => {
  assert.deepEqual(errorsOf(`INFO: before\n${traceback}\nINFO: after\n  indented after`), traceback.split("\n"));
});

test("gives the frames of a stack of JavaScript the level of its error", () => {
  const stack = `TypeError: x is not a function
    at inner (file:///srv/server.js:3:5)
    at outer (file:///srv/server.js:9:1) {
  code: 'E_X'
}`;
  assert.deepEqual(errorsOf(`listening\n${stack}\nlistening`), stack.split("\n"));
});

test("gives the lines that rich draws the level of their error", () => {
  const drawn = `╭──────── Traceback (most recent call last) ────────╮
│ /srv/main.py:3 in <module>                        │
╰───────────────────────────────────────────────────╯
ValueError: no`;
  assert.deepEqual(errorsOf(`starting\n${drawn}\nstarting`), drawn.split("\n"));
});

test("ends with the record of a JSON logger that has a whole traceback", () => {
  const failed = { level: "error", event: "Run failed", exception: `${traceback}\n` };
  const log = [failed, { level: "info", event: "request completed" }].map((record) => JSON.stringify(record));
  assert.equal(errorsOf(log.join("\n")).length, 1);
});

test("leaves lines with a level of their own that rich indents below an error", () => {
  const failed =
    "[11/28/26 22:00:00] ERROR    Request failed because      server.py:10\n                             of a timeout";
  const others = ["INFO     Processing request", "WARNING  slow", "INFO     Processing request"];
  const indent = " ".repeat(20);
  assert.deepEqual(errorsOf([failed, ...others.map((other) => indent + other)].join("\n")), failed.split("\n"));
});

test("leaves an access log that another thread writes within a traceback", () => {
  const [head = "", frame = "", code = "", ...rest] = traceback.split("\n").slice(1);
  const access = 'INFO:     127.0.0.1:1 - "GET / HTTP/1.1" 200 OK';
  assert.deepEqual(errorsOf([head, frame, access, code, ...rest, access].join("\n")), [head, frame, code, ...rest]);
});

test("ends an exception group with its last line", () => {
  const group = `  + Exception Group Traceback (most recent call last):
  |   File "/srv/main.py", line 3, in run
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/main.py", line 9, in step
    | ValueError: no
    +------------------------------------`;
  assert.deepEqual(errorsOf(`starting\n${group}\nlistening\nready`), group.split("\n"));
});

test("continues an error across reads of one stream, and not in the other stream", () => {
  const levels: ContinuedLevels = {};
  const [begin, frame, end] = ["Traceback (most recent call last):", '  File "main.py", line 1', "main.Broken"];
  assert.equal(continueLevels(levels, linesOf(begin))[0]?.level, "ERROR");
  assert.equal(continueLevels(levels, linesOf("  indented", "stdout"))[0]?.level, "INFO");
  assert.equal(continueLevels(levels, linesOf(frame))[0]?.level, "ERROR");
  assert.equal(continueLevels(levels, linesOf(end))[0]?.level, "ERROR");
  assert.equal(continueLevels(levels, linesOf("ready"))[0]?.level, "INFO");
});

test("leaves indented lines without an error before them as they are", () => {
  assert.deepEqual(errorsOf("{\n  a: 1\n}\nINFO:  fine\n  more\n\nwarn: old\n  at once"), []);
});

test("does not take what an endless server indents for one error", () => {
  const lines = continueLevels({}, linesOf(`ERROR begin\n${"  more\n".repeat(2_000)}`));
  assert.equal(lines.filter(({ level }) => level === "ERROR").length, 1_001);
});
