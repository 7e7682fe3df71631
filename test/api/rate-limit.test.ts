import assert from "node:assert/strict";
import { test } from "node:test";
import { mintApiKey } from "../../src/auth/api-key.ts";
import { RateLimiter } from "../../src/base/rate-limiter.ts";
import { eventually } from "../support/eventually.ts";
import { startApi } from "./harness.ts";

/** One token per 10 s, so that none returns during a test on a busy machine unless the test waits for it. */
const t = await startApi({ rateLimit: { perS: 0.1, burst: 6 } });
const paced = await startApi({ rateLimit: { perS: 20, burst: 2 } });
const list = (key: string) => t.ask({ url: "/v2/deployments", key });

test("tells a key over its limit when to retry, admits it then, and does not affect other keys", async () => {
  const [greedy, modest] = [await t.mintKey(), await t.mintKey()];
  const answers = [];
  for (let i = 0; i < 8; i += 1) answers.push(await list(greedy));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [...Array(6).fill(200), 429, 429],
  );
  const refused = answers[6];
  const retryAfterS = Number(refused?.headers["retry-after"]);
  assert.ok(retryAfterS >= 1 && retryAfterS <= 10);
  assert.deepEqual(refused?.body, { detail: `Too many requests. Try again in ${retryAfterS} s.` });
  assert.equal((await list(modest)).status, 200);
  await eventually(
    async () => (await list(greedy)).status,
    (status) => status === 200,
  );
});

test("slows a client that sends without a pause to its rate, and refuses only part of a flood", async () => {
  const key = await paced.mintKey();
  const ask = async () => (await paced.ask({ url: "/v2/deployments", key })).status;
  const beganMs = performance.now();
  const connection = async () => {
    const statuses: number[] = [];
    for (let count = 0; count < 6; count += 1) statuses.push(await ask());
    return statuses;
  };
  const answers = (await Promise.all([connection(), connection(), connection()])).flat();
  assert.deepEqual(new Set(answers), new Set([200]));
  assert.ok(performance.now() - beganMs >= (18 - 2 - 1) * 50, "18 requests at 20 a second, of which 2 at once");
  const flood = await Promise.all(Array.from({ length: 60 }, ask));
  const refused = flood.filter((status) => status === 429).length;
  assert.ok(refused > 0 && refused < 60, `${refused} of 60 were refused`);
});

test("counts the keys of one organization that name no workspace together", async () => {
  const keys = await Promise.all([1, 2, 3].map(() => t.mintKey({ isOrganizational: true, tenant: t.stranger })));
  const ask = (key: string) => t.ask({ url: "/v2/admin/workspaces", key });
  const statuses = (await Promise.all(keys.flatMap((key) => [1, 2, 3, 4, 5].map(() => ask(key))))).map(
    ({ status }) => status,
  );
  assert.equal(statuses.filter((status) => status === 200).length, 2 * 6);
  assert.equal(statuses.filter((status) => status === 429).length, 3);
});

test("does not limit the listener protocol and operations without a key", async () => {
  const listenerKey = await t.mintKey({ role: "listener", isOrganizational: true, listenerId: t.deps.listenerId });
  for (let i = 0; i < 20; i += 1) {
    assert.equal((await t.ask({ url: "/ok", key: null })).status, 200);
    const beat = await t.ask({ method: "POST", url: "/dp/v1/heartbeat", key: listenerKey });
    assert.equal(beat.body.error, "stale_epoch");
  }
});

test("limits the wrong keys of an address, but admits every valid key", async () => {
  const inUse = await t.mintKey();
  const from = (remoteAddress: string, key: string) => t.ask({ url: "/v2/deployments", key, remoteAddress });
  assert.equal((await from("192.0.2.1", inUse)).status, 200);
  let wrong = await from("192.0.2.1", mintApiKey().key);
  assert.equal(wrong.status, 401);
  for (let i = 0; i < 2_000 && wrong.status !== 429; i += 1) wrong = await from("192.0.2.1", mintApiKey().key);
  assert.deepEqual([wrong.status, wrong.headers["retry-after"]], [429, "1"]);
  assert.equal((await from("192.0.2.1", inUse)).status, 200);
  assert.equal((await from("192.0.2.1", await t.mintKey())).status, 200);
  assert.equal((await from("192.0.2.2", mintApiKey().key)).status, 401);
});

test("counts an IPv6 network as one address", async () => {
  const from = (remoteAddress: string, key: string) => t.ask({ url: "/v2/deployments", key, remoteAddress });
  const statuses: number[] = [];
  for (let i = 0; i < 2_000 && statuses.at(-1) !== 429; i += 1) {
    statuses.push((await from(`2001:db8:0:1::${i.toString(16)}`, mintApiKey().key)).status);
  }
  assert.deepEqual([statuses[0], statuses.at(-1)], [401, 429]);
  assert.equal((await from("2001:db8:0:2::1", mintApiKey().key)).status, 401);
});

test("a limiter remembers a bounded number of names and forgets the oldest", () => {
  const limiter = new RateLimiter({ perS: 0.001, burst: 2 }, 100);
  for (let i = 0; i < 1_000; i += 1) assert.equal(limiter.take(`name-${i}`), 0);
  assert.equal(limiter.take("name-999"), 0);
  assert.ok(limiter.take("name-999") > 900_000);
  assert.ok(limiter.waitMs("name-999") > 900_000);
  assert.equal(limiter.waitMs("name-0"), 0);
});
