import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import type { OAuthProvider } from "../../src/contract/oauth/oauth-provider.ts";
import type { OAuthToken, TokenEvent } from "../../src/contract/oauth/oauth-token.ts";
import { type OAuthServer, startOAuthServer } from "../support/oauth-server.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { type RunOptions, runCli } from "./run-cli.ts";

let server: TestServer;
let as: OAuthServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  as = await startOAuthServer();
  await done(["auth", "providers", "add", "one", ...endpoints()], { stdin: `${secret}\n` });
});
after(async () => {
  await as[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});
beforeEach(() => {
  as.calls.length = 0;
});

const secret = "canary-client-secret";
const endpoints = () => [
  ...["--client-id", "c", "--auth-url", `${as.url}/authorize`, "--token-url", `${as.url}/token`],
  ...["--revocation-url", `${as.url}/revoke`, "--pkce"],
];
const cli = (argv: string[], options: RunOptions = {}) => runCli([...argv, "--data-dir", server.dataDir], options);
const done = async (argv: string[], options: RunOptions = {}) => {
  const ran = await cli(argv, options);
  assert.equal(ran.code, 0, `${argv.join(" ")}: ${ran.stderr}`);
  return ran;
};
const json = async <T>(argv: string[]) => JSON.parse((await done([...argv, "--json"])).stdout) as T;

/** Calls the redirect URI like the user's browser after a sign-in, with this answer. */
async function comeBack(address: string, answer: Record<string, string>): Promise<string> {
  const sent = new URL(address).searchParams;
  const back = new URL(sent.get("redirect_uri") ?? "");
  back.search = new URLSearchParams({ ...answer, state: sent.get("state") ?? "" }).toString();
  return (await fetch(back)).text();
}

/** Runs `auth connect` and calls the redirect URI with this answer as soon as the command shows the sign-in address. */
async function connect(argv: string[], answer: Record<string, string>, options: RunOptions = {}) {
  let page: Promise<string> | undefined;
  const ran = await cli(["auth", "connect", ...argv], {
    ...options,
    onStderr: (text) => {
      const [address] = /http:\S+\/authorize\?\S+/.exec(text) ?? [];
      if (address !== undefined) page ??= comeBack(address, answer);
    },
  });
  return { ...ran, page: await page };
}

test("guides a new user through registering a provider and shows its redirect URI", async () => {
  const first = await cli(["auth", "providers", "add", "github"]);
  assert.equal(first.code, 2);
  assert.match(first.stderr, /https:\/\/github\.com\/settings\/developers/);
  const [, redirectUri] = /Its redirect URI: +(\S+)/.exec(first.stderr) ?? [];
  const added = await done(["auth", "providers", "add", "github", "--client-id", "Iv1", "--verbose"], {
    stdin: `${secret}\n`,
  });
  assert.ok(!(added.stdout + added.stderr).includes(secret));
  assert.match(added.stdout, /Sign-in at +https:\/\/github\.com\/login\/oauth\/authorize\n/);
  assert.ok(added.stdout.endsWith(`Redirect URI  ${redirectUri}\n`), added.stdout);
  assert.match(added.stderr, /exactly the redirect URI above .* no other one of this server/);
  assert.match(added.stderr, /pierhead auth connect github/);
  const { providers } = await json<{ providers: OAuthProvider[] }>(["auth", "providers", "list"]);
  assert.deepEqual(
    providers.map(({ provider_id }) => provider_id),
    ["one", "github"],
  );
  assert.match((await done(["auth", "providers", "presets"])).stdout, /\nnotion +Notion +https:/);
  const strange = await cli(["auth", "providers", "add", "gitea", "--client-id", "c"], { stdin: secret });
  assert.deepEqual([strange.code, /--auth-url/.test(strange.stderr)], [2, true]);
  const bare = await cli(["auth", "providers", "add", "two", ...endpoints()]);
  assert.deepEqual([bare.code, /secret is missing/.test(bare.stderr)], [2, true]);
  const open = await json<OAuthProvider>(["auth", "providers", "add", "two", "--public", ...endpoints()]);
  assert.equal(open.token_endpoint_auth_method, "none");
  const renamed = await json<OAuthProvider>(["auth", "providers", "update", "two", "--name", "Second"]);
  assert.equal(renamed.name, "Second");
  assert.equal((await cli(["auth", "providers", "update", "two"])).code, 2);
  assert.equal((await cli(["auth", "providers", "delete", "two"])).code, 2);
  await done(["auth", "providers", "delete", "two", "--yes"]);
  assert.match((await cli(["auth", "providers", "show", "two"])).stderr, /There is no OAuth provider "two"/);
});

test("explains why an MCP server cannot be found", async () => {
  const { code, stderr } = await cli(["auth", "providers", "add", "tools", "--mcp", "http://127.0.0.1:1/mcp"]);
  assert.equal(code, 1);
  assert.match(stderr, /127\.0\.0\.1:1/);
});

test("shows the sign-in address and the connected account but never the token", async () => {
  const ran = await connect(["one", "read", "write", "--user", "alice"], { code: "canary-code" });
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.page ?? "", /<h1>Connected<\/h1>/);
  assert.match(ran.stderr, /Sign in to one as alice at this address:/);
  assert.equal(ran.stdout, "Connected: alice at one, with read write.\n");
  assert.doesNotMatch(ran.stdout + ran.stderr, /access-\d|refresh-\d|canary/);
  const again = await done(["auth", "connect", "one", "read", "--user", "alice"]);
  assert.match(again.stderr, /--again/);
  assert.equal(again.stdout, ran.stdout);

  const { tokens } = await json<{ tokens: OAuthToken[] }>(["auth", "tokens", "list", "--user", "alice"]);
  assert.deepEqual(
    tokens.map(({ provider_id, scopes }) => [provider_id, scopes]),
    [["one", ["read", "write"]]],
  );
  assert.match(
    (await done(["auth", "tokens", "list", "--user", "alice"])).stdout,
    /one +- +yes +in (1h|59m) +\d+s +read/,
  );
  const { events } = await json<{ events: TokenEvent[] }>(["auth", "tokens", "history", "--user", "alice"]);
  assert.deepEqual(
    events.map(({ event_type }) => event_type),
    ["connected"],
  );
  assert.match((await done(["auth", "tokens", "list"])).stderr, /--user NAME/);
  const id = tokens[0]?.id.slice(0, 8) ?? "";
  assert.equal((await cli(["auth", "tokens", "delete", id, "--user", "alice"])).code, 2);
  await done(["auth", "tokens", "delete", id, "--user", "alice", "--yes"]);
  assert.deepEqual(
    as.calls.filter(({ path }) => path === "/revoke").map(({ form }) => form["token_type_hint"]),
    ["refresh_token", "access_token"],
  );
  assert.equal((await cli(["auth", "tokens", "delete", id, "--user", "alice", "--yes"])).code, 1);
});

