import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { runCli } from "../cli/run-cli.ts";
import { deploymentNowhere } from "../support/call-api.ts";
import { startWithTwoWorkspaces } from "./two-workspaces.ts";

// A colleague with less rights chooses names and texts that an administrator lists on a terminal.
const world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "none" });
after(() => world[Symbol.asyncDispose]());
const { url } = world.pierhead;
const { api, apiKey } = world.victim;

/** Clears the screen, sets the title, hides text, moves the cursor with one byte of C1, and turns text around. */
const hostile = ["\u001b[2J", "\u001b]0;title\u0007", "\u001b[8m", "\u009b2J", "\u007f", "\u202e", "\u2066", "\r"];
const row = "2026-01-01 00:00:00  operator  key.create";

const refused = async (path: string, body: object) => {
  const headers = { "x-api-key": apiKey, "content-type": "application/json" };
  return (await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).status === 422;
};

const listed = async (...argv: string[]) => {
  const env = { PIERHEAD_URL: url, PIERHEAD_API_KEY: apiKey, FORCE_COLOR: "1" };
  const { code, stdout, stderr } = await runCli(argv, { env, isTTY: true, columns: 200 });
  assert.equal(code, 0, stderr);
  return stdout + stderr;
};

/** Fails for every control character but tabs, line breaks and colors. */
function assertHarmless(text: string, what: string): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
  const found = text.replace(/\u001b\[\d\d?m/g, "").match(/[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]|\u001b\[8m/u);
  assert.equal(found, null, `${what}: ${JSON.stringify(text)}`);
  assert.ok(!new RegExp(`^${row}`, "m").test(text), `${what} has a forged row:\n${text}`);
}

test("names and addresses with control characters are refused", async () => {
  const endpoints = { auth_url: "https://id.example.org/a", token_url: "https://id.example.org/t", client_id: "c" };
  for (const text of [...hostile.filter((one) => !/[\u2000-\u2fff]/.test(one)), `\n${row}`]) {
    const name = `a${text}b`;
    assert.ok(await refused("/v2/auth/providers", { provider_id: "p", name, ...endpoints }), JSON.stringify(name));
    assert.ok(await refused("/v2/admin/members", { email: `${name}@example.org`, role: "reader" }), name);
    const host = { host: "gitea", url: "https://git.example.org", token: "t" };
    assert.ok(await refused("/v2/integrations", { ...host, name }), JSON.stringify(name));
    assert.ok(await refused("/v2/admin/api-keys", { name, role: "reader" }), JSON.stringify(name));
  }
});

test("texts of others neither control a terminal nor forge a row of a list", async () => {
  for (const text of [...hostile, `\n${row}`]) {
    await api.request("POST", "/v2/webhooks", { url: "https://hooks.example.org/", description: `a${text}b` });
    await api.request("POST", "/v2/deployments", {
      ...deploymentNowhere,
      name: `d-${hostile.indexOf(text) + 1}`,
      source_revision_config: {
        ...deploymentNowhere.source_revision_config,
        repo_ref: /[\u0080-\u2fff]/.test(text) ? `a${text}b` : "main",
      },
    });
  }
  const lists = [["webhooks", "list"], ["list"], ["admin", "audit"], ["events"], ["status", "d-4"], ["status", "d-6"]];
  for (const argv of lists) {
    assertHarmless(await listed(...argv), argv.join(" "));
    const json = await listed(...argv, "--json");
    assertHarmless(json, `${argv.join(" ")} --json`);
  }
  assertHarmless(await listed("api", "GET", "/v2/webhooks"), "api");
});

test("a server that is hostile itself does not control the terminal", async () => {
  for (const text of [...hostile, `\n${row}`]) {
    const secrets = [{ name: `a${text}b`, value: "" }];
    await using server = await startAnswering({ resources: [{ id: deploymentNowhere.name, name: "x", secrets }] });
    const env = { PIERHEAD_URL: server.url, PIERHEAD_API_KEY: apiKey, FORCE_COLOR: "1" };
    assertHarmless((await runCli(["env", "list", "x"], { env, isTTY: true, columns: 200 })).stdout, "env list");
    await using refusing = await startAnswering({ detail: `a${text}b` }, 400);
    const checked = await runCli(["doctor"], {
      env: { ...env, PIERHEAD_URL: refusing.url },
      isTTY: true,
      columns: 200,
    });
    assertHarmless(checked.stdout + checked.stderr, "doctor");
  }
});

test("a login says when its page belongs to another address than the server that asked for it", async () => {
  const started = {
    device_code: "d",
    user_code: "WDJB-MJHT",
    expires_in: 60,
    interval: 0.01,
    key: null,
    status: "refused",
  };
  const elsewhere = { ...started, verification_uri: "https://pierhead.example.org/host/device" };
  await using relay = await startAnswering(elsewhere);
  const warned = await runCli(["login", relay.url, "--browser"], { isTTY: false });
  assert.match(warned.stderr, /This page is not at http:\/\/127.*Type the code only if/);
  const { code, stderr } = await runCli(["login", url, "--browser"], {
    isTTY: false,
    signal: AbortSignal.timeout(3_000),
  });
  assert.ok(code !== 0 && stderr.includes("type this code") && !stderr.includes("This page is not at"), stderr);
});

/** Starts a server that answers every request with this. */
async function startAnswering(body: object, status = 200) {
  const server = createServer((_, response) => {
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, [Symbol.asyncDispose]: async () => void server.close().closeAllConnections() };
}

test("JSON on a terminal is the answer of the server", async () => {
  const text = await listed("api", "GET", "/v2/webhooks");
  assert.deepEqual(JSON.parse(text), await api.request("GET", "/v2/webhooks"));
});
