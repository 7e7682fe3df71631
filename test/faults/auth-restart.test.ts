import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { type Client, createClient } from "../../src/client/client.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startOAuthServer } from "../support/oauth-server.ts";

/** The tests kill or stop this server while the provider withholds its response, and then start it again. */
const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-auth-restart-"));
const environment = { PORT: String(await freePort()), PIERHEAD_COMPUTE: "none" };
const as = await startOAuthServer();
const honest = as.answer;
let server = await start();
after(async () => {
  await server.stop();
  await as[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(): Promise<ServerProcess> {
  const started = await startServerProcess(dataDir, environment);
  assert.ok(started);
  return started;
}

async function restart(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
  server.child.kill(signal);
  await server.ended;
  server = await start();
}

const clientOf = (userId: string): Client => createClient({ baseUrl: server.url, apiKey: server.apiKey, userId });
const ask = (user: string) => clientOf(user).authenticate({ body: { provider: "one", scopes: ["read"] } as never });
const events = async (user: string) =>
  (await clientOf(user).listTokenEvents({ limit: 10 })).map(({ event_type, reason }) => [event_type, reason]);

async function begin(user: string) {
  const { url, auth_id: authId } = await ask(user);
  const sent = new URL(url ?? "").searchParams;
  const back = new URL(sent.get("redirect_uri") ?? "");
  back.search = new URLSearchParams({ code: "c", state: sent.get("state") ?? "" }).toString();
  return { authId: authId ?? "", comeBack: () => fetch(back) };
}

/** Makes the provider accept requests without a response until `answer` is called. */
function hold() {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  as.calls.length = 0;
  as.answer = async (call) => {
    await released;
    return honest(call);
  };
  const asked = () =>
    eventually(
      () => as.calls.length,
      (count) => count > 0,
      { what: "a call to the provider" },
    );
  return { asked, answer: release };
}

await clientOf("admin").createOAuthProvider({
  body: {
    ...{ provider_id: "one", name: "One", client_id: "c", client_secret: "s" },
    auth_url: `${as.url}/authorize`,
    token_url: `${as.url}/token`,
  },
});

test("reports a sign-in that was interrupted by a crash, and the user can sign in again", async () => {
  const { authId, comeBack } = await begin("alice");
  const provider = hold();
  const page = comeBack().catch(() => undefined);
  await provider.asked();
  await restart("SIGKILL");
  provider.answer();
  await page;
  const beganAtMs = Date.now();
  const { status } = await clientOf("alice").waitForAuth({ auth_id: authId, timeout: 60 }, { deadlineMs: 90_000 });
  assert.equal(status, "not_found");
  assert.ok(Date.now() - beganAtMs < 45_000, "the wait must end early, because this sign-in cannot complete");
  assert.deepEqual(await events("alice"), [["flow_failed", "interrupted"]]);
  as.answer = honest;
  const again = await begin("alice");
  assert.notEqual(again.authId, authId);
  assert.equal((await again.comeBack()).status, 200);
  assert.equal((await ask("alice")).status, "completed");
});

test("keeps the token when the server dies during a refresh, and refreshes it after the restart", async () => {
  as.answer = () => ({ json: { access_token: "old", refresh_token: "kept", token_type: "bearer", expires_in: 1 } });
  assert.equal((await (await begin("bob")).comeBack()).status, 200);
  const provider = hold();
  // Plain fetch, because the client would retry the request on the next server.
  const asking = fetch(`${server.url}/v2/auth/authenticate`, {
    method: "POST",
    headers: { "x-api-key": server.apiKey, "x-user-id": "bob" },
    body: JSON.stringify({ provider: "one", scopes: ["read"] }),
  }).catch(() => undefined);
  await provider.asked();
  await restart("SIGKILL");
  provider.answer();
  await asking;
  as.calls.length = 0;
  as.answer = honest;
  const { status, token } = await ask("bob");
  assert.deepEqual([status, token?.startsWith("access-")], ["completed", true]);
  assert.deepEqual(
    as.calls.map(({ form }) => form["refresh_token"]),
    ["kept"],
  );
  assert.deepEqual((await events("bob"))[0], ["refreshed", null]);
});

test("finishes a sign-in that is in progress before the server stops", async () => {
  const { authId, comeBack } = await begin("carol");
  const provider = hold();
  const page = comeBack();
  await provider.asked();
  server.child.kill("SIGTERM");
  // The server accepts no new connections, but it still runs.
  await eventually(
    () =>
      fetch(`${server.url}/ok`).then(
        () => false,
        () => true,
      ),
    (isClosed) => isClosed,
  );
  provider.answer();
  await page.catch(() => undefined);
  await server.ended;
  server = await start();
  assert.equal((await clientOf("carol").waitForAuth({ auth_id: authId, timeout: 0 })).status, "completed");
  assert.equal((await ask("carol")).status, "completed");
});
