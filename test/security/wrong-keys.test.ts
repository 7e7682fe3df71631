import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Agent, request } from "node:http";
import { test } from "node:test";
import { mintApiKey } from "../../src/auth/api-key.ts";
import { startTestServer } from "../support/server.ts";

interface Sent {
  key?: string;
  cookie?: string;
  forwardedFor?: string;
}

/** Sends requests over connections that stay open, because a flood comes over few of them. */
function sender(url: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: 32 });
  const send = ({ key, cookie, forwardedFor }: Sent) =>
    new Promise<number>((resolve, reject) => {
      const headers = {
        ...(key !== undefined && { "x-api-key": key }),
        ...(cookie !== undefined && { cookie, "x-pierhead-console": "1" }),
        ...(forwardedFor !== undefined && { "x-forwarded-for": forwardedFor }),
      };
      const sent = request(`${url}/v2/deployments`, { agent, headers }, (answer) => {
        answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
      });
      sent.on("error", reject).end();
    });
  return { send, [Symbol.dispose]: () => agent.destroy() };
}

/** Sends wrong keys from one address until it is over its limit. @returns the statuses. */
async function flood(send: (sent: Sent) => Promise<number>, about: Sent = {}): Promise<number[]> {
  const statuses: number[] = [];
  while (!statuses.includes(429) && statuses.length < 5_000) {
    statuses.push(...(await Promise.all(Array.from({ length: 50 }, () => send({ ...about, key: mintApiKey().key })))));
  }
  return statuses;
}

test("a flood of wrong keys does not lock out valid keys and sessions of the same address, also new ones", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  using from = sender(server.url);
  const made = async (role: "reader" | "deployer") =>
    (await server.client.createApiKey({ body: { name: role, role } })).key;
  const signIn = await fetch(`${server.url}/v2/session`, {
    method: "POST",
    headers: { "x-pierhead-console": "1", "content-type": "application/json" },
    body: JSON.stringify({ api_key: server.apiKey }),
  });
  const [cookie = ""] = String(signIn.headers.get("set-cookie")).split(";");
  const neverUsed = [await made("reader"), await made("deployer")];

  const statuses = await flood(from.send);
  assert.ok(statuses.includes(429), "wrong keys are limited");
  assert.ok(statuses.every((status) => status === 401 || status === 429));
  const flooding = flood(from.send);
  for (const key of neverUsed) assert.equal(await from.send({ key }), 200, "a valid key was locked out");
  assert.equal(await from.send({ cookie }), 200, "a session was locked out");
  await flooding;
});

test("wrong keys of one client behind a trusted proxy do not count for the other clients", async () => {
  await using server = await startTestServer({
    PIERHEAD_COMPUTE: "simulated",
    PIERHEAD_TRUSTED_PROXIES: "127.0.0.1, 10.0.0.0/8",
  });
  using from = sender(server.url);
  assert.ok((await flood(from.send, { forwardedFor: "198.51.100.7" })).includes(429));
  const wrong = () => ({ key: `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}` });
  const status = (forwardedFor: string) => from.send({ ...wrong(), forwardedFor });
  assert.equal(await status("198.51.100.8"), 401);
  assert.equal(await status("198.51.100.8, 10.1.2.3"), 401, "the second proxy is trusted too");
  const spoofed = await Promise.all(Array.from({ length: 50 }, () => status("203.0.113.9, 198.51.100.7")));
  assert.ok(spoofed.includes(429), "a client cannot choose its own address");
});

test("a client cannot choose its address by a forwarded header of an untrusted peer", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  using from = sender(server.url);
  let at = 0;
  const statuses: number[] = [];
  while (!statuses.includes(429) && statuses.length < 5_000) {
    const some = Array.from({ length: 50 }, () =>
      from.send({ key: mintApiKey().key, forwardedFor: `198.51.100.${at++ % 250}` }),
    );
    statuses.push(...(await Promise.all(some)));
  }
  assert.ok(statuses.includes(429));
});
