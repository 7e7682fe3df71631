import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { promisify } from "node:util";
import type { CommandSpec } from "../../src/cli/command.ts";
import { commandTable } from "../../src/cli/command-table.ts";
import { harmless } from "../../src/cli/terminal/terminal.ts";
import { columns, duration, nearest, parseDuration, parseMoment } from "../../src/cli/terminal/text.ts";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, runCli } from "./run-cli.ts";

const id = "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11";
const deployment = {
  id,
  name: "support",
  status: "READY",
  source: "internal_source",
  secrets: [{ name: "TOKEN", value: "hunter2" }],
  latest_revision_id: null,
  active_revision_id: null,
  updated_at: "2026-01-01T00:00:00Z",
  url: null,
  display_name: null,
  created_at: "2026-01-01T00:00:00Z",
  source_config: { repo_url: null, template_id: null, deployment_type: "prod" },
};

function leaves(specs: readonly CommandSpec[], prefix: string[] = []): { words: string[]; spec: CommandSpec }[] {
  return specs.flatMap((spec) => {
    const words = [...prefix, spec.name];
    return spec.commands === undefined ? [{ words, spec }] : leaves(spec.commands, words);
  });
}

test("gives every command help with examples first, a module, and a documented JSON answer", async () => {
  for (const { words, spec } of leaves(commandTable).filter((leaf) => !leaf.spec.hidden)) {
    const { code, stdout } = await runCli([...words, "--help"]);
    assert.equal(code, 0, words.join(" "));
    if (spec.examples !== undefined) assert.match(stdout, /^Examples:\n {2}\$ /);
    assert.match(stdout, /--json/);
    assert.equal(typeof (await spec.load?.()), "function");
    assert.ok(spec.json !== undefined, words.join(" "));
  }
});

test("shows the help without a command and suggests a name for a misspelled one", async () => {
  assert.equal((await runCli([])).code, 0);
  const { code, stderr, stdout } = await runCli(["depoly"]);
  assert.equal(code, 2);
  assert.match(stderr, /Did you mean deploy\?/);
  assert.equal(stdout, "");
});

test("rejects unknown options and missing arguments with code 2", async () => {
  assert.equal((await runCli(["list", "--jsno"])).code, 2);
  const unknown = await runCli(["list", "--status", "failed"]);
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /"failed" is not a deployment status.*\n.*AWAITING_DATABASE, READY/);
  assert.equal((await runCli(["status"])).code, 2);
  assert.equal((await runCli(["status", "a", "b"])).code, 2);
  assert.equal(
    (await runCli(["logs", "x", "-n", "many"], { env: { PIERHEAD_URL: "http://127.0.0.1:1" } })).code !== 0,
    true,
  );
});

test("changes no alert rule without an option or with an empty threshold", async () => {
  const set = (...options: string[]) =>
    runCli(["alerts", "set", "degraded", ...options, "--url", "http://127.0.0.1:1"]);
  const without = await set();
  assert.equal(without.code, 2);
  assert.match(without.stderr, /Give --on, --off or --threshold\./);
  assert.match((await set("--deployment", "a")).stderr, /Give --on, --off or --threshold, or --inherit\./);
  assert.match((await set("--inherit")).stderr, /--inherit needs --deployment/);
  for (const threshold of ["", " ", "many", "Infinity"]) {
    const refused = await set("--threshold", threshold);
    assert.equal(refused.code, 2, threshold);
    assert.match(refused.stderr, /--threshold takes a number from 0/);
  }
});

test("explains how to start a server when none answers, also as JSON", async () => {
  const { code, stderr } = await runCli(["list", "--url", "http://127.0.0.1:1"]);
  assert.equal(code, 1);
  assert.match(stderr, /No answer from http:\/\/127.0.0.1:1/);
  assert.match(stderr, /pierhead up/);
  const json = await runCli(["list", "--json", "--url", "http://127.0.0.1:1"]);
  const { error } = JSON.parse(json.stdout) as { error: { exit_code: number; message: string } };
  assert.equal(error.exit_code, 1);
  assert.match(error.message, /No answer/);
});

