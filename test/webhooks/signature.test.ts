import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import { deliveryAttemptsMax, nextAttemptInMs } from "../../src/domain/webhook-schedule.ts";
import { signedHeaders } from "../../src/webhooks/signature.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

test("signs as the Standard Webhooks specification requires", () => {
  const message = { id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330, body: '{"test": 2432232314}' };
  assert.deepEqual(signedHeaders(message, [secret]), {
    "webhook-id": message.id,
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
});

test("the standardwebhooks library accepts our signatures during a rotation of the secret, and refuses a changed body", () => {
  const body = '{"type":"revision.status"}';
  const timestamp = Math.floor(Date.now() / 1_000);
  const headers = signedHeaders({ id: "msg_1", timestamp, body }, ["whsec_bmV3LXNlY3JldC1vZi10aGUtdGVzdA==", secret]);
  assert.deepEqual(new Webhook(secret).verify(body, headers), { type: "revision.status" });
  assert.throws(() => new Webhook(secret).verify(`${body} `, headers), /signature/i);
});

test("the receiver in docs/guides/events.md accepts signed messages, and refuses changed or old ones and other secrets", async () => {
  const code = /```ts\n(import \{ createHmac[\s\S]*?)```/.exec(await readFile("docs/guides/events.md", "utf8"))?.[1];
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-verify-"));
  try {
    const file = path.join(directory, "verify.mts");
    await writeFile(file, code ?? "");
    const { verify } = (await import(file)) as { verify(secret: string, headers: Headers, body: string): object };
    const body = '{"type":"revision.status"}';
    const now = Math.floor(Date.now() / 1_000);
    const headers = (timestamp: number, secrets = [secret]) =>
      new Headers(signedHeaders({ id: "m", timestamp, body }, secrets));
    assert.deepEqual(verify(secret, headers(now), body), { type: "revision.status" });
    assert.deepEqual(verify(secret, headers(now, ["whsec_AAAA", secret]), body), { type: "revision.status" });
    assert.throws(() => verify(secret, headers(now), `${body} `), /signature/);
    assert.throws(() => verify("whsec_AAAA", headers(now), body), /signature/);
    assert.throws(() => verify(secret, headers(now - 600), body), /old/);
    assert.throws(() => verify(secret, new Headers(), body), /old/);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("makes 13 attempts in about a day, with waits that never shrink, spread by a quarter", () => {
  const waits = (random: number) =>
    Array.from({ length: deliveryAttemptsMax - 1 }, (_, index) => nextAttemptInMs(index + 1, random) ?? Number.NaN);
  const total = waits(0.5).reduce((sum, wait) => sum + wait, 0);
  assert.equal(deliveryAttemptsMax, 13);
  assert.ok(total > 22 * 3_600_000 && total < 28 * 3_600_000, String(total));
  assert.ok(waits(0.5).every((wait, index, all) => index === 0 || wait >= (all[index - 1] ?? 0)));
  assert.deepEqual(
    waits(0).map((low, index) => Math.round((100 * low) / (waits(1)[index] ?? 1))),
    Array(12).fill(60),
  );
  assert.equal(nextAttemptInMs(deliveryAttemptsMax, 0.5), null);
  assert.equal(nextAttemptInMs(1, 0.5, 60_000), 60_000);
  assert.ok((nextAttemptInMs(1, 0.5, 1e12) ?? Number.NaN) <= 4.5 * 3_600_000);
});
