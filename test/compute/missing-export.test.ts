import assert from "node:assert/strict";
import { test } from "node:test";
import { explainExit } from "../../src/compute/exit-cause.ts";

const artifact = `/srv/artifacts/${"a".repeat(64)}/`;

const explain = (lastLines: string[], wasReady = false) =>
  explainExit(
    {
      ...{ wasReady, exitCode: 1, signal: null, outOfMemoryKills: 0, memoryLimitMib: 512, verdict: undefined },
      lastLines,
    },
    () => undefined,
  );

const node = [
  `file://${artifact}server.js:1`,
  'import { missing } from "./lib.js";',
  "         ^^^^^^^",
  "SyntaxError: The requested module './lib.js' does not provide an export named 'missing'",
  "    at #asyncInstantiate (node:internal/modules/esm/module_job:455:21)",
  "    at async ModuleJob.run (node:internal/modules/esm/module_job:561:5)",
  "",
  "Node.js v24.21.0",
];

const python = [
  "Traceback (most recent call last):",
  `  File "${artifact}main.py", line 1, in <module>`,
  "    from lib import missing",
  `ImportError: cannot import name 'missing' from 'lib' (${artifact}lib.py)`,
];

test("names file, line and name of an import that another file does not export", () => {
  const { message, lastLines } = explain(node);
  assert.equal(
    message,
    "The agent server ended with exit code 1 before it was ready. Line 1 of server.js imports 'missing' from './lib.js', which does not export it. Correct the import, or export the name.",
  );
  assert.deepEqual(lastLines, ["server.js:1", '  import { missing } from "./lib.js";']);
});

test("names it in Python, too", () => {
  const { message, lastLines } = explain(python);
  assert.equal(
    message,
    "The agent server ended with exit code 1 before it was ready. Line 1 of main.py imports 'missing' from 'lib' (lib.py), which does not define it. Correct the import, or define the name.",
  );
  assert.deepEqual(lastLines, ['File "main.py", line 1, in <module>', "  from lib import missing"]);
});

test("names the graph and the import that LangGraph.js reports", () => {
  const said = "The requested module './lib.ts' does not provide an export named 'missing'";
  const { message } = explain([
    "Registering graph with id 'agent' graph_id=agent",
    `Failed to load graph 'agent' from ./src/agent.ts: ${said}`,
    `file://${artifact}src/agent.ts:1`,
    'import { missing } from "./lib.ts";',
    "         ^",
    `SyntaxError: ${said}`,
    "    at async main (file:///srv/langgraph-js-shim.js:51:20)",
    `error: pierhead: the agent server could not start: Error: Failed to load graph 'agent' from ./src/agent.ts: ${said}`,
  ]);
  assert.match(
    message,
    /The graph 'agent' in \.\/src\/agent\.ts cannot be loaded\. Line 1 of src\/agent\.ts imports 'missing'/,
  );
});

test("leaves names that a package lacks, and servers that were ready, to their own causes", () => {
  const ofPackage = python.map((line) => line.replace(`${artifact}lib.py`, "/x/site-packages/lib/__init__.py"));
  assert.match(explain(ofPackage).message, /ImportError: cannot import name 'missing' from 'lib'/);
  const inPackage = node.map((line) => line.replace("server.js", "node_modules/x/index.js"));
  assert.match(explain(inPackage).message, /SyntaxError: The requested module/);
  assert.doesNotMatch(explain(node, true).message, /Correct the import/);
});

test("leaves an import that the program went on without, and names the error that ended it", () => {
  const after = ["", "During handling of the above exception, another exception occurred:", "", python[0] ?? ""];
  const { message, lastLines } = explain([...python, ...after, "ValueError: no model for the agent"]);
  assert.match(message, /before it was ready\. ValueError: no model for the agent/);
  assert.ok(lastLines.includes("ValueError: no model for the agent"), lastLines.join("\n"));
  const taken =
    "ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8000): address already in use";
  assert.match(explain([...python, taken]).message, /Another program listens on port 8000/);
});

test("does not ask to define a name of a package that is not installed, or of Python", () => {
  const from = (file: string) => [
    ...python.slice(0, -1),
    `ImportError: cannot import name 'genai' from 'google' (${file})`,
  ];
  for (const file of ["unknown location", "/usr/lib/python3.12/collections/__init__.py"]) {
    const { message } = explain(from(file));
    assert.doesNotMatch(message, /define the name/);
    assert.match(message, /ImportError: cannot import name 'genai' from 'google'/);
  }
});