test("ends with code 4, the request id and the sources of keys when a key is rejected", async () => {
  await using server = await startAnswering(() => ({
    status: 401,
    body: { detail: "Invalid token" },
    headers: { "x-request-id": "req-77" },
  }));
  const { code, stderr } = await runCli(["list", "--url", server.url]);
  assert.equal(code, 4);
  assert.match(stderr, /Invalid token/);
  assert.match(stderr, /req-77/);
  assert.match(stderr, /PIERHEAD_API_KEY/);
});

test("prefers flags to the environment to credentials.json, and sends the stored key only to its own address", async () => {
  await using own = await startAnswering(() => ({ status: 200, body: { resources: [], offset: 0 } }));
  await using other = await startAnswering(() => ({ status: 200, body: { resources: [], offset: 0 } }));
  await using data = await createDirectory({
    "credentials.json": JSON.stringify({ url: own.url, workspace_id: "w-file", api_key: "file-key" }),
    key: "flag-key\n",
  });
  const env = { PIERHEAD_DATA_DIR: data.directory };
  const last = (server: typeof own) => server.asked.at(-1)?.headers;

  await runCli(["list"], { env });
  assert.equal(last(own)?.["x-api-key"], "file-key");
  assert.equal(last(own)?.["x-tenant-id"], "w-file");
  await runCli(["list"], { env: { ...env, PIERHEAD_API_KEY: "env-key", PIERHEAD_WORKSPACE: "w-env" } });
  assert.equal(last(own)?.["x-api-key"], "env-key");
  assert.equal(last(own)?.["x-tenant-id"], "w-env");
  await runCli(["list", "--api-key-file", path.join(data.directory, "key"), "--workspace", "w-flag"], {
    env: { ...env, PIERHEAD_API_KEY: "env-key" },
  });
  assert.equal(last(own)?.["x-api-key"], "flag-key");
  assert.equal(last(own)?.["x-tenant-id"], "w-flag");
  await runCli(["list", "--url", other.url], { env });
  assert.equal(last(other)?.["x-api-key"], undefined);
});

test("shows values of variables only with --reveal", async () => {
  await using server = await startAnswering(({ url, method }) => {
    if (method === "PATCH" || url.endsWith(id)) return { status: 200, body: deployment };
    if (url.endsWith("/replicas")) return { status: 200, body: { replicas: [], last_exit: null, last_exit_at: null } };
    if (url.includes("/metrics")) return { status: 200, body: { points: [] } };
    return {
      status: 200,
      body: url.includes("/revisions") ? { resources: [], offset: 0 } : { resources: [deployment], offset: 1 },
    };
  });
  const at = ["--url", server.url];
  for (const words of [
    ["list"],
    ["list", "--json"],
    ["status", "support", "--json"],
    ["env", "list", "support", "--json"],
    ["env", "list", "support"],
  ]) {
    const { code, stdout, stderr } = await runCli([...words, ...at, "--verbose"]);
    assert.equal(code, 0);
    assert.doesNotMatch(stdout + stderr, /hunter2/, words.join(" "));
  }
  const set = await runCli(["env", "set", "support", "OTHER", "--verbose", ...at], { stdin: "swordfish\n" });
  assert.equal(set.code, 0, set.stderr);
  assert.doesNotMatch(set.stdout + set.stderr, /hunter2|swordfish/);
  assert.match(set.stderr, /"name":"OTHER","value":"\*{10}"/);
  assert.deepEqual(JSON.parse(server.asked.at(-1)?.body ?? ""), { set: [{ name: "OTHER", value: "swordfish" }] });
  assert.match((await runCli(["env", "list", "support", "--reveal", ...at])).stdout, /TOKEN\s+hunter2/);
});

test("rejects a value on the command line before any call", async () => {
  const { code, stderr } = await runCli(["env", "set", "support", "KEY=secret", "--url", "http://127.0.0.1:1"]);
  assert.equal(code, 2);
  assert.match(stderr, /pierhead env set support KEY < file/);
});

