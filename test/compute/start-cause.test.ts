import assert from "node:assert/strict";
import { test } from "node:test";
import { explainExit } from "../../src/compute/exit-cause.ts";
import { readableLines } from "../../src/compute/log-line.ts";
import { ownFrames } from "../../src/compute/own-frames.ts";
import { findMissingVariables, findStartCause } from "../../src/compute/start-cause.ts";

/** Names the directory of an artifact. */
const digest = "0a".repeat(32);

const cause = (text: string) => findStartCause(text.trim().split("\n"));

test("says how to create missing tables, and ignores what a proxy reports about the end of a server", () => {
  const tables = cause(
    'sqlalchemy.exc.ProgrammingError: (psycopg.errors.UndefinedTable) relation "users" does not exist',
  );
  assert.match(tables ?? "", /^The database lacks tables .*"users".*a line such as "release: alembic upgrade head"/);
  const proxied = "ValueError: api_spec_url must be provided\nmcp.shared.exceptions.McpError: Connection closed";
  assert.equal(cause(proxied), "ValueError: api_spec_url must be provided");
});

test("names the variable that a start misses", () => {
  const forms = [
    "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'OPENAI_API_KEY'",
    "openai.OpenAIError: The api_key client option must be set either by passing api_key to the client or by setting the OPENAI_API_KEY environment variable",
    "OpenAIError: The OPENAI_API_KEY environment variable is missing or empty; either provide it, or",
    "Error: Missing required environment variable: OPENAI_API_KEY",
    "ValueError: OPENAI_API_KEY is not set",
    'ERROR - OPENAI_API_KEY for "gpt" models environment variable not set.',
    "Neither general.key nor the OPENAI_API_KEY environment variable is set.",
    'Error: No API key found. Either set an environment variable named "OPENAI_API_KEY" or pass an API key as "apiKey".',
    "Error: OPENAI_API_KEY must be set",
    '{"level": "error", "exception": "Traceback\\n  File x\\nKeyError: \'OPENAI_API_KEY\'"}',
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings\nopenai_api_key\n  Field required [type=missing]",
    "openai.OpenAIError: Missing credentials. Please pass an `api_key`, `workload_identity`, or set the `OPENAI_API_KEY` or `OPENAI_ADMIN_KEY` environment variable.",
    "Graph 'router' failed to load: openai.OpenAIError: Missing credentials. Please set the `OPENAI_API_KEY`. location=/x/router.py",
    "pydantic_ai.exceptions.UserError: Set the `OPENAI_API_KEY` environment variable or pass it via `OpenAIProvider(api_key=...)`",
    "Value error, Did not find openai_api_key, please add an environment variable `OPENAI_API_KEY` which contains it",
    "ValueError: Missing required environment variables: OPENAI_API_KEY, TAVILY_API_KEY",
    'EnvError: Environment variable "OPENAI_API_KEY" not set',
    "Please set HF_TOKEN to enable higher rate limits.\nValueError: set OPENAI_API_KEY first",
  ];
  for (const form of forms)
    assert.match(cause(form) ?? "", /OPENAI_API_KEY.*pierhead env set DEPLOYMENT OPENAI_API_KEY/i, form);
});

test("names no variable that is too long for a report", () => {
  const long = "A_".repeat(200);
  for (const form of [
    `KeyError: '${long}'`,
    `Error: Missing required environment variable: ${long}`,
    `ValidationError: 1 validation error\n${long}\n  Field required [x]`,
  ]) {
    assert.equal(findMissingVariables(form.split("\n"), []), null);
  }
});

test("names every setting that pydantic misses", () => {
  const text =
    "ValidationError: 2 validation errors\nopenai_api_key\n  Field required [x]\nshop_token\n  Field required [x]";
  const wanted = "OPENAI_API_KEY, SHOP_TOKEN. Set them with: pierhead env set DEPLOYMENT OPENAI_API_KEY SHOP_TOKEN.";
  assert.equal(cause(text), `These settings are not set: ${wanted}`);
  const prefixed = findStartCause(text.split("\n"), ["SHOP_SHOP_TOKEN"]) ?? "";
  assert.match(prefixed, /not set: OPENAI_API_KEY, SHOP_SHOP_TOKEN\./, "a class of settings may have a prefix");
});

