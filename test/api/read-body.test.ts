import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import fc from "fast-check";
import type { FastifyReply, FastifyRequest } from "fastify";
import { BodyMemory } from "../../src/api/http/body-memory.ts";
import { JsonBounds } from "../../src/api/http/json-bounds.ts";
import { RequestLimits } from "../../src/api/http/rate-limit.ts";
import { readBody } from "../../src/api/http/read-body.ts";
import { noTrustedProxies } from "../../src/base/trusted-proxies.ts";
import { bodyLimits } from "../../src/contract/body-limits.ts";
import { ApiError } from "../../src/contract/error.ts";
import { operations } from "../../src/contract/operations.ts";
import { bodyTimeoutMs } from "../../src/domain/limits.ts";
import { eventually } from "../support/eventually.ts";

const operation = operations.submitAgentUsage;

/** A body that arrives as the test writes it. */
function arriving(memory = new BodyMemory()) {
  const socket = { remoteAddress: "192.0.2.1" };
  const raw = Object.assign(new PassThrough(), { headers: { "transfer-encoding": "chunked" }, socket });
  const response = new PassThrough();
  const request = { raw, principal: null } as unknown as FastifyRequest;
  const reply = { raw: response } as unknown as FastifyReply;
  const limits = new RequestLimits({ perS: 1_000, burst: 1_000 }, noTrustedProxies);
  return { raw, response, memory, limits, read: () => readBody({ request, reply, operation }, { memory, limits }) };
}

const codeOf = (error: unknown) => (error instanceof ApiError ? error.code : String(error));

test("returns the bytes of a body, however they are split", async () => {
  const bytes = randomBytes(bodyLimits.small.bytesMax).map((byte) => (byte % 10) + 0x30);
  const { raw, read } = arriving();
  const body = read();
  for (let at = 0; at < bytes.length; at += 7) raw.write(bytes.subarray(at, at + 7));
  raw.end();
  assert.deepEqual(await body, Buffer.from(bytes));
});

test("reserves memory for the bytes that arrived, and releases it when the response has ended", async () => {
  const { raw, response, memory, read } = arriving();
  const body = read();
  raw.end("{}");
  await body;
  assert.ok(memory.total > 0 && memory.total <= bodyLimits.small.bytesMax);
  response.destroy();
  await new Promise((resolve) => response.once("close", resolve));
  assert.equal(memory.total, 0);
});

test("refuses a body that stops arriving", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { raw, read } = arriving();
  const body = read().catch(codeOf);
  raw.write("{");
  context.mock.timers.tick(bodyTimeoutMs);
  assert.equal(await body, "bodyTooSlow");
});

test("counts a body whose sender disconnects as refused", async () => {
  const { raw, limits, read } = arriving();
  const counted: string[] = [];
  limits.countRefusedBody = (owner) => void counted.push(owner);
  const body = read().catch(codeOf);
  raw.write("{");
  raw.destroy();
  assert.equal(await body, "transport");
  assert.deepEqual(counted, ["submitAgentUsage 192.0.2.1"]);
});

test("refuses bodies above the memory share of their sender, of all senders without a key, and of all senders", () => {
  const memory = new BodyMemory({ totalMax: 100, anonymousMax: 50, keyMax: 40, addressMax: 30, workspaceShare: 0.5 });
  const take = (name: string, isAnonymous: boolean, bytes: number) => {
    try {
      memory.take({ name, isAnonymous, ownerId: null }, bytes);
      return "taken";
    } catch (error) {
      return codeOf(error);
    }
  };
  assert.equal(take("a", true, 30), "taken");
  assert.equal(take("a", true, 1), "tooManyRequests");
  assert.equal(take("b", true, 21), "unavailable");
  assert.equal(take("b", true, 20), "taken");
  assert.equal(take("key", false, 40), "taken");
  assert.equal(take("key", false, 1), "tooManyRequests");
  assert.equal(take("other", false, 11), "unavailable");
  memory.give({ name: "a", isAnonymous: true, ownerId: null }, 30);
  assert.equal(take("other", false, 40), "taken");
  assert.equal(memory.total, 100);
});

test("a body without a key that finds no memory holds none, and is refused after a second only", async () => {
  const memory = new BodyMemory({
    totalMax: 6_000,
    anonymousMax: 6_000,
    keyMax: 0,
    addressMax: 6_000,
    workspaceShare: 0.5,
  });
  const { raw, read } = arriving(memory);
  const beganAt = performance.now();
  let code: string | undefined;
  const body = read().catch((error) => {
    code = codeOf(error);
  });
  raw.write(" ".repeat(100));
  await eventually(
    () => memory.total,
    (total) => total > 0,
  );
  raw.write(" ".repeat(8_000));
  await eventually(
    () => memory.total,
    (total) => total === 0,
  );
  assert.equal(code, undefined, "it was refused at once");
  await body;
  assert.equal(code, "tooManyRequests");
  assert.ok(performance.now() - beganAt >= 990);
});

test("leaves memory to the next workspace, however many keys one workspace sends with", () => {
  const memory = new BodyMemory({ totalMax: 100, anonymousMax: 0, keyMax: 20, addressMax: 0, workspaceShare: 0.5 });
  const take = (name: string, ownerId: string, bytes: number) => {
    try {
      memory.take({ name, isAnonymous: false, ownerId }, bytes);
      return "taken";
    } catch (error) {
      return codeOf(error);
    }
  };
  for (const key of ["a", "b"]) assert.equal(take(key, "one", 20), "taken");
  assert.equal(take("c", "one", 20), "tooManyRequests");
  assert.equal(take("c", "one", 10), "taken");
  assert.equal(take("d", "two", 20), "taken");
  assert.equal(take("e", "two", 6), "tooManyRequests");
  memory.give({ name: "c", isAnonymous: false, ownerId: "one" }, 10);
  assert.equal(take("e", "two", 6), "taken");
});

test("counts the values and levels of any JSON text as they are, however it is split", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.integer({ min: 1, max: 7 }), (text, step) => {
      const { values, depth } = measure(JSON.parse(text));
      const bytes = Buffer.from(text);
      const scan = (valuesMax: number, depthMax: number) => {
        const bounds = new JsonBounds({ valuesMax, depthMax });
        try {
          for (let at = 0; at < bytes.length; at += step) bounds.scan(bytes.subarray(at, at + step));
          return "within";
        } catch (error) {
          return codeOf(error);
        }
      };
      // Duplicate keys count each time, but the parsed value has only the last one.
      assert.equal(scan(Math.max(values, text.length), depth), "within");
      if (depth > 0) assert.equal(scan(text.length, depth - 1), "bodyTooDeep");
      if (values > 1) assert.equal(scan(values - 2, depth), "bodyTooManyValues");
    }),
  );
});

/** Commas and brackets of the text of a value: one for each container, and one less than its members for each. */
function measure(value: unknown): { values: number; depth: number } {
  if (typeof value !== "object" || value === null) return { values: 0, depth: 0 };
  const inner = Object.values(value).map(measure);
  const commas = Math.max(0, inner.length - 1);
  return {
    values: inner.reduce((sum, one) => sum + one.values, commas + 1),
    depth: inner.reduce((most, one) => Math.max(most, one.depth), 0) + 1,
  };
}