test("sets no variable from an empty stdin", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [deployment], offset: 1 } }));
  const { code, stderr } = await runCli(["env", "set", "support", "KEY", "--url", server.url], { stdin: "" });
  assert.equal(code, 2);
  assert.match(stderr, /stdin has no value\..*\n.*An empty value is an empty line/);
  assert.equal(server.asked.filter(({ method }) => method !== "GET").length, 0);
});

test("suggests similar names and accepts a unique prefix of an id", async () => {
  const twin = { ...deployment, id: id.replace("6b1f0f64", "6b1fffff"), name: "billing" };
  await using server = await startAnswering(({ url }) => {
    const query = new URL(url, "http://x").searchParams;
    const resources = [deployment, twin].filter(({ name }) => query.get("name") === null || query.get("name") === name);
    return {
      status: 200,
      body: { resources: url.includes("/revisions") ? [] : resources, replicas: [], points: [], offset: 2 },
    };
  });
  const at = ["--url", server.url];
  const misspelled = await runCli(["status", "suport", ...at]);
  assert.equal(misspelled.code, 1);
  assert.match(misspelled.stderr, /Did you mean support\?/);
  assert.match((await runCli(["status", "6b1f0", ...at])).stdout, /support/);
  const ambiguous = await runCli(["status", "6b1f", ...at]);
  assert.equal(ambiguous.code, 1);
  assert.match(ambiguous.stderr, /not unique/);
});

test("follows the terminal, NO_COLOR, FORCE_COLOR, CI and TERM for colors", async () => {
  const colored = async (options: Parameters<typeof runCli>[1], ...flags: string[]) =>
    (await runCli(["env", "set", "x", "A=B", ...flags], options)).stderr.includes("\u001b[");
  assert.equal(await colored({}), false);
  assert.equal(await colored({ isTTY: true }), true);
  assert.equal(await colored({ isTTY: true }, "--no-color"), false);
  assert.equal(await colored({ isTTY: true, env: { NO_COLOR: "1" } }), false);
  assert.equal(await colored({ isTTY: true, env: { TERM: "dumb" } }), false);
  assert.equal(await colored({ isTTY: true, env: { CI: "true" } }), false);
  assert.equal(await colored({ env: { FORCE_COLOR: "1" } }), true);
  assert.equal(await colored({ env: { FORCE_COLOR: "1", NO_COLOR: "1" } }), false);
});

test("changes nothing when a delete is neither interactive nor confirmed with --yes", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [deployment], offset: 1 } }));
  const { code, stderr } = await runCli(["delete", "support", "--url", server.url]);
  assert.equal(code, 2);
  assert.match(stderr, /--yes/);
  assert.ok(server.asked.every(({ method }) => method === "GET"));
});

test("does not claim that a delete goes on when Ctrl-C comes before the response", async () => {
  const interrupt = new AbortController();
  await using server = await startAnswering(({ method }) => {
    if (method === "GET") return { status: 200, body: { resources: [deployment], offset: 1 } };
    interrupt.abort();
    return "silence";
  });
  const { code, stderr } = await runCli(["delete", "support", "--yes", "--url", server.url], {
    signal: interrupt.signal,
  });
  assert.equal(code, 2);
  assert.match(stderr, /Cancelled before the server confirmed the deletion of support/);
  assert.doesNotMatch(stderr, /goes on in the server/);
});

test("rejects an invalid timeout before any call with code 2", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [deployment], offset: 1 } }));
  await using source = await createDirectory({ "pierhead.json": '{"start": ["node", "server.js"]}' });
  for (const words of [
    ["delete", "support", "--yes"],
    ["deploy", source.directory],
    ["env", "unset", "support", "TOKEN"],
    ["redeploy", "support"],
  ]) {
    const { code, stderr, stdout } = await runCli([...words, "--timeout", "5x", "--json", "--url", server.url]);
    assert.equal(code, 2);
    assert.match(stderr, /"5x" is not a duration/);
    assert.equal((JSON.parse(stdout) as { error: { exit_code: number } }).error.exit_code, 2);
  }
  assert.deepEqual(server.asked, []);
});