test("leaves out lines of npm that explain nothing", () => {
  const own = ["npm error Lifecycle script `start` failed with error:", "Error: no model"];
  const noise = [
    "npm error A complete log of this run can be found in: /home/user/.npm/_logs/2026-01-01T00_00_00_000Z-debug-0.log",
    "npm error A complete log of this run can be found in:",
    "npm error     /home/user/.npm/_logs/2026-01-01T00_00_00_000Z-debug-0.log",
    "npm notice",
    "npm notice New major version of npm available! 10.8.2 -> 11.4.1",
    "npm notice To update run: npm install -g npm@11.4.1",
  ];
  assert.deepEqual(ownFrames([...own, ...noise]), own);
});

test("names the variables that a check of JavaScript misses", () => {
  const said = (lines: string[]) => findMissingVariables([...lines, "Error: Invalid environment variables"], [])?.names;
  assert.deepEqual(said(["❌ Invalid environment variables: { DATABASE_URL: [ 'Required' ] }"]), ["DATABASE_URL"]);
  const newer = [
    "❌ Invalid environment variables: [",
    "  {",
    "    path: [ 'API_KEY' ],",
    "  {",
    "    path: [ 'A_URL' ],",
  ];
  assert.deepEqual(said(newer), ["API_KEY", "A_URL"]);
});

test("splits a record with a whole traceback into its lines", () => {
  const record = { event: "startup failed", exception: `Traceback\n${"  File x\n".repeat(200)}KeyError: 'A_KEY'` };
  assert.equal(readableLines(JSON.stringify(record)).at(-1), "KeyError: 'A_KEY'");
});

test("names the variable of a library that does not name it", () => {
  const google = "ValueError: Missing key inputs argument! To use the Google AI API, provide (`api_key`) arguments.";
  assert.match(cause(google) ?? "", /^GOOGLE_API_KEY is not set/);
  const gemini = ["ValueError: No API key was provided. Learn how to create one at https://aistudio.google.com/docs"];
  assert.match(findStartCause(gemini, ["GEMINI_API_KEY"]) ?? "", /^GEMINI_API_KEY is not set/);
});

test("a name of one word is that of a variable only if the project names it or the failed line reads it", () => {
  const line = "Error: PASSWORD is not set";
  assert.deepEqual(findMissingVariables([line], ["PASSWORD"])?.names, ["PASSWORD"]);
  assert.equal(findMissingVariables([line], []), null);
  for (const read of ["if (!process.env.PASSWORD) throw", 'os.environ["PASSWORD"]', "os.getenv('PASSWORD')"])
    assert.deepEqual(findMissingVariables([read, line], [])?.names, ["PASSWORD"]);
});

test("names the secret that Chainlit asks for", () => {
  const chainlit = "ValueError: You must provide a JWT secret in the environment to use authentication. Run `x`.";
  assert.match(cause(chainlit) ?? "", /^CHAINLIT_AUTH_SECRET is not set/);
});

test("names the module or package that is not installed", () => {
  assert.match(cause("ModuleNotFoundError: No module named 'shop'") ?? "", /'shop' is not installed/);
  assert.match(cause("ModuleNotFoundError: No module named 'pkg_resources'") ?? "", /Add setuptools<82/);
  const submodule = "ModuleNotFoundError: No module named 'shop.db'";
  assert.match(cause(submodule) ?? "", /'shop\.db' is not in the installed version of 'shop'\. Pin the version/);
  assert.match(
    cause("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x/y.js") ?? "",
    /npm package 'zod' is not installed/,
  );
  const file = `Error: Cannot find module '/data/artifacts/${digest}/dist/main.js'`;
  assert.equal(cause(file), "The file 'dist/main.js' does not exist. If a build generates it, set the build command.");
});

