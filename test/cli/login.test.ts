import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { startAnswering } from "../client/answering.ts";
import { createDirectory, type RunOptions, runCli } from "./run-cli.ts";

const [one, two] = ["6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11", "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a22"];

/** A server that accepts one key. It records every key that it gets. */
async function startServer(key: string, workspaces = [{ id: one, name: "Search" }]) {
  const server = await startAnswering(({ url, headers }) => {
    if (headers["x-api-key"] !== key) return { status: 401, body: { detail: "Invalid token" } };
    if (!url.startsWith("/v2/session")) return { status: 200, body: { resources: [], offset: 0 } };
    const of = { role: "admin", scope: "workspace", organization_id: one };
    const rest = { workspace_id: workspaces.length === 1 ? workspaces[0]?.id : null, expires_at: null };
    const body = { api_key_id: one, member_id: null, name: "ci\u001b[31m", ...of, ...rest };
    return { status: 200, body: { ...body, workspaces: workspaces.map((own) => ({ ...own, ...of })) } };
  });
  const keys = () => server.asked.map(({ headers }) => headers["x-api-key"]);
  const last = () => server.asked.at(-1)?.headers;
  return { url: server.url, keys, last, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

async function createUser() {
  const home = await createDirectory();
  const env = { PIERHEAD_CONFIG_DIR: path.join(home.directory, "config"), PIERHEAD_DATA_DIR: "" };
  const run = (argv: string[], options: RunOptions = {}) =>
    runCli(argv, { ...options, env: { ...env, ...options.env } });
  const file = path.join(env.PIERHEAD_CONFIG_DIR, "contexts.json");
  return { run, file, [Symbol.asyncDispose]: () => home[Symbol.asyncDispose]() };
}

test("login stores a key that the server accepts, readable by its owner only, and commands use it", async () => {
  await using server = await startServer("good");
  await using user = await createUser();
  const refused = await user.run(["login", server.url], { stdin: "bad\n" });
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /rejected this key. Nothing was stored/);
  await assert.rejects(stat(user.file));

  const { code, stdout, stderr } = await user.run(["login", server.url, "--name", "team"], { stdin: "good\n" });
  assert.equal(code, 0, stderr);
  assert.equal(stdout, "team\n");
  for (const hidden of ["good", "\u001b"]) assert.ok(!(stdout + stderr).includes(hidden));
  assert.equal((await stat(user.file)).mode & 0o777, 0o600);
  assert.equal((await stat(path.dirname(user.file))).mode & 0o777, 0o700);

  assert.equal((await user.run(["list"])).code, 0);
  assert.deepEqual([server.last()?.["x-api-key"], server.last()?.["x-tenant-id"]], ["good", one]);
  const { stdout: who } = await user.run(["whoami"]);
  assert.match(who, /server +http:\/\/127.0.0.1:\d+ \(from context team\)\nkey +ci \(admin, workspace;/);
  const listed = await user.run(["context", "list", "--json"]);
  assert.deepEqual(JSON.parse(listed.stdout), {
    current: "team",
    contexts: [{ name: "team", url: server.url, workspace_id: one }],
  });
  const alone = await user.run(["context"]);
  assert.deepEqual([alone.code, alone.stdout], [0, (await user.run(["context", "list"])).stdout]);
  assert.match(alone.stdout, /^\* +team /m);
  const misspelled = await user.run(["context", "lits"]);
  assert.deepEqual([misspelled.code, misspelled.stdout], [2, ""]);
  assert.match(misspelled.stderr, /unknown command 'lits' \(context has: list, use\)/);
  assert.equal((await user.run(["logout"])).code, 0);
  assert.ok(!(await readFile(user.file, "utf8")).includes("good"));
});

test("one machine uses several servers and workspaces, and no key reaches another server", async () => {
  await using first = await startServer("key-1", [
    { id: one, name: "Search" },
    { id: two, name: "Support" },
  ]);
  await using second = await startServer("key-2");
  await using data = await createDirectory({
    "credentials.json": JSON.stringify({ url: second.url, workspace_id: two, api_key: "key-2" }),
  });
  await using user = await createUser();
  for (const workspace of ["Search", "Support"]) {
    const signedIn = await user.run(["login", first.url, "--workspace", workspace, "--name", workspace.toLowerCase()], {
      stdin: "key-1",
    });
    assert.equal(signedIn.code, 0, signedIn.stderr);
  }
  assert.equal((await user.run(["login", second.url, "--name", "search"], { stdin: "key-2" })).code, 2);
  assert.equal((await user.run(["login", second.url, "--name", "local"], { stdin: "key-2" })).code, 2);
  assert.equal((await user.run(["login", first.url, "--workspace", "Nowhere"], { stdin: "key-1" })).code, 4);

  const workspaceOf = async (argv: string[], options?: RunOptions) => {
    await user.run(["list", ...argv], options);
    return first.last()?.["x-tenant-id"];
  };
  assert.equal(await workspaceOf([]), two, "the last login is the current context");
  assert.equal(await workspaceOf(["--context", "search"]), one);
  assert.equal((await user.run(["context", "use", "search"])).code, 0);
  assert.equal(await workspaceOf([]), one);
  assert.equal(await workspaceOf(["--workspace", two]), two);
  assert.equal(await workspaceOf([], { env: { PIERHEAD_WORKSPACE: two } }), two);

  // Flags go before the environment, the environment before the context.
  const environment = { env: { PIERHEAD_URL: first.url, PIERHEAD_API_KEY: "key-1" } };
  assert.equal((await user.run(["list", "--data-dir", data.directory], environment)).code, 0);
  assert.equal(second.last()?.["x-api-key"], "key-2");
  assert.equal((await user.run(["list", "--url", second.url], environment)).code, 4);
  assert.equal((await user.run(["list", "--context", "search"], { env: { PIERHEAD_API_KEY: "key-3" } })).code, 0);
  await user.run(["list"], { env: { PIERHEAD_DATA_DIR: data.directory } });
  assert.equal(second.last()?.["x-api-key"], "key-2");
  assert.equal((await user.run(["list"], { env: { PIERHEAD_URL: second.url } })).code, 4, "no key for this server");
  assert.equal((await user.run(["list", "--context", "gone"])).code, 2);

  assert.deepEqual([...new Set(first.keys())], ["key-1"]);
  assert.deepEqual([...new Set(second.keys())].sort(), ["key-2", undefined]);
  const { stdout } = await user.run(["__complete", "--", "context", "use", "s"]);
  assert.deepEqual(stdout.split("\n"), ["search", "support", ""]);
});

test("login refuses an address with a password, and a missing key", async () => {
  await using user = await createUser();
  assert.equal((await user.run(["login", "http://u:p@127.0.0.1:1"], { stdin: "k" })).code, 2);
  assert.equal((await user.run(["login", "ftp://127.0.0.1:1"], { stdin: "k" })).code, 2);
  assert.equal((await user.run(["login", "http://127.0.0.1:1"], { stdin: "" })).code, 2);
  const { code, stderr } = await user.run(["login"], { stdin: "k" });
  assert.equal(code, 2);
  assert.match(stderr, /pierhead login https:/);
});