test("stops waiting for stdin on Ctrl-C with code 2", { timeout: 20_000 }, async () => {
  await using server = await startAnswering(({ method }) =>
    method === "GET" ? { status: 200, body: { resources: [deployment], offset: 1 } } : { status: 500, body: {} },
  );
  for (const words of [
    ["env", "set", "support", "TOKEN"],
    ["env", "import", "support", "-"],
    ["api", "POST", "/v2/deployments", "-d", "-"],
    ["list", "--api-key-file", "-"],
    ["integrations", "create", "https://git.example.com/a", "--host", "git", "--token-stdin"],
    ["listener", "install", "--print", "--key-file", "-"],
    ["webhooks", "list", "--api-key-file", "-"],
  ]) {
    const stdin = new PassThrough();
    const interrupt = new AbortController();
    const waits = setInterval(
      () => stdin.listenerCount("readable") + stdin.listenerCount("end") > 0 && interrupt.abort(),
      20,
    );
    const { code, stderr } = await runCli([...words, "--url", server.url], { stdin, signal: interrupt.signal });
    clearInterval(waits);
    assert.equal(code, 2, words.join(" "));
    assert.equal(stderr, "Cancelled.\n", words.join(" "));
  }
  assert.ok(server.asked.every(({ method }) => method === "GET"));
});

test("distinguishes a truncated or filtered list from an empty one", async () => {
  await using server = await startAnswering(({ url }) => {
    const isFiltered = url.includes("text_contains");
    return { status: 200, body: { resources: isFiltered ? [] : [deployment], offset: 1 } };
  });
  const none = await runCli(["list", "--search", "other", "--url", server.url]);
  assert.equal(none.stderr, "No deployments match these filters.\n");
  const most = await runCli(["list", "--limit", "0", "--url", server.url]);
  assert.equal(most.stderr, "More deployments exist. Show them: --limit 100\n");
});

test("leaves out columns of a list that would wrap on a narrow terminal, and none elsewhere", async () => {
  const url = "https://support-6b1f0f64.agents.example.net";
  const body = { resources: [{ ...deployment, url }], offset: 1 };
  await using server = await startAnswering(() => ({ status: 200, body }));
  const head = async (more: object) => (await runCli(["list", "--url", server.url], more)).stdout.split("\n")[0];
  assert.match((await head({})) ?? "", /URL$/);
  assert.match((await head({ isTTY: true, columns: 200 })) ?? "", /URL/);
  const narrow = (await head({ isTTY: true, columns: 80, env: { NO_COLOR: "1" } })) ?? "";
  assert.match(narrow, /CHANGED +SOURCE$/);
});

test("completes commands, options and deployment names, and prints nothing without a server", async () => {
  await using server = await startAnswering(() => ({
    status: 200,
    body: { resources: [deployment, { ...deployment, name: "sales" }], offset: 2 },
  }));
  const at = { env: { PIERHEAD_URL: server.url } };
  const offered = async (...words: string[]) =>
    (await runCli(["__complete", "--", ...words], at)).stdout.trim().split("\n");
  assert.deepEqual(await offered("re"), ["redeploy", "restart", "retry", "restore"]);
  assert.deepEqual(await offered("env", ""), ["list", "set", "unset", "import"]);
  assert.deepEqual(await offered("logs", "--fo"), ["--follow"]);
  assert.deepEqual(await offered("logs", "su"), ["support"]);
  assert.deepEqual(await offered("--url", "http://x", "logs", "-n", "5", ""), ["support", "sales"]);
  assert.deepEqual(await offered("delete", "support", ""), ["sales"]);
  assert.deepEqual(await offered("di"), ["diff"]);
  assert.deepEqual(await offered("completion", "z"), ["zsh"]);
  const offline = await runCli(["__complete", "--", "status", ""], { env: { PIERHEAD_URL: "http://127.0.0.1:1" } });
  assert.deepEqual(offline, { code: 0, stdout: "", stderr: "" });
});