test("prints the connection as JSON and the sign-in address to stderr", async () => {
  const ran = await connect(["one", "--user", "bob", "--json"], { code: "canary-code" });
  const { status, user_id, token_id, url } = JSON.parse(ran.stdout);
  assert.deepEqual([status, user_id, url], ["completed", "bob", null]);
  assert.match(token_id, /^[0-9a-f-]{36}$/);
});

test("connects with the key of an agent", async () => {
  const key = (await done(["admin", "keys", "create", "helper", "--role", "agent"])).stdout.trim();
  const env = { PIERHEAD_API_KEY: key, PIERHEAD_URL: server.url };
  const ran = await connect(["one", "--agent", "helper"], { code: "canary-code" }, { env });
  assert.equal(ran.stdout, "Connected: the agent helper at one.\n", ran.stderr);
  const own = await connect(["one"], { code: "canary-code" }, { env });
  assert.equal(own.stdout, "Connected: this key's own user at one.\n", own.stderr);
});

test("explains a denied sign-in, an unknown provider and a timeout", async () => {
  const denied = await connect(["one", "--user", "carol"], { error: "access_denied" });
  assert.equal(denied.code, 1);
  assert.match(denied.stderr, /carol was not connected to one\.\n.*denied the access/);
  const unknown = await cli(["auth", "connect", "onee"]);
  assert.match(unknown.stderr, /There is no OAuth provider "onee"\.\n.*Did you mean one\?\n.*auth providers add onee/);
  const timedOut = await cli(["auth", "connect", "one", "--user", "dora", "--timeout", "100ms"]);
  assert.deepEqual([timedOut.code, /dora has not consented yet/.test(timedOut.stderr)], [8, true]);
  const unwaited = await cli(["auth", "connect", "one", "--user", "dora", "--no-wait"]);
  assert.equal(unwaited.code, 8);
  assert.match(unwaited.stdout, /^http:\S+\/authorize\?\S+\n$/);
  await comeBack(unwaited.stdout.trim(), { code: "canary-code" });
  assert.match((await done(["auth", "tokens", "list", "--user", "dora"])).stdout, /one/);
});