test("names an npm package whose version does not fit the others", () => {
  const subpath = `Error [ERR_PACKAGE_PATH_NOT_EXPORTED]: Package subpath './experimental/sandbox' is not defined by "exports" in /x/node_modules/.pnpm/deepagents@1.10.2/node_modules/langsmith/package.json imported from /x/dist/index.js`;
  assert.match(cause(subpath) ?? "", /^The installed version of the npm package 'langsmith' has no 'langsmith\/exp/);
  const scoped = subpath.replaceAll("node_modules/langsmith", "node_modules/@langchain/core");
  assert.match(cause(scoped) ?? "", /package '@langchain\/core' has no '@langchain\/core\/experimental\/sandbox'/);
  const name = "SyntaxError: The requested module '@langchain/core/tools' does not provide an export named 'tool'";
  assert.match(
    cause(name) ?? "",
    /^The installed version of the npm package '@langchain\/core\/tools' exports no 'tool'/,
  );
  assert.equal(cause("Error [ERR_INVALID_ARG]: no name"), "Error [ERR_INVALID_ARG]: no name");
});

test("names the port that another program uses", () => {
  const forms = [
    "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 9999): address already in use",
    "Error: listen EADDRINUSE: address already in use 0.0.0.0:9999",
    "[ERROR] Connection in use: ('0.0.0.0', 9999)",
  ];
  for (const form of forms) assert.match(cause(form) ?? "", /port 9999, most likely the revision that serves/, form);
});

test("unwraps exception groups and failures of a lifespan", () => {
  const text = `
ERROR:    Traceback (most recent call last):
  | BaseExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/db.py", line 3, in connect
    | shop.errors.TableError: the table 'orders' is missing
    +------------------------------------
ERROR:    Application startup failed. Exiting.`;
  assert.equal(cause(text), "shop.errors.TableError: the table 'orders' is missing");
});

test("names the server that a start cannot reach", () => {
  assert.match(
    cause("Error: getaddrinfo ENOTFOUND db.invalid") ?? "",
    /could not connect to db\.invalid while it started/,
  );
  assert.match(
    cause(
      "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.invalid', port=443): Max retries exceeded with url: /",
    ) ?? "",
    /could not connect to api\.invalid/,
  );
  assert.match(
    cause("connect ECONNREFUSED 127.0.0.1:5432") ?? "",
    /PostgreSQL at 127\.0\.0\.1:5432.*PIERHEAD_AGENT_POSTGRES_URL/,
  );
});

test("names the host of a client that does not repeat it, and the address of a database", () => {
  const traceback = `
  File "/data/artifacts/${digest}/agent.py", line 3, in <module>
    models = httpx.get("https://models.invalid/v1")
httpx.ConnectError: [Errno -2] Name or service not known`;
  assert.match(cause(traceback) ?? "", /could not connect to models\.invalid while it started/);
  const forms = [
    'connection to server at "db.invalid" (10.0.0.1), port 5432 failed: Connection refused',
    "ConnectionRefusedError: [Errno 111] Connect call failed ('db.invalid', 5432)",
    "redis.exceptions.ConnectionError: Error 111 connecting to db.invalid:5432. Connection refused.",
    "pymongo.errors.ServerSelectionTimeoutError: db.invalid:5432: [Errno 111] Connection refused",
  ];
  for (const form of forms) assert.match(cause(form) ?? "", /could not connect to db\.invalid:5432/, form);
});

test("names the graph that cannot be loaded, its file and why", () => {
  const file = `/data/artifacts/${digest}/src/agent.py`;
  const text = `
ModuleNotFoundError: No module named 'prompts'
error: pierhead: the agent server could not start: GraphLoadError: Failed to load graph 'agent' from ${file}: No module named 'prompts'`;
  assert.match(
    cause(text) ?? "",
    /^The graph 'agent' in src\/agent\.py cannot be loaded\. The Python module 'prompts'/,
  );
});

test("names the graph and the host of an import that needs the network", () => {
  const why = "HTTPSConnectionPool(host=\\'files.invalid\\', port=443): Max retries exceeded with url: /x";
  const text = `
socket.gaierror: [Errno -2] Name or service not known
GraphLoadError: Failed to load graph 'Music Store' from agents/store.py: ${why}`;
  assert.match(
    cause(text) ?? "",
    /^The graph 'Music Store' in agents\/store\.py .*could not connect to files\.invalid /,
  );
});

test("shows the cause of an import instead of the error that repeats it", () => {
  const text = `
ImportError: cannot import name 'link' from 'web' (/data/cache/python/4a2a/lib/python3.11/site-packages/web/__init__.py)
The above exception was the direct cause of the following exception:
ImportError: Failed to import app module '/data/artifacts/${digest}/app.py'
error: pierhead: the agent server could not start: ImportError: Failed to import app module '/x/app.py'`;
  assert.equal(cause(text), "ImportError: cannot import name 'link' from 'web' (web/__init__.py)");
  const own =
    "FileNotFoundError: config.yaml not found\nApplication startup failed.\nRuntimeError: see the lines above";
  assert.equal(cause(own), "FileNotFoundError: config.yaml not found");
});

test("shows no credential of an exception and nothing of an ordinary log", () => {
  assert.equal(
    cause("ValueError: bad address postgres://user:secret@db.invalid/x"),
    "ValueError: bad address postgres://...@db.invalid/x",
  );
  assert.equal(cause("ValueError: bad key sk-abcdefgh12345678"), "ValueError: bad key ...");
  assert.equal(cause("INFO: started\nlistening on 8000"), null);
  assert.equal(cause(""), null);
});

test("explains the end of an agent that logged lines of dots and slashes", () => {
  const size = 64 * 1024;
  const lines = [
    `http://${".".repeat(size)}`,
    "/".repeat(size),
    `    at ${"file:///".repeat(size / 8)}`,
    `EADDRINUSE ('', ${"1".repeat(size)}`,
    "a".repeat(size),
    `${"x: ".repeat(size / 4)}ECONNREFUSED ${"a.".repeat(size / 4)}`,
    "/artifacts/".repeat(size / 11),
  ];
  const ending = {
    wasReady: false,
    exitCode: 1,
    signal: null,
    outOfMemoryKills: 0,
    memoryLimitMib: 1,
    verdict: undefined,
    lastLines: [...Array(20).fill(lines).flat(), "KeyError: 'A_KEY'"],
  };
  assert.match(explainExit(ending, () => undefined).message, /A_KEY is not set/);
});

test("says why a start failed and which expected variables are not set", () => {
  const ending = {
    wasReady: false,
    exitCode: 1,
    signal: null,
    outOfMemoryKills: 0,
    memoryLimitMib: 1,
    verdict: undefined,
    lastLines: ["KeyError: 'A_KEY'", ...Array<string>(50).fill("at x")],
    unsetVariables: ["A_KEY", "B_URL"],
  };
  const { message, lastLines } = explainExit(ending, () => undefined);
  assert.equal(
    message,
    "The agent server ended with exit code 1 before it was ready. A_KEY is not set. Set it with: pierhead env set DEPLOYMENT A_KEY. The project also names variables that are not set: B_URL.",
  );
  assert.deepEqual(lastLines, ["KeyError: 'A_KEY'"]);
  assert.doesNotMatch(explainExit({ ...ending, wasReady: true }, () => undefined).message, /A_KEY/);
});

test("shows the frames of the project, without those of libraries and of the server's directories", () => {
  const artifact = `/srv/pierhead/artifacts/${"0a".repeat(32)}`;
  const exit = (lines: string[]) =>
    explainExit(
      {
        wasReady: false,
        exitCode: 1,
        signal: null,
        outOfMemoryKills: 0,
        memoryLimitMib: 512,
        verdict: undefined,
        lastLines: lines,
      },
      () => undefined,
    ).lastLines;
  assert.deepEqual(
    exit([
      "Traceback (most recent call last):",
      '  File "/cache/python/1d/lib/python3.11/site-packages/uvicorn/main.py", line 620, in run',
      "    config.load_app()",
      "    ^^^^^^^^^^^^^^^^^",
      '  File "<frozen importlib._bootstrap>", line 690, in _load_unlocked',
      `  File "${artifact}/src/main.py", line 4, in <module>`,
      '    key = os.environ["KEY"]',
      '  File "/usr/lib/python3.11/os.py", line 679, in __getitem__',
      "    raise KeyError(key) from None",
      "KeyError: 'KEY'",
    ]),
    [
      "Traceback (most recent call last):",
      '  File "src/main.py", line 4, in <module>',
      '    key = os.environ["KEY"]',
      "KeyError: 'KEY'",
    ],
  );
  assert.deepEqual(
    exit([
      "Error: no model",
      `    at load (file://${artifact}/dist/agent.js:3:9)`,
      `    at Layer.handle (${artifact}/node_modules/express/lib/router/layer.js:95:5)`,
      "    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)",
      "    at async node:internal/modules/esm/loader:639:26",
    ]),
    ["Error: no model", "    at load (dist/agent.js:3:9)"],
  );
  const inLibrary = [
    "Traceback (most recent call last):",
    '  File "/app/.venv/lib/python3.11/site-packages/a.py", line 1, in run',
    '  File "/app/.venv/lib/python3.11/site-packages/agent/main.py", line 4, in <module>',
    "    raise ValueError(1)",
    "ValueError: 1",
  ];
  assert.deepEqual(exit(inLibrary), inLibrary.toSpliced(1, 1), "an error in packages alone");
  const slashes = "/".repeat(64_000);
  assert.deepEqual(
    exit(Array.from({ length: 30 }, () => slashes)),
    Array.from({ length: 30 }, () => slashes),
  );
});

test("quotes the first error below a heading, and says that a program which ends is no server", () => {
  const said = cause(
    'error: x\nTransformError: Transform failed with 1 error:\nsrc/agent.ts:81:13: ERROR: Unexpected ";"',
  );
  assert.equal(said, 'TransformError: Transform failed with 1 error: src/agent.ts:81:13: ERROR: Unexpected ";"');
  const ended = {
    wasReady: false,
    exitCode: 0,
    signal: null,
    outOfMemoryKills: 0,
    memoryLimitMib: 64,
    verdict: undefined,
  };
  const { message } = explainExit({ ...ended, lastLines: ["done"] }, () => undefined);
  assert.match(message, /ended without an error .* listen on the port in PORT/);
  const spoke = explainExit({ ...ended, lastLines: ["Weather MCP server running on stdio"] }, () => undefined);
  assert.match(
    spoke.message,
    /speaks over standard input, where nothing is sent\. Start it with its transport over HTTP/,
  );
});

test("does not take the warning of a library that goes on without the network for the cause", () => {
  const log = [
    "12:30:12 - LiteLLM:WARNING: prices.py:795 - Failed to fetch (ConnectError: [Errno -2] Name or service not known). Falling back to local backup.",
    "Traceback (most recent call last):",
    '  File "src/store.py", line 11, in <module>',
    "base._sync.client.BaseException: base_url is required",
  ];
  const words = (unset: string[]) => findStartCause(log, unset) ?? "";
  assert.equal(words([]), "base._sync.client.BaseException: base_url is required");
  assert.match(
    words(["BASE_KEY", "BASE_URL"]),
    /^BASE_URL is not set\. Set it with: pierhead env set DEPLOYMENT BASE_URL\.$/,
  );
});

test("finds a variable that an error has in parentheses", () => {
  const error = "StoreError: API key must be provided as an argument or as an environment variable (STORE_API_KEY)";
  assert.match(cause(error) ?? "", /^STORE_API_KEY is not set\. Set it with:/);
});

test("reports the missing variables as data", () => {
  const ended = {
    wasReady: false,
    exitCode: 1,
    signal: null,
    outOfMemoryKills: 0,
    memoryLimitMib: 64,
    verdict: undefined,
  };
  const lastLines = ["Traceback (most recent call last):", "KeyError: 'MODEL_KEY'"];
  assert.deepEqual(explainExit({ ...ended, lastLines }, () => undefined).variables, ["MODEL_KEY"]);
});

test("names the file that a package lacks when an import omits the extension", () => {
  const error =
    "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/a/node_modules/@x/sdk/dist/mcp' imported from /a/b.js";
  assert.match(cause(error) ?? "", /^The npm package '@x\/sdk' has no file 'dist\/mcp'\. Correct the import: .*\.js/);
  const unbuilt = "Cannot find module '/a/node_modules/@acme/shared/dist/index.js' imported from /a/b.js";
  assert.match(cause(unbuilt) ?? "", /index\.js' does not exist\. If a build generates it, set the build command/);
});