test("restore names a missing file instead of waiting for input", async () => {
  const missing = await runCli(["restore", "nowhere.tar.gz"]);
  assert.deepEqual(
    [missing.code, /Cannot read the file nowhere\.tar\.gz/.test(missing.stderr)],
    [2, true],
    missing.stderr,
  );
  const typed = await runCli(["restore", "-"], { isTTY: true });
  assert.equal(typed.code, 2);
  assert.match(typed.stderr, /pierhead restore - < backup\.tar\.gz/);
});

test("quotes the words of a printed command that a shell would split", async () => {
  await using project = await createDirectory({
    "north.yaml": 'tag: "sea=north sea"\ndeployments: {}\n',
    "all agents.yaml": "deployments:\n  support: { source: internal_template, template: node-server }\n",
  });
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [], offset: 0 } }));
  const plan = (file: string) => runCli(["plan", "--file", file, "--url", server.url], { cwd: project.directory });
  assert.match((await plan("north.yaml")).stderr, /pierhead admin tags add sea 'north sea'\n/);
  assert.match((await plan("all agents.yaml")).stderr, /pierhead apply --file 'all agents\.yaml'\n/);
});

test("pull names a deployment that a file cannot declare, and writes nothing", async () => {
  await using empty = await createDirectory();
  await using server = await startAnswering(({ url }) => {
    const resources = [deployment].filter(() => url.includes("support"));
    return { status: 200, body: { resources, offset: 0 } };
  });
  const pull = (...names: string[]) =>
    runCli(["pull", ...names, "--url", server.url, "--api-key-file", "-"], { cwd: empty.directory, stdin: "key" });
  const { code, stderr } = await pull("support", "bill ing");
  assert.equal(code, 1, stderr);
  assert.match(stderr, /^Error: support was deployed from a directory, which a file cannot declare\./);
  assert.match(stderr, /Leave it out: pierhead pull 'bill ing'\n/);
  assert.doesNotMatch((await pull("support")).stderr, /Leave it out/);
  assert.deepEqual(await readdir(empty.directory), []);
});

test("prints completion scripts that call this program and rejects an unknown shell", async () => {
  for (const shell of ["bash", "zsh", "fish", "pwsh"])
    assert.match((await runCli(["completion", shell])).stdout, /pierhead __complete/);
  assert.equal((await runCli(["completion", "tcsh"])).code, 2);
});

test("sends body and key of a raw call, prints the response, and sends the key to no other host", async () => {
  await using server = await startAnswering(() => ({ status: 201, body: { made: true } }));
  await using files = await createDirectory({ "body.json": '{"a": 1}' });
  const { code, stdout } = await runCli(["api", "post", "/v2/things", "-d", "@body.json", "--url", server.url], {
    cwd: files.directory,
  });
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(stdout), { made: true });
  assert.deepEqual(
    [server.asked[0]?.method, server.asked[0]?.url, server.asked[0]?.body],
    ["POST", "/v2/things", '{"a":1}'],
  );
  assert.equal((await runCli(["api", "GET", "https://example.invalid/x", "--url", server.url])).code, 2);
  assert.equal((await runCli(["api", "POST", "/x", "-d", "{", "--url", server.url])).code, 2);
});

test("reports when up is ready, stops on Ctrl-C, and explains a port in use", async () => {
  await using data = await createDirectory();
  const stop = new AbortController();
  let closed = 0;
  const startServer = (environment: Record<string, string | undefined>, options: { stopReplicasOnClose: boolean }) => {
    assert.equal(environment.PORT, "0");
    assert.equal(environment.PIERHEAD_DATA_DIR, data.directory);
    assert.equal(options.stopReplicasOnClose, true);
    setImmediate(() => stop.abort());
    return Promise.resolve({
      url: "http://127.0.0.1:9",
      credentials: { adminKey: "secret-key", workspaceId: "w" },
      close: async () => {
        closed += 1;
      },
    });
  };
  const up = await runCli(["up", "--json", "--port", "0", "--data-dir", data.directory, "--stop-agents-on-exit"], {
    startServer,
    signal: stop.signal,
  });
  assert.equal(up.code, 0);
  assert.equal(closed, 1);
  assert.equal((JSON.parse(up.stdout) as { url: string }).url, "http://127.0.0.1:9");
  assert.doesNotMatch(up.stdout + up.stderr, /secret-key/);

  const taken = await runCli(["up"], { startServer: () => Promise.reject(new Error("port 8124 is taken")) });
  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /The server did not start\.\n {2}port 8124 is taken\n.*pierhead doctor/);
});

test("doctor prints a fix for each problem and fails if there is one", async () => {
  await using data = await createDirectory();
  await writeFile(path.join(data.directory, "credentials.json"), "{}", { mode: 0o644 });
  const { code, stdout } = await runCli([
    "doctor",
    "--json",
    "--url",
    "http://127.0.0.1:1",
    "--data-dir",
    data.directory,
  ]);
  assert.equal(code, 1);
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; fix: string | null }[] };
  const bad = checks.filter(({ status }) => status === "failed").map(({ name }) => name);
  assert.ok(bad.includes("server") && bad.includes("key") && bad.includes("data directory"), bad.join());
  assert.ok(checks.every(({ status, fix }) => (status === "ok") === (fix === null)));
});

test("doctor checks the container engine when agents run in containers", async () => {
  await using data = await createDirectory();
  const environment = { PIERHEAD_COMPUTE: "docker", DOCKER_HOST: `unix://${data.directory}/no-engine.sock` };
  const { stdout } = await runCli(["doctor", "--json", "--url", "http://127.0.0.1:1", "--data-dir", data.directory], {
    env: environment,
  });
  const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; found: string; fix: string }[] };
  const { status, found, fix } = checks.find(({ name }) => name === "compute of up") ?? {};
  assert.equal(status, "failed");
  assert.match(`${found} ${fix}`, /no such socket.*DOCKER_HOST/);
});

test("removes control sequences from text of other origin", () => {
  assert.equal(harmless("a\u001b[2Jb\u001b]0;title\u0007c\rd\u202ee\tf\ng"), "abcde\tf\ng");
});

test("formats durations and columns and finds similar words", () => {
  assert.equal(duration(12_340), "12.3 s");
  assert.equal(duration(185_000), "3 min 05 s");
  assert.deepEqual(["90", "90s", "10m", "2h", "250ms"].map(parseDuration), [90_000, 90_000, 600_000, 7_200_000, 250]);
  assert.throws(() => parseDuration("soon"), { exitCode: 2 });
  assert.equal(parseMoment("1h", Date.parse("2026-01-01T10:00:00Z")), "2026-01-01T09:00:00.000Z");
  assert.equal(parseMoment("2026-01-01T10:00:00+02:00"), "2026-01-01T08:00:00.000Z");
  assert.equal(
    columns([
      ["a", "bb", "c"],
      ["aaa", "b", "cc"],
    ]),
    "a    bb  c\naaa  b   cc",
  );
  assert.deepEqual(nearest("suport", ["support", "sales", "report"]), ["support", "report"]);
});

test("uses no option that Node consumes after the program name", async () => {
  const flagsOf = ({ options = [], commands = [] }: CommandSpec): string[] => [
    ...options.flatMap(([notation]) => notation.match(/--[\w-]+/g) ?? []),
    ...commands.flatMap(flagsOf),
  ];
  const flags = [...new Set(commandTable.flatMap(flagsOf))];
  await using directory = await createDirectory({ "echo.js": "console.log(process.argv.slice(2).join(' '))" });
  const argv = flags.flatMap((flag) => [flag, "no-such-file"]);
  const program = path.join(directory.directory, "echo.js");
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...argv]);
  assert.equal(stdout.trim(), argv.join(" "));
});

test("a command that works alone runs although it has commands below it", async () => {
  const { stderr } = await runCli(["listener", "--port", "0"], { env: { PIERHEAD_URL: "http://127.0.0.1:9" } });
  assert.match(stderr, /no listener in this test/);
});
